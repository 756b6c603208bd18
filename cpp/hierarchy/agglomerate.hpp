// Agglomeration without distances of all pairs, for linkages that follow from the sums and sizes of two clusters:
// Ward, centroid, and the average of squared distances.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/rows.hpp"

namespace sparsecluster {

// What a merge costs, of clusters of sizes a and b whose means are d apart.
enum class Linkage {
    ward,      // 2 a b / (a + b) d^2
    centroid,  // d^2
    average,   // the mean of |x - y|^2 over all pairs: d^2 and the mean squared distances within both clusters
};
Linkage linkage_named(const std::string& name);

struct AgglomerateOptions {
    Linkage linkage = Linkage::ward;
    bool unit = false;                // rows are scaled to unit length
    const double* weights = nullptr;  // sizes to start from; null for ones
    int64_t cache_bytes = int64_t(32) << 20;
    int n_threads = 1;
    std::function<void(int64_t)> on_merge;  // called with the number of merges so far; may be empty
};

// The merges in the order of their costs, each the cheapest there is; where two cost the same, the one of the lowest
// indices comes first. A cluster goes by the lowest of its rows.
struct Merges {
    std::vector<int64_t> one, other;  // one < other
    std::vector<double> cost;
};
Merges agglomerate(const Rows& rows, const AgglomerateOptions& options);

}  // namespace sparsecluster
