// Compiled without contraction, as exact.cpp.
#include "evaluation/nearest_cluster.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

NearestCluster::NearestCluster(const Rows& rows, const Centers& centers, const double* spread)
    : rows_(rows), centers_(centers), spread_(spread), sums_(centers.size(), kTableBytes) {
    sums_.widen(rows.n_features());
    for (int64_t k = 0; k < centers.size(); ++k)
        for (int64_t e = 0; e < centers.items[k].size(); ++e)
            sums_.set(centers.items[k].features[e], int32_t(k), centers.items[k].values[e]);
}

void NearestCluster::find(int64_t begin, int64_t end, const double* scales, const int32_t* labels, double* other,
                          int32_t* nearest, int n_threads) const {
    constexpr int64_t kBlock = 64;
    constexpr double kCancelled = 0x1p-10;  // of the terms: below, the expanded form has lost too many digits
    std::vector<FeatureSums::Scratch> scratches(std::max(n_threads, 1));
    std::visit(
        [&](const auto& view) {
            parallel_blocks((end - begin + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
                FeatureSums::Scratch& scratch = scratches[thread];
                std::vector<int64_t> unknown;
                const int64_t first = begin + block * kBlock, last = std::min(end, first + kBlock);
                rows_.read_ahead(first, last);
                for (int64_t i = first; i < last; ++i) {
                    const auto row = view.row(i);
                    const double scale = scales ? scales[i] : 1.0;
                    const double row_norm2 = scale * scale * rows_.norm2()[i];
                    sums_.multiply(row, scratch, unknown);
                    unknown.clear();
                    double least = INFINITY;
                    int32_t found = -1;
                    for (int64_t k = 0; k < centers_.size(); ++k) {
                        if (k == labels[i] || spread_[k] == INFINITY) continue;
                        const Center& center = centers_.items[k];
                        const double norms = row_norm2 + center.norm2;
                        double sum = norms - 2 * scale * scratch.products[k] + spread_[k];
                        if (sum < kCancelled * norms)
                            sum = direct_distance2(row, as_row(center), scale) + spread_[k];
                        if (sum < least) least = sum, found = int32_t(k);
                    }
                    other[i - begin] = least;
                    nearest[i - begin] = found;
                }
            });
        },
        rows_.matrix());
}

}  // namespace sparsecluster
