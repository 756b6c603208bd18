// The rows of one node as k-means has them: with their weights, and what they are compared by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/scaling.hpp"
#include "tree/node_rows.hpp"
#include "tree/split.hpp"

namespace sparsecluster {

template <class V>
struct NodePoints {
    NodeRows<V> rows;
    std::vector<double> weights;  // per row, of which the largest is between 1 and 2; empty for ones
    double weight_scale = 1;      // times which they are those that were given
    double norms = 0;             // weighted sum of the squared norms
    double total_weight = 0;
    bool unit = false;            // centers are directions
    int n_threads = 1;

    void load(const Rows& matrix, const int32_t* ids, int64_t n, const SplitOptions& options, int threads) {
        unit = options.unit, n_threads = threads;
        rows.load(matrix, ids, n, n_threads);
        take_weights(options.weights, ids, n);
        norms = total_weight = 0;
        for (int64_t i = 0; i < n; ++i) norms += weight(i) * rows.norm2(i), total_weight += weight(i);
    }
    int64_t size() const { return rows.size(); }
    double weight(int64_t i) const { return weights.empty() ? 1.0 : weights[i]; }
    // Whether a row has a say where centers are, and so can be one to start from.
    bool counts(int64_t i) const { return weight(i) > 0 && !(unit && rows.norm2(i) == 0); }
    // Squared distance to a center, but for the score.
    double norms_with_center(int64_t i) const { return rows.norm2(i) + (unit ? 1.0 : 0.0); }

private:
    // Weights may be of any size, and floats have to hold their products with scores.
    void take_weights(const double* all, const int32_t* ids, int64_t n) {
        weights.clear(), weight_scale = 1;
        if (!all || n == 0) return;
        double least = all[ids[0]], most = least;
        for (int64_t i = 0; i < n; ++i) least = std::min(least, all[ids[i]]), most = std::max(most, all[ids[i]]);
        if (least == most && most > 0) {
            weight_scale = most;
            return;
        }
        weight_scale = leading_power(most);
        for (int64_t i = 0; i < n; ++i) weights.push_back(all[ids[i]] / weight_scale);
    }
};

}  // namespace sparsecluster
