// Compiled without contraction, as exact.cpp. Scores are screened in float32; what that leaves in doubt is decided in
// float64, so that the clusters found do not depend on the processor.
#include "evaluation/nearest_cluster.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/exact.hpp"
#include "index/scan.hpp"

namespace sparsecluster {

NearestCluster::NearestCluster(const Rows& rows, const Centers& centers, const double* spread, int64_t head_limit,
                               int n_threads)
    : rows_(rows), centers_(centers), spread_(spread) {
    index_.build(centers, common_scale(rows, centers), {head_limit, direct_limit(rows.nnz())}, n_threads);
    // Products alone: rows have scales, and centers spreads.
    std::fill_n(index_.start.begin(), index_.n_centers, 0.0f);
}

void NearestCluster::find(int64_t begin, int64_t end, const double* scales, const int32_t* labels, int32_t* nearest,
                          int n_threads) const {
    const int64_t n_centers = centers_.size();
    const double unscaled = 1 / (index_.scale * index_.scale);
    std::vector<double> half(n_centers);
    double largest = 0;
    for (int64_t k = 0; k < n_centers; ++k) {
        half[k] = 0.5 * (centers_.items[k].norm2 + spread_[k]);
        if (half[k] < INFINITY) largest = std::max(largest, half[k]);
    }
    std::vector<int64_t> ids;
    if (begin > 0 || end < rows_.n_rows()) {
        ids.resize(end - begin);
        std::iota(ids.begin(), ids.end(), begin);
        rows_.will_need(begin, end);
    }
    std::vector<std::vector<double>> of_thread(std::max(n_threads, 1));
    std::vector<ScanScratch> scratches;
    scan(rows_, index_, ids.empty() ? nullptr : ids.data(), end - begin, n_threads, scratches,
         [&](const Scanned& scanned, const auto& row, int thread) {
             const int64_t i = scanned.row;
             const double scale = scales ? scales[i] : 1.0;
             std::vector<double>& values = of_thread[thread];
             values.resize(n_centers);
             // scale x.c - (|c|^2 + spread) / 2 is to be largest.
             for (int64_t k = 0; k < n_centers; ++k) values[k] = scale * unscaled * scanned.scores[k] - half[k];
             if (labels[i] >= 0) values[labels[i]] = -INFINITY;
             const double best = *std::max_element(values.begin(), values.end());
             // The last term is for the rounding of `values` themselves.
             const double error = scale * unscaled * scanned.error + 1e-14 * (largest + std::abs(best));
             double least = INFINITY;
             int32_t found = -1;
             for (int64_t k = 0; best > -INFINITY && k < n_centers; ++k) {
                 if (values[k] == -INFINITY || values[k] < best - 2 * error) continue;
                 if (found < 0) {
                     found = int32_t(k);
                     continue;
                 }
                 const auto distance = [&](int64_t one) {
                     return deciding_distance2(row, rows_.norm2()[i], centers_.items[one], scale) + spread_[one];
                 };
                 if (least == INFINITY) least = distance(found);
                 const double next = distance(k);
                 if (next < least) least = next, found = int32_t(k);
             }
             nearest[i - begin] = found;
         });
}

}  // namespace sparsecluster
