// Compiled without contraction, as exact.cpp.
#include "kmeans/sums.hpp"

#include <cmath>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

inline int64_t to_fixed(double value) {
#ifdef __SSE2__
    return _mm_cvtsd_si64(_mm_set_sd(value));
#else
    return std::llrint(value);
#endif
}

}  // namespace

FixedScale::FixedScale(double largest, double count) {
    constexpr int kBits = 60;
    int exponent = 0, count_exponent = 0;
    std::frexp(count + 1, &count_exponent);
    if (largest > 0) std::frexp(largest, &exponent);
    coarse = int16_t(std::clamp(kBits - count_exponent - exponent, -1000, 1000));
    // What rounding to the coarse step leaves is at most half of it.
    fine = int16_t(kBits - count_exponent);
}

bool FixedScale::holds(double smallest) const {
    return smallest * power_of_two(coarse) >= power_of_two(52 - fine);
}

inline void FixedScale::add(FixedSum& sum, double term, int64_t sign) const {
    const double scaled = term * power_of_two(coarse);
    const int64_t whole = to_fixed(scaled);
    sum.coarse += sign * whole;
    sum.fine += sign * to_fixed((scaled - double(whole)) * power_of_two(fine));
}

Sums::Sums(const Rows& rows, const ColumnStats& columns, const double* weights, int64_t n_clusters,
           Metric metric, CenterLimit limit)
    : rows_(rows), columns_(columns), weights_(weights), metric_(metric), limit_(limit), scales_(rows.n_features()),
      clusters_(n_clusters) {
    for (double value : columns.mean) mean_norm2_ += value * value;
    for (size_t f = 0; f < scales_.size(); ++f) {
        scales_[f] = FixedScale(columns.max_abs[f], columns.count[f]);
        fixed_point_ &= scales_[f].holds(columns.min_abs[f]);
    }
    weight_scale_ = FixedScale(columns.max_weight, double(columns.n_rows));
    fixed_point_ &= weight_scale_.holds(columns.min_weight);
}

void Sums::take_new_rows(int64_t n) {
    const int64_t known = int64_t(labels_.size());
    if (known == n) return;
    labels_.resize(n, -1);
    const bool about_mean = in_space(metric_, [](auto space) { return space.kScatterAboutMean; });
    if (!about_mean) {
        in_space(metric_, [&](auto space) {
            for (int64_t i = known; i < n; ++i) scatter_ += weight_of(i) * space.baseline(rows_.norm2()[i]);
        });
    } else if (known == 0 && n == columns_.n_rows) {
        scatter_ = columns_.scatter;
    } else {
        std::visit(
            [&](const auto& view) {
                for (int64_t i = known; i < n; ++i)
                    scatter_ += weight_of(i) * squared_spread(view.row(i));
            },
            rows_.matrix());
    }
}

template <class V, class I>
double Sums::squared_spread(const Row<V, I>& row) const {
    double inside = 0, covered = 0;
    for (int64_t e = 0; e < row.size; ++e) {
        if (row.values[e] == 0) continue;
        const double mean = columns_.mean[row.features[e]], gap = double(row.values[e]) - mean;
        inside += gap * gap;
        covered += mean * mean;
    }
    return inside + std::max(0.0, mean_norm2_ - covered);
}

Sums::Changes Sums::take_changes(const int32_t* labels, int64_t begin, int64_t end, UpdateStats& stats) {
    auto visit_changes = [&](const auto& note) {
        for (int64_t i = begin; i < end; ++i) {
            if (labels[i] == labels_[i]) continue;
            if (labels[i] >= 0) note(labels[i], i);
            if (labels_[i] >= 0) note(labels_[i], ~i);
        }
    };
    Changes changes = group_ids(size(), visit_changes);
    for (int64_t i = begin; i < end; ++i) stats.moved += labels[i] != labels_[i];
    std::copy(labels + begin, labels + end, labels_.begin() + begin);
    return changes;
}

Sums::Changes Sums::members_of_changed(const int32_t* labels, const Changes& changes) {
    std::vector<char> changed(size());
    for (int64_t k = 0; k < size(); ++k) changed[k] = changes.begin[k] < changes.begin[k + 1];
    for (int64_t k = 0; k < size(); ++k)
        if (changed[k]) clusters_[k].weight = 0;
    return group_ids(size(), [&](const auto& note) {
        for (int64_t i = 0; i < int64_t(labels_.size()); ++i)
            if (labels[i] >= 0 && changed[labels[i]]) note(labels[i], i);
    });
}

void Sums::will_need(const Changes& changes, int64_t begin, int64_t end) const {
    if (!rows_.streamed()) return;
    // Pages hold several rows: where many changed all are asked for at once.
    constexpr int64_t kFew = 16;
    if (int64_t(changes.ids.size()) * kFew > end - begin) return rows_.will_need(begin, end);
    for (const int64_t id : changes.ids) {
        const int64_t i = id >= 0 ? id : ~id;
        rows_.will_need(i, i + 1);
    }
}

template <class View>
void Sums::add_changes(const View& view, const Changes& changes, int64_t k, Scratch& scratch, bool poll) {
    constexpr int64_t kAhead = 4;
    Cluster& cluster = clusters_[k];
    if (scratch.fixed.empty()) scratch.fixed.resize(rows_.n_features());
    for (int64_t c = changes.begin[k]; c < changes.begin[k + 1]; ++c) {
        const int64_t sign = changes.ids[c] >= 0 ? 1 : -1;
        const int64_t i = sign > 0 ? changes.ids[c] : ~changes.ids[c];
        const double weight = weight_of(i);
        if (poll && c % 256 == 0) poll_interrupt();
        // The rows of a cluster lie apart.
        if (c + kAhead < changes.begin[k + 1]) {
            const int64_t ahead = changes.ids[c + kAhead];
            view.prefetch(ahead >= 0 ? ahead : ~ahead);
        }
        weight_scale_.add(cluster.fixed_weight, weight, sign);
        const auto row = view.row(i);
        for (int64_t e = 0; e < row.size; ++e) {
            const auto f = row.features[e];
            scales_[f].add(scratch.fixed[f], weight * double(row.values[e]), sign);
            scratch.touched.insert(f);
        }
    }
    // The sums before, with the changes worked in.
    std::vector<int32_t>& features = scratch.features;
    FixedSums& sums = scratch.merged;
    features.clear();
    sums.clear();
    size_t at = 0;
    auto copy_until = [&](size_t end) {
        features.insert(features.end(), cluster.features.begin() + at, cluster.features.begin() + end);
        sums.append(cluster.sums, at, end);
        at = end;
    };
    scratch.touched.drain([&](int32_t feature) {
        size_t end = at;
        while (end < cluster.features.size() && cluster.features[end] < feature) ++end;
        copy_until(end);
        FixedSum sum = scratch.fixed[feature];
        scratch.fixed[feature] = {};
        if (at < cluster.features.size() && cluster.features[at] == feature) sum.add(cluster.sums[at++]);
        if (sum.zero()) return;
        features.push_back(feature);
        sums.push_back(sum);
    });
    copy_until(cluster.features.size());
    // Copied, so that clusters do not end up with the room of the largest one.
    FixedSums::tighten(cluster.features, features);
    cluster.sums.assign_tightly(sums);
    cluster.weight = weight_scale_.value(cluster.fixed_weight);
}

Center Sums::mean_of(const Cluster& cluster) const {
    Center mean;
    mean.features = cluster.features;
    mean.values.resize(cluster.sums.size());
    for (size_t e = 0; e < cluster.sums.size(); ++e)
        mean.values[e] = scales_[cluster.features[e]].value(cluster.sums[e]) / cluster.weight;
    return mean;
}

template <class View>
Center Sums::sum_anew(const View& view, const Changes& members, int64_t k, Scratch& scratch, bool poll) {
    Cluster& cluster = clusters_[k];
    if (scratch.sums.empty()) scratch.sums.resize(rows_.n_features());
    for (int64_t c = members.begin[k]; c < members.begin[k + 1]; ++c) {
        const double weight = weight_of(members.ids[c]);
        if (poll && c % 256 == 0) poll_interrupt();
        cluster.weight += weight;
        const auto row = view.row(members.ids[c]);
        for (int64_t e = 0; e < row.size; ++e) {
            scratch.sums[row.features[e]] += weight * double(row.values[e]);
            scratch.touched.insert(row.features[e]);
        }
    }
    Center mean;
    scratch.touched.drain([&](int32_t feature) {
        if (scratch.sums[feature] == 0) return;
        mean.features.push_back(feature);
        mean.values.push_back(scratch.sums[feature] / cluster.weight);
        scratch.sums[feature] = 0;
    });
    return mean;
}

UpdateStats Sums::update(const int32_t* labels, int64_t n_rows, Centers& centers, int n_threads) {
    UpdateStats stats;
    stats.shift.assign(size(), 0.0);
    take_new_rows(n_rows);
    if (int64_t(scratches_.size()) < n_threads) scratches_.resize(n_threads);
    // Sums that are not in fixed point depend on the order of the rows: these are added in one go.
    const std::vector<int64_t> ends =
        fixed_point_ ? rows_.chunk_ends(n_rows) : std::vector<int64_t>{n_rows};
    std::vector<char> changed(size(), 0);
    int64_t begin = 0;
    for (const int64_t end : ends) {
        Changes changes = take_changes(labels, begin, end, stats);
        will_need(changes, begin, end);
        if (!fixed_point_) changes = members_of_changed(labels, changes);
        std::visit(
            [&](const auto& view) {
                parallel_blocks(size(), n_threads, [&](int64_t k, int thread) {
                    Scratch& scratch = scratches_[thread];
                    if (scratch.touched.empty()) scratch.touched.resize(rows_.n_features());
                    if (changes.begin[k] < changes.begin[k + 1]) {
                        changed[k] = 1;
                        if (!fixed_point_)
                            return move_center(k, sum_anew(view, changes, k, scratch, thread == 0), centers, stats);
                        add_changes(view, changes, k, scratch, thread == 0);
                    }
                    if (fixed_point_ && changed[k] && end == ends.back())
                        move_center(k, mean_of(clusters_[k]), centers, stats);
                });
            },
            rows_.matrix());
        begin = end;
    }
    stats.cost = cost();
    give_back(stats.moved, centers.nnz());
    return stats;
}

// When many rows move most centers get other sizes, and what they leave lies between those of others.
void Sums::give_back(int64_t moved, int64_t nnz) const {
    constexpr int64_t kWorth = 1 << 20;
    if (nnz < kWorth || moved * 10 < n_rows()) return;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void Sums::move_center(int64_t k, Center mean, Centers& centers, UpdateStats& stats) {
    clusters_[k].explained = 0;
    if (!(clusters_[k].weight > 0)) return;
    mean.compute_norm();
    clusters_[k].mean_norm2 = mean.norm2;
    if (!in_space(metric_, [&](auto space) { return space.has_place(mean.norm2); })) return;
    Center center = place(std::move(mean), clusters_[k]);
    stats.shift[k] = std::sqrt(shift2(centers.items[k], center));
    centers.items[k] = std::move(center);
}

// The center that a mean makes, and what it takes off the scatter.
Center Sums::place(Center mean, Cluster& cluster) const {
    const auto spread = [this](const Center& center) { return squared_spread(as_row(center)); };
    return in_space(metric_, [&](auto space) {
        if (!limit_.active()) {
            const double length = std::sqrt(mean.norm2);
            Center center = center_of(std::move(mean), metric_, limit_);
            cluster.explained = cluster.weight * space.explained(center, length, spread);
            return center;
        }
        Center center = center_of(mean, metric_, limit_);
        cluster.explained = cluster.weight * space.explained_off_mean(mean, center, spread);
        return center;
    });
}

std::vector<double> Sums::mean_norm2() const {
    std::vector<double> out;
    for (const Cluster& cluster : clusters_) out.push_back(cluster.mean_norm2);
    return out;
}

double Sums::cost() const {
    double explained = 0;
    for (const Cluster& cluster : clusters_) explained += cluster.explained;
    return std::max(0.0, scatter() - explained);
}

}  // namespace sparsecluster
