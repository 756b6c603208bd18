// Compiled without contraction, as exact.cpp.
#include "update.hpp"

#include <cmath>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "parallel.hpp"

namespace sparsecluster {

namespace {

inline int64_t to_fixed(double value) {
#ifdef __SSE2__
    return _mm_cvtsd_si64(_mm_set_sd(value));
#else
    return std::llrint(value);
#endif
}

// The largest power of two that keeps `bound` below 2^60 when multiplied.
double fixed_step(double bound) {
    if (bound <= 0) return 1;
    int exponent = 0;
    std::frexp(bound, &exponent);
    return std::ldexp(1.0, std::min(60 - exponent, 1000));
}

double squared_shift(const Center& before, const Center& after) {
    double total = 0;
    int64_t b = 0, a = 0;
    while (b < before.size() || a < after.size()) {
        const int32_t fb = b < before.size() ? before.features[b] : INT32_MAX;
        const int32_t fa = a < after.size() ? after.features[a] : INT32_MAX;
        const double vb = fb <= fa ? before.values[b++] : 0.0;
        const double va = fa <= fb ? after.values[a++] : 0.0;
        total += (va - vb) * (va - vb);
    }
    return total;
}

}  // namespace

Sums::Sums(const Rows& rows, const ColumnStats& columns, const double* weights, int64_t n_clusters)
    : rows_(rows), columns_(columns), weights_(weights), labels_(rows.n_rows(), -1), clusters_(n_clusters) {
    step_.resize(rows.n_features());
    for (size_t f = 0; f < step_.size(); ++f)
        step_[f] = fixed_step(columns.max_abs[f] * double(columns.count[f]));
    for (double value : columns.mean) mean_norm2_ += value * value;
    if (weights) {
        double total = 0;
        for (int64_t i = 0; i < rows.n_rows(); ++i) total += weights[i];
        weight_step_ = fixed_step(total);
    }
}

double Sums::squared_spread(const Center& center) const {
    double inside = 0, covered = 0;
    for (int64_t e = 0; e < center.size(); ++e) {
        const double mean = columns_.mean[center.features[e]];
        inside += (center.values[e] - mean) * (center.values[e] - mean);
        covered += mean * mean;
    }
    return inside + std::max(0.0, mean_norm2_ - covered);
}

double Sums::weight(int64_t cluster) const { return double(clusters_[cluster].weight) / weight_step_; }

UpdateStats Sums::update(const int32_t* labels, Centers& centers, int n_threads) {
    UpdateStats stats;
    const int64_t n_clusters = size();
    stats.shift.assign(n_clusters, 0.0);

    // Rows that come and go, by cluster: row i stands as i where it comes, as ~i where it goes.
    std::vector<int64_t> begin(n_clusters + 1, 0);
    for (int64_t i = 0; i < rows_.n_rows(); ++i) {
        if (labels[i] == labels_[i]) continue;
        ++stats.moved;
        if (labels[i] >= 0) ++begin[labels[i] + 1];
        if (labels_[i] >= 0) ++begin[labels_[i] + 1];
    }
    for (int64_t k = 0; k < n_clusters; ++k) begin[k + 1] += begin[k];
    std::vector<int64_t> change(begin.back());
    std::vector<int64_t> at(begin.begin(), begin.end() - 1);
    for (int64_t i = 0; i < rows_.n_rows(); ++i) {
        if (labels[i] == labels_[i]) continue;
        if (labels[i] >= 0) change[at[labels[i]]++] = i;
        if (labels_[i] >= 0) change[at[labels_[i]]++] = ~i;
        labels_[i] = labels[i];
    }

    if (int64_t(scratches_.size()) < n_threads) scratches_.resize(n_threads);
    std::visit(
        [&](const auto& view) {
            parallel_blocks(n_clusters, n_threads, [&](int64_t k, int thread) {
                if (begin[k] == begin[k + 1]) return;
                Scratch& scratch = scratches_[thread];
                if (scratch.touched.empty()) {
                    scratch.sums.assign(rows_.n_features(), 0);
                    scratch.touched.resize(rows_.n_features());
                }
                Cluster& cluster = clusters_[k];
                for (size_t e = 0; e < cluster.features.size(); ++e) {
                    scratch.sums[cluster.features[e]] = cluster.sums[e];
                    scratch.touched.insert(cluster.features[e]);
                }
                for (int64_t c = begin[k]; c < begin[k + 1]; ++c) {
                    const bool comes = change[c] >= 0;
                    const int64_t i = comes ? change[c] : ~change[c];
                    const double weight = weights_ ? weights_[i] : 1.0;
                    const int64_t sign = comes ? 1 : -1;
                    cluster.weight += sign * to_fixed(weight * weight_step_);
                    const auto row = view.row(i);
                    for (int64_t e = 0; e < row.size; ++e) {
                        const auto f = row.features[e];
                        scratch.sums[f] += sign * to_fixed(weight * double(row.values[e]) * step_[f]);
                        scratch.touched.insert(f);
                    }
                }
                cluster.features.clear();
                cluster.sums.clear();
                scratch.touched.drain([&](int32_t feature) {
                    if (scratch.sums[feature] == 0) return;
                    cluster.features.push_back(feature);
                    cluster.sums.push_back(scratch.sums[feature]);
                    scratch.sums[feature] = 0;
                });
                if (cluster.weight <= 0) return;
                Center mean;
                mean.features = cluster.features;
                mean.values.resize(cluster.sums.size());
                const double total = weight(k);
                for (size_t e = 0; e < cluster.sums.size(); ++e)
                    mean.values[e] = double(cluster.sums[e]) / step_[cluster.features[e]] / total;
                mean.compute_norm();
                cluster.spread2 = squared_spread(mean);
                stats.shift[k] = std::sqrt(squared_shift(centers.items[k], mean));
                centers.items[k] = std::move(mean);
            });
        },
        rows_.matrix);
    // Total scatter less the scatter between the clusters; taken about the mean, little cancels.
    double between = 0;
    for (int64_t k = 0; k < n_clusters; ++k) between += weight(k) * clusters_[k].spread2;
    stats.cost = std::max(0.0, columns_.scatter - between);
    return stats;
}

}  // namespace sparsecluster
