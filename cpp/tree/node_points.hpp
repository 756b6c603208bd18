// The rows of one node as k-means has them: with their weights, and what they are compared by.
#pragma once

#include <cstdint>
#include <vector>

#include "tree/node_rows.hpp"
#include "tree/split.hpp"

namespace sparsecluster {

template <class V>
struct NodePoints {
    NodeRows<V> rows;
    std::vector<double> weights;  // per row; empty for ones
    double norms = 0;             // weighted sum of the squared norms
    double total_weight = 0;
    bool unit = false;            // centers are directions
    int n_threads = 1;

    void load(const Rows& matrix, const int32_t* ids, int64_t n, const SplitOptions& options, int threads) {
        unit = options.unit, n_threads = threads;
        rows.load(matrix, ids, n, n_threads);
        weights.clear();
        for (int64_t i = 0; options.weights && i < n; ++i) weights.push_back(options.weights[ids[i]]);
        norms = total_weight = 0;
        for (int64_t i = 0; i < n; ++i) norms += weight(i) * rows.norm2(i), total_weight += weight(i);
    }
    int64_t size() const { return rows.size(); }
    double weight(int64_t i) const { return weights.empty() ? 1.0 : weights[i]; }
    // Whether a row has a say where centers are, and so can be one to start from.
    bool counts(int64_t i) const { return weight(i) > 0 && !(unit && rows.norm2(i) == 0); }
    // Squared distance to a center, but for the score.
    double norms_with_center(int64_t i) const { return rows.norm2(i) + (unit ? 1.0 : 0.0); }
};

}  // namespace sparsecluster
