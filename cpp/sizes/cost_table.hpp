// What each row costs in each cluster, where clusters are few enough for a table of rows x clusters. Costs are float64,
// in a fixed order of operations, whatever the processor.
#pragma once

#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

// Some rows of a table, evenly spaced.
struct CostView {
    const double* costs;
    int64_t n_rows, n_clusters, stride;  // stride: from a row to the next

    const double* row(int64_t i) const { return costs + i * stride; }
    // Every `step`-th of the rows.
    CostView every(int64_t step) const { return {costs, (n_rows + step - 1) / step, n_clusters, stride * step}; }
};

class CostTable {
public:
    // Bytes of the table, and of what it takes to fill it.
    static int64_t bytes(int64_t n_rows, int64_t n_clusters, int64_t n_features);

    // A row costs factor(i) times its squared distance; factor may be zero.
    template <class Factor>
    void fill(const Rows& rows, const Centers& centers, int n_threads, const Factor& factor) {
        measure(rows, centers, n_threads);
        for (int64_t i = 0; i < rows.n_rows(); ++i) {
            const double by = factor(i);
            if (by == 1) continue;
            for (int64_t k = 0; k < n_clusters_; ++k) costs_[i * stride_ + k] *= by;
        }
    }

    CostView view() const { return {costs_.data(), n_rows_, n_clusters_, stride_}; }

private:
    void measure(const Rows& rows, const Centers& centers, int n_threads);

    int64_t n_rows_ = 0, n_clusters_ = 0, stride_ = 0;
    std::vector<double> costs_;
    std::vector<double> spread_;  // centers of one pass by feature
};

}  // namespace sparsecluster
