// Sets of rows that grow together.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace sparsecluster {

// Disjoint sets of 0 .. n-1; each is known by its lowest number.
class Components {
public:
    explicit Components(int64_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }

    int32_t find(int32_t i) {
        while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
        return i;
    }
    // Answers whether they were two.
    bool unite(int32_t i, int32_t j) {
        i = find(i);
        j = find(j);
        if (i == j) return false;
        parent_[std::max(i, j)] = std::min(i, j);
        return true;
    }

private:
    std::vector<int32_t> parent_;
};

}  // namespace sparsecluster
