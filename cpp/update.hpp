// New centers from labels. Sums are kept in 64-bit fixed point, with a power-of-two step per feature that
// makes overflow impossible: integer addition is exact in any order, so rows can be added and taken away,
// by any thread and in any block, and the sums stay a function of the labels alone.
#pragma once

#include <cstdint>
#include <vector>

#include "centers.hpp"
#include "csr.hpp"

namespace sparsecluster {

struct UpdateStats {
    int64_t moved = 0;          // rows that changed cluster since the last update
    std::vector<double> shift;  // per center, how far it moved
    double cost = 0;            // weighted sum of squared distances of the rows to the new centers
};

class Sums {
public:
    // `weights` may be null; it must outlive this object, as must `columns`.
    Sums(const Rows& rows, const ColumnStats& columns, const double* weights, int64_t n_clusters);

    // Accounts for the labels (-1: in no cluster) and moves the centers to the means. A cluster without
    // weight keeps its center.
    UpdateStats update(const int32_t* labels, Centers& centers, int n_threads);

    int64_t size() const { return int64_t(clusters_.size()); }

private:
    struct Cluster {
        std::vector<int32_t> features;
        std::vector<int64_t> sums;
        int64_t weight = 0;
        double spread2 = 0;  // squared distance of the center to the mean of all rows
    };

    double weight(int64_t cluster) const;
    double squared_spread(const Center& center) const;

    const Rows& rows_;
    const ColumnStats& columns_;
    const double* weights_;
    double mean_norm2_ = 0;
    std::vector<double> step_;  // per feature: sums are multiples of 1 / step
    double weight_step_ = 1;
    std::vector<int32_t> labels_;  // those that the sums stand for
    std::vector<Cluster> clusters_;
};

}  // namespace sparsecluster
