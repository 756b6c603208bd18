// Greedy k-means++ (Arthur and Vassilvitskii 2007), exact: a float32 screen over the columns of the rows
// finds the few rows that a candidate could be nearest to, and only these are measured, in float64. Where there are many
// seeds, the candidates of many steps are drawn ahead and looked into together (pooled_steps.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/rows.hpp"

namespace sparsecluster {

struct SeedOptions {
    int64_t n_clusters = 1;
    int64_t n_candidates = 1;   // drawn per step
    int64_t first = 0;          // the row of the first center
    int64_t n_single = 1024;    // so many centers are found step by step, the others by steps in pools
    const double* draws = nullptr;    // n_candidates uniform numbers in [0, 1) for each single step
    uint64_t seed = 0;                // of the draws of pools
    const double* weights = nullptr;  // of the rows, or null
    double floor = 0;           // rows are drawn in proportion to weight * (squared distance + floor)
    int64_t memory_limit = INT64_MAX;  // bytes for the copy of the rows by column, which is done without else
    int n_threads = 1;
    std::function<void(int64_t)> on_center = nullptr;  // called with the number of centers so far; may throw
};

struct Seeds {
    std::vector<int64_t> rows;  // fewer than n_clusters where there are fewer distinct rows
    double potential = 0;       // weighted sum of the squared distances to the nearest seed
};

Seeds greedy_kmeans_plusplus(const Rows& rows, const SeedOptions& options);

}  // namespace sparsecluster
