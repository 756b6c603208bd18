// Passes over the labels of all rows, which every iteration makes some of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sparsecluster {

// Whether all of n labels are at least `least`, and below the number of clusters.
bool labels_within(const int32_t* labels, int64_t n, int64_t n_clusters, int32_t least);

// How many of n rows have each label; of those with a weight above zero, if there are weights.
std::vector<int64_t> count_labels(const int32_t* labels, const double* weights, int64_t n, int64_t n_clusters);

// Calls visit(row) with the rows from begin to end whose labels are not what they were. Most labels stay, so some at a time
// are looked at together.
template <class Visit>
void for_relabeled(const int32_t* labels, const int32_t* before, int64_t begin, int64_t end, const Visit& visit) {
    constexpr int64_t kSome = 64;
    for (int64_t from = begin; from < end; from += kSome) {
        const int64_t to = std::min(from + kSome, end);
        int32_t unlike = 0;
        for (int64_t i = from; i < to; ++i) unlike |= labels[i] ^ before[i];
        for (int64_t i = from; unlike != 0 && i < to; ++i)
            if (labels[i] != before[i]) visit(i);
    }
}

}  // namespace sparsecluster
