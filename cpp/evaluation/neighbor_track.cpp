// Compiled without contraction, as exact.cpp. Scores are screened in float32; what that leaves in doubt is decided in
// float64, so that the clusters found depend neither on the processor nor on what was known before.
#include "evaluation/neighbor_track.hpp"

#include <algorithm>
#include <cmath>

#include "core/exact.hpp"
#include "evaluation/nearest_cluster.hpp"

namespace sparsecluster {

namespace {

constexpr double kMostChanged = 0.7;  // of the clusters: where more changed, rows look at all of them

bool same(const Center& one, const Center& other) {
    return one.features == other.features && one.values == other.values;
}

}  // namespace

void NeighborTrack::update(const Centers& centers, const double* spreads, const int32_t* labels, int n_threads) {
    const int64_t n = rows_.n_rows();
    if (scale_ == 0) scale_ = common_scale(rows_, centers);
    const bool few = note_changes(centers, spreads);
    known_ = false;  // where this is interrupted
    take(centers, spreads);
    if (few) {
        std::vector<int32_t> clusters;
        for (int64_t k = 0; k < centers.size(); ++k)
            if (changed_[k]) clusters.push_back(int32_t(k));
        index(&clusters, n_threads);
        const std::vector<int64_t> open = scan_changed(labels, n_threads);
        if (!open.empty()) {
            index(nullptr, n_threads);
            scan_all(open.data(), int64_t(open.size()), labels, n_threads);
        }
    } else {
        index(nullptr, n_threads);
        scan_all(nullptr, n, labels, n_threads);
    }
    for (Measure& measure : measures_) measure_distances(measure, n_threads);
    labels_.assign(labels, labels + n);
    known_ = true;
}

// Notes which clusters are others than those that are known; answers whether there are some, but few.
bool NeighborTrack::note_changes(const Centers& centers, const double* spreads) {
    const int64_t n_known = centers_.size(), n_centers = centers.size();
    if (!known_ || n_centers < n_known) return false;
    changed_.assign(n_centers, 1);
    for (int64_t k = 0; k < n_known; ++k) {
        changed_[k] = !same(centers.items[k], centers_.items[k]);
        for (int64_t m = 0; m < n_measures(); ++m)
            changed_[k] |= spreads[m * n_centers + k] != measures_[m].clusters.spread[k];
    }
    const int64_t n_changed = std::count(changed_.begin(), changed_.end(), 1);
    return n_changed > 0 && double(n_changed) <= kMostChanged * double(n_centers);
}

void NeighborTrack::take(const Centers& centers, const double* spreads) {
    centers_ = centers;
    for (Measure& measure : measures_) {
        measure.clusters.set(centers, spreads);
        spreads += centers.size();
        measure.nearest.resize(rows_.n_rows(), -1);
        measure.distance2.resize(rows_.n_rows(), INFINITY);
        measure.others.resize(rows_.n_rows(), INFINITY);
        measure.unmeasured.assign(rows_.n_rows(), 0);
    }
}

// Of some clusters, or of all of them.
void NeighborTrack::index(const std::vector<int32_t>* clusters, int n_threads) {
    const IndexLimits limits{head_limit_, direct_limit(rows_.nnz())};
    if (clusters)
        index_.build(centers_, *clusters, scale_, limits, n_threads);
    else
        index_.build(centers_, scale_, limits, n_threads);
    // Products alone: what is taken off depends on the measure.
    std::fill_n(index_.start.begin(), index_.n_centers, 0.0f);
}

// Answers the rows that are left in doubt.
std::vector<int64_t> NeighborTrack::scan_changed(const int32_t* labels, int n_threads) {
    std::vector<std::vector<int64_t>> doubtful(std::max(n_threads, 1));
    scan<true>(rows_, index_, nullptr, rows_.n_rows(), n_threads, scratches_,
               [&](const Scanned& scanned, const auto&, int thread) {
                   const int64_t i = scanned.row;
                   // The cluster that a row left was never among the others.
                   bool decided = labels[i] == labels_[i] || changed_[labels_[i]];
                   for (Measure& measure : measures_) decided = decided && decides(measure, scanned, labels[i]);
                   if (!decided) doubtful[thread].push_back(i);
               });
    std::vector<int64_t> ids;
    for (const auto& part : doubtful) ids.insert(ids.end(), part.begin(), part.end());
    std::sort(ids.begin(), ids.end());
    return ids;
}

// Whether the scores of the clusters that changed, and what is known of the others, tell the nearest one.
bool NeighborTrack::decides(Measure& measure, const Scanned& scanned, int32_t own) const {
    const int64_t i = scanned.row;
    const ScannedProducts row = products(scanned);
    const double error = row.error(measure.clusters);
    double best = -INFINITY, second = -INFINITY;
    int32_t found = -1;
    for (int64_t c = 0; c < index_.n_centers; ++c) {
        const int32_t k = index_.ids[c];
        const double score = row.score(measure.clusters, c, k);
        if (k == own || score <= second) continue;
        second = std::min(score, best);
        if (score > best) best = score, found = k;
    }
    const int32_t nearest = measure.nearest[i];
    double& others = measure.others[i];
    const bool certain = found >= 0 && best - second > 2 * error;
    double to_beat = others;
    if (nearest >= 0 && nearest != own && !changed_[nearest]) {
        // It stayed, and so did its distance.
        const double norm2 = row.norm2, least = measure.distance2[i] + measure.clusters.spread[nearest];
        const double score = 0.5 * (norm2 - least), rounding = ScannedProducts::kRounding * (norm2 + least);
        if (best + error < score - rounding) {
            others = std::max(others, best + error);
            return true;
        }
        to_beat = score + rounding;
    }
    if (!certain || !(best - error > to_beat)) return false;
    others = std::max({others, to_beat, second + error});
    measure.nearest[i] = found;
    measure.unmeasured[i] = 1;
    return true;
}

void NeighborTrack::scan_all(const int64_t* ids, int64_t n_ids, const int32_t* labels, int n_threads) {
    std::vector<std::vector<double>> scores(std::max(n_threads, 1));
    scan<true>(rows_, index_, ids, n_ids, n_threads, scratches_,
               [&](const Scanned& scanned, const auto& row, int thread) {
                   const int64_t i = scanned.row;
                   for (Measure& measure : measures_) {
                       const Neighbor found = nearest_beside(labels[i], products(scanned), row, rows_.norm2()[i],
                                                             centers_, measure.clusters, scores[thread]);
                       measure.nearest[i] = found.cluster;
                       measure.others[i] = found.others;
                       measure.unmeasured[i] = 1;
                   }
               });
}

// Distances to clusters that are new to a row; those to a cluster that is the nearest by the first measure, too, are known.
void NeighborTrack::measure_distances(Measure& measure, int n_threads) {
    const Measure& first = measures_.front();
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < rows_.n_rows(); ++i) {
        if (!measure.unmeasured[i]) continue;
        if (measure.nearest[i] < 0)
            measure.distance2[i] = INFINITY;
        else if (&measure != &first && measure.nearest[i] == first.nearest[i])
            measure.distance2[i] = first.distance2[i];
        else
            ids.push_back(i);
    }
    std::vector<double> found(ids.size());
    own_distances(rows_, centers_, measure.nearest.data(), ids.data(), int64_t(ids.size()), found.data(), n_threads);
    for (size_t p = 0; p < ids.size(); ++p) measure.distance2[ids[p]] = found[p];
}

std::vector<double> NeighborTrack::least(int64_t m) const {
    const Measure& measure = measures_[m];
    std::vector<double> sums(measure.distance2);
    for (size_t i = 0; i < sums.size(); ++i)
        if (measure.nearest[i] >= 0) sums[i] += measure.clusters.spread[measure.nearest[i]];
    return sums;
}

}  // namespace sparsecluster
