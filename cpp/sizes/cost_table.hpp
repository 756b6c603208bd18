// What each row costs in each cluster, where clusters are few enough for a table of rows x clusters. Costs are float64,
// in a fixed order of operations, whatever the processor.
#pragma once

#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "sizes/simplex.hpp"

namespace sparsecluster {

class CostTable {
public:
    static constexpr int64_t kMostClusters = 64;

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

    int64_t n_clusters() const { return n_clusters_; }
    const double* row(int64_t i) const { return costs_.data() + i * stride_; }

    // A source for simplex.hpp: all clusters.
    template <class See>
    void visit(int64_t i, const See& see) const {
        for (int64_t k = 0; k < n_clusters_; ++k) see(int32_t(k), row(i)[k]);
    }
    SizeOffer best(int64_t i, int32_t label, const std::vector<double>& prices) const {
        const double* const costs = row(i);
        double least = INFINITY;
        for (int64_t k = 0; k < n_clusters_; ++k) least = std::min(least, costs[k] + prices[k]);
        if (!(least < costs[label] + prices[label])) return {};
        int64_t k = 0;
        while (costs[k] + prices[k] != least) ++k;
        return {int32_t(k), costs[k]};
    }
    // A bit for each of up to 64 rows: whether best() has something for it.
    uint64_t with_better(int64_t first, int64_t n, const int32_t* labels, const std::vector<double>& prices) const;
    double cost(int64_t i, int32_t cluster) const { return row(i)[cluster]; }
    void own_costs(const int32_t* labels, double* costs) const {
        for (int64_t i = 0; i < n_rows_; ++i) costs[i] = row(i)[labels[i]];
    }

private:
    void measure(const Rows& rows, const Centers& centers, int n_threads);

    int64_t n_rows_ = 0, n_clusters_ = 0, stride_ = 0;
    std::vector<double> costs_;
    std::vector<double> spread_;  // centers of one pass by feature
};

}  // namespace sparsecluster
