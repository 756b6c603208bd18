// The side of the clusters: deltas worked into the sums, and the centers that these make. Compiled without contraction, as
// exact.cpp.
#include <algorithm>
#include <cmath>

#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "kmeans/sums.hpp"

namespace sparsecluster {

SumScales::SumScales(const ColumnStats& columns) : features(columns.count.size()) {
    for (size_t f = 0; f < features.size(); ++f) {
        features[f] = FixedScale(columns.max_abs[f], double(columns.count[f]));
        fixed_point &= features[f].holds(columns.min_abs[f]);
    }
    weight = FixedScale(columns.max_weight, double(columns.n_rows));
    fixed_point &= weight.holds(columns.min_weight);
}

ClusterSums::ClusterSums(const ColumnStats& columns, int64_t n_clusters, Metric metric, CenterLimit limit)
    : scales_(columns), spread_(columns), metric_(metric), limit_(limit), clusters_(n_clusters) {}

namespace {

// The first of ascending numbers from `at` on that is not below one: with steps that double, because it may be far.
size_t first_from(const std::vector<int32_t>& numbers, size_t at, int32_t one) {
    size_t step = 1;
    for (; at + step < numbers.size() && numbers[at + step] < one; step *= 2) at += step;
    const auto last = numbers.begin() + int64_t(std::min(at + step, numbers.size()));
    return size_t(std::lower_bound(numbers.begin() + int64_t(at), last, one) - numbers.begin());
}

}  // namespace

void ClusterSums::add(int64_t k, std::span<const int32_t> features, const FixedSumsView& sums, const FixedSum& weight,
                      Scratch& scratch) {
    constexpr size_t kMany = 4;  // sums that come are many against those that are known: above one per so many
    Cluster& cluster = clusters_[k];
    cluster.fixed_weight.add(weight);
    cluster.weight = scales_.weight.value(cluster.fixed_weight);
    if (cluster.features.empty()) {
        cluster.features.assign(features.begin(), features.end());
        cluster.sums.clear();
        cluster.sums.append(sums);
        return;
    }
    scratch.features.clear();
    scratch.sums.clear();
    if (features.size() * kMany > cluster.features.size()) {
        FixedSums::append_merged<int32_t>(cluster.features, cluster.sums.view(), features, sums, scratch.features,
                                          scratch.sums);
        FixedSums::tighten(cluster.features, scratch.features);
        cluster.sums.assign_tightly(scratch.sums);
        return;
    }
    // In place: what comes chunk by chunk has few features that are new.
    bool vanished = false;
    const size_t n_known = cluster.features.size();
    size_t at = 0;
    for (size_t e = 0; e < features.size(); ++e) {
        at = first_from(cluster.features, at, features[e]);
        if (at < n_known && cluster.features[at] == features[e]) {
            cluster.sums.add(at, sums[e]);
            vanished |= cluster.sums[at].zero();
        } else {
            scratch.features.push_back(features[e]);
            scratch.sums.push_back(sums[e]);
        }
    }
    if (vanished) FixedSums::drop_zeros(cluster.features, cluster.sums);
    if (!scratch.features.empty()) FixedSums::insert(cluster.features, cluster.sums, scratch.features, scratch.sums);
}

UpdateStats ClusterSums::apply(std::span<const SumDeltaView> pieces, double scatter, Centers& centers, int n_threads) {
    UpdateStats stats;
    std::vector<int64_t> ends;  // of the clusters of each piece
    for (const SumDeltaView& piece : pieces) {
        stats.moved += piece.moved;
        ends.push_back((ends.empty() ? 0 : ends.back()) + piece.n_clusters());
    }
    stats.shift.assign(size(), 0.0);
    std::vector<Scratch> scratches(std::max(n_threads, 1));
    parallel_blocks(size(), n_threads, [&](int64_t k, int thread) {
        const size_t p = std::upper_bound(ends.begin(), ends.end(), k) - ends.begin();
        const SumDeltaView& delta = pieces[p];
        const int64_t own = k - (ends[p] - delta.n_clusters());
        if (delta.features_of(own).empty() && delta.weights[own].zero()) return;
        add(k, delta.features_of(own), delta.sums_of(own), delta.weights[own], scratches[thread]);
        move_center(k, centers, stats, scratches[thread]);
    });
    stats.cost = cost(scatter);
    return stats;
}

void ClusterSums::find_mean(const Cluster& cluster, Center& mean) const {
    mean.features.assign(cluster.features.begin(), cluster.features.end());
    mean.values.resize(cluster.sums.size());
    // The norm as compute_norm() has it, while the divisions take their time.
    double norm2 = 0;
    for (size_t e = 0; e < cluster.sums.size(); ++e) {
        const double value = scales_.features[cluster.features[e]].value(cluster.sums[e]) / cluster.weight;
        mean.values[e] = value;
        norm2 += value * value;
    }
    mean.norm2 = norm2;
}

void ClusterSums::move_center(int64_t k, Centers& centers, UpdateStats& stats, Scratch& scratch) {
    find_mean(clusters_[k], scratch.mean);
    move_center(k, clusters_[k].weight, scratch.mean, centers, stats);
}

void ClusterSums::move_center(int64_t k, double weight, Center& mean, Centers& centers, UpdateStats& stats) {
    Cluster& cluster = clusters_[k];
    cluster.weight = weight;
    cluster.explained = 0;
    if (!(cluster.weight > 0)) return;
    cluster.mean_norm2 = mean.norm2;
    if (!in_space(metric_, [&](auto space) { return space.has_place(mean.norm2); })) return;
    place(mean, cluster);
    Center& center = centers.items[k];
    stats.shift[k] = std::sqrt(shift2(center, mean));
    // Into the memory that it has: to take other memory for every move would leave the old in pieces.
    FixedSums::tighten(center.features, mean.features);
    FixedSums::tighten(center.values, mean.values);
    center.norm2 = mean.norm2;
}

// Makes a center of a mean, and says what it takes off the scatter.
void ClusterSums::place(Center& mean, Cluster& cluster) const {
    const auto spread = [this](const Center& center) { return spread_(as_row(center)); };
    in_space(metric_, [&](auto space) {
        if (!limit_.active()) {
            const double length = std::sqrt(mean.norm2);
            space.finish(mean);
            cluster.explained = cluster.weight * space.explained(mean, length, spread);
            return;
        }
        Center center = center_of(mean, metric_, limit_);
        cluster.explained = cluster.weight * space.explained_off_mean(mean, center, spread);
        mean = std::move(center);
    });
}

std::vector<double> ClusterSums::mean_norm2() const {
    std::vector<double> out;
    for (const Cluster& cluster : clusters_) out.push_back(cluster.mean_norm2);
    return out;
}

double ClusterSums::cost(double scatter) const {
    double explained = 0;
    for (const Cluster& cluster : clusters_) explained += cluster.explained;
    return std::max(0.0, scatter - explained);
}

}  // namespace sparsecluster
