// Compiled without contraction, as exact.cpp.
#include "minibatch.hpp"

#include <cmath>
#include <numeric>

#include "exact.hpp"
#include "groups.hpp"
#include "parallel.hpp"

namespace sparsecluster {

BatchStats MiniBatch::learn(const Rows& rows, const double* weights, int32_t* labels, int n_threads) {
    BatchStats stats;
    stats.shift.assign(centers_.size(), 0.0);
    stats.distance2.resize(rows.n_rows());
    assign(rows, labels, n_threads, stats);
    const Groups groups = group_ids(centers_.size(), [&](const auto& note) {
        for (int64_t i = 0; i < rows.n_rows(); ++i) note(labels[i], i);
    });
    if (int64_t(scratches_.size()) < n_threads) scratches_.resize(n_threads);
    std::visit(
        [&](const auto& view) {
            parallel_blocks(centers_.size(), n_threads, [&](int64_t k, int thread) {
                const int64_t* ids = groups.ids.data();
                move(view, weights, ids + groups.begin[k], ids + groups.begin[k + 1], k, scratches_[thread],
                     stats);
            });
        },
        rows.matrix);
    return stats;
}

void MiniBatch::assign(const Rows& rows, int32_t* labels, int n_threads, BatchStats& stats) {
    const int64_t n = rows.n_rows(), n_centers = centers_.size();
    stats.distances = n * n_centers;
    if (scans_.empty()) scans_.resize(1);
    // For very few rows the centers are not worth an index.
    if (4 * rows.nnz() * n_centers < centers_.nnz() + centers_.n_features / 4) {
        stats.path = "no index";
        std::vector<int32_t>& candidates = scans_[0].candidates;
        std::visit(
            [&](const auto& view) {
                for (int64_t i = 0; i < n; ++i) {
                    candidates.resize(n_centers);
                    std::iota(candidates.begin(), candidates.end(), 0);
                    labels[i] = settle(view.row(i), rows.norm2[i], centers_, candidates);
                    poll_interrupt();
                }
            },
            rows.matrix);
        return;
    }
    index_.build(centers_, rows.scale, {head_limit_, direct_limit(rows)}, n_threads);
    scan(rows, index_, nullptr, n, n_threads, scans_, [&](const Scanned& scanned, const auto& row, int thread) {
        labels[scanned.row] =
            decide(scanned, row, rows.norm2[scanned.row], centers_, index_.norm, scans_[thread].candidates);
    });
}

// Moves center k towards the listed rows: to the mean of all that it has seen, with cosines its direction.
template <class View>
void MiniBatch::move(const View& view, const double* weights, const int64_t* begin, const int64_t* end,
                     int64_t k, Scratch& scratch, BatchStats& stats) {
    if (begin == end) return;
    Center& center = centers_.items[k];
    if (int64_t(scratch.center.size()) < centers_.n_features) {
        scratch.center.resize(centers_.n_features, 0.0);
        scratch.sums.resize(centers_.n_features, 0.0);
        scratch.touched.resize(centers_.n_features);
    }
    for (int64_t e = 0; e < center.size(); ++e) {
        scratch.center[center.features[e]] = center.values[e];
        scratch.touched.insert(center.features[e]);
    }
    double weight = 0;
    for (const int64_t* at = begin; at != end; ++at) {
        const auto row = view.row(*at);
        const double share = weights ? weights[*at] : 1.0;
        stats.distance2[*at] = spread_distance2(row, scratch.center.data(), center);
        weight += share;
        for (int64_t e = 0; share > 0 && e < row.size; ++e) {
            scratch.sums[row.features[e]] += share * double(row.values[e]);
            scratch.touched.insert(row.features[e]);
        }
    }
    const bool cosine = metric_ == Metric::cosine;
    const double before = cosine ? lengths_[k] : counts_[k], after = cosine ? 1.0 : counts_[k] + weight;
    Center mean;
    mean.features.reserve(center.features.size());
    mean.values.reserve(center.values.size());
    scratch.touched.drain([&](int32_t feature) {
        const double value = (before * scratch.center[feature] + scratch.sums[feature]) / after;
        scratch.center[feature] = scratch.sums[feature] = 0;
        if (value == 0) return;
        mean.features.push_back(feature);
        mean.values.push_back(value);
    });
    counts_[k] += weight;
    if (!(weight > 0)) return;
    if (cosine) {
        mean.compute_norm();
        if (mean.norm2 == 0) return;
        lengths_[k] = std::sqrt(mean.norm2);
    }
    mean = center_of(std::move(mean), metric_, limit_);
    stats.shift[k] = std::sqrt(shift2(center, mean));
    center = std::move(mean);
}

void MiniBatch::place(int64_t cluster, const Rows& rows, int64_t i, double count) {
    Center center;
    std::visit(
        [&](const auto& view) {
            const auto row = view.row(i);
            for (int64_t e = 0; e < row.size; ++e) {
                if (row.values[e] == 0) continue;
                center.features.push_back(int32_t(row.features[e]));
                center.values.push_back(double(row.values[e]));
            }
        },
        rows.matrix);
    centers_.items[cluster] = center_of(std::move(center), metric_, limit_);
    counts_[cluster] = count;
    if (metric_ == Metric::cosine) lengths_[cluster] = count;
}

}  // namespace sparsecluster
