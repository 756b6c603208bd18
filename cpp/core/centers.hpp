// Cluster centers in float64, each a sorted sparse vector.
#pragma once

#include <cstdint>
#include <vector>

namespace sparsecluster {

struct Center {
    std::vector<int32_t> features;  // strictly ascending
    std::vector<double> values;
    double norm2 = 0;  // summed in feature order, as the rows' norms are

    int64_t size() const { return int64_t(features.size()); }
    void compute_norm() {
        double sum = 0;  // in a register
        for (double value : values) sum += value * value;
        norm2 = sum;
    }
};

struct Centers {
    int64_t n_features = 0;
    std::vector<Center> items;

    int64_t size() const { return int64_t(items.size()); }
    int64_t nnz() const {
        int64_t total = 0;
        for (const Center& center : items) total += center.size();
        return total;
    }
};

}  // namespace sparsecluster
