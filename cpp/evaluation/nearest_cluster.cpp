// Compiled without contraction, as exact.cpp. Scores are screened in float32; what that leaves in doubt is decided in
// float64, so that the clusters found do not depend on the processor.
#include "evaluation/nearest_cluster.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "index/scan.hpp"

namespace sparsecluster {

NearestCluster::NearestCluster(const Rows& rows, const Centers& centers, const double* spread, int64_t head_limit,
                               int n_threads)
    : rows_(rows), centers_(centers) {
    clusters_.set(centers, spread);
    index_.build(centers, common_scale(rows, centers), {head_limit, direct_limit(rows.nnz())}, n_threads);
    // Products alone: rows have scales, and centers spreads.
    std::fill_n(index_.start.begin(), index_.n_centers, 0.0f);
}

void NearestCluster::find(int64_t begin, int64_t end, const double* scales, const int32_t* labels, int32_t* nearest,
                          int n_threads) const {
    const double unscaled = 1 / (index_.scale * index_.scale);
    std::vector<int64_t> ids;
    if (begin > 0 || end < rows_.n_rows()) {
        ids.resize(end - begin);
        std::iota(ids.begin(), ids.end(), begin);
        rows_.will_need(begin, end);
    }
    std::vector<std::vector<double>> scores(std::max(n_threads, 1));
    std::vector<ScanScratch> scratches;
    scan(rows_, index_, ids.empty() ? nullptr : ids.data(), end - begin, n_threads, scratches,
         [&](const Scanned& scanned, const auto& row, int thread) {
             const int64_t i = scanned.row;
             const double scale = scales ? scales[i] : 1.0;
             const double norm2 = rows_.norm2()[i];
             const ScannedProducts products{scanned, scale * unscaled, scale * scale * norm2};
             nearest[i - begin] =
                 nearest_beside(labels[i], products, row, norm2, centers_, clusters_, scores[thread], scale).cluster;
         });
}

}  // namespace sparsecluster
