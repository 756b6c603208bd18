// The algorithm behind "auto". A center that did not move keeps its scores, so a row only has to look at
// the centers that moved: if its own center stayed, against its own score; if its own center moved, also
// against the best score that any other center had. Rows for which that does not decide are scanned again.
// Rows that are new are scanned against all centers; what is known of the others stays.
// (The idea of invariant center pairs: Kaukoranta, Franti and Nevalainen 2000; Aoyama and Saito's ES-ICP.)
#include <atomic>
#include <limits>

#include "index/scan.hpp"
#include "kmeans/assign.hpp"

namespace sparsecluster {

namespace {

float next_above(double value) {
    return std::nextafter(float(value), std::numeric_limits<float>::infinity());
}

class Adaptive final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override {
        n_centers_ = centers.size();
        if (own_.empty()) return scan_all(centers, labels);
        norms_.resize(n_centers_);
        std::vector<int32_t> moved;
        for (int32_t k = 0; k < n_centers_; ++k) {
            norms_[k] = std::sqrt(centers.items[k].norm2) * scale_;
            if (shift[k] > 0) moved.push_back(k);
        }
        const bool more_rows = n_rows_ > int64_t(own_.size());
        if (moved.empty() && !forgotten_)
            return more_rows ? scan_new(centers, labels) : AssignStats{0, 0, "nothing moved", n_rows_};

        // stale: centers that moved since the base index was built, these last ones included.
        std::vector<int32_t> merged;
        std::set_union(stale_.ids.begin(), stale_.ids.end(), moved.begin(), moved.end(), std::back_inserter(merged));
        if (moved.empty() || double(moved.size()) > kFullShare * double(n_centers_))
            return scan_all(centers, labels);
        if (double(merged.size()) > std::max(16.0, kStaleGrowth * double(moved.size()))) {
            base_.build(centers, scale_, limits(), options_.n_threads);
            merged = moved;
        }
        stale_.build(centers, merged, scale_, limits(), options_.n_threads);
        for (int32_t k : merged) base_.start[k] = -std::numeric_limits<float>::infinity();
        return scan_moved(centers, labels);
    }

    void forget(int64_t i) override {
        if (own_.empty()) return;
        own_[i] = std::numeric_limits<float>::quiet_NaN();
        forgotten_ = true;
    }

private:
    // Above this share of moved centers a full scan costs less.
    static constexpr double kFullShare = 0.7;
    // The base index is built again when the stale centers outgrow the moved ones by this factor.
    static constexpr double kStaleGrowth = 1.5;
    static constexpr int64_t kBatch = 2048;

    void make_room(int64_t n) {
        own_.resize(n);
        other_.resize(n);
        error_.resize(n);
    }

    // Takes over what a complete scan of a row found.
    template <class V, class I>
    bool settle_row(const Scanned& scanned, const Row<V, I>& row, const Centers& centers,
                    const std::vector<double>& norms, std::vector<int32_t>& candidates, int32_t* labels) {
        const int64_t i = scanned.row;
        const int32_t label = decide(scanned, row, rows_.norm2()[i], centers, norms, candidates);
        const float other = label == scanned.top.index ? scanned.top.second : scanned.top.best;
        own_[i] = scanned.scores[label];
        error_[i] = next_above(scanned.error);
        other_[i] = next_above(double(other) + scanned.error);
        const bool changed = labels[i] != label;
        labels[i] = label;
        return changed;
    }

    AssignStats scan_all(const Centers& centers, int32_t* labels) {
        const int64_t n = n_rows_;
        make_room(n);
        base_.build(centers, scale_, limits(), options_.n_threads);
        stale_.ids.clear();
        stale_.n_centers = stale_.stride = 0;
        forgotten_ = false;
        std::atomic<int64_t> moved{0};
        scan(rows_, base_, nullptr, n, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 if (settle_row(scanned, row, centers, base_.norm, scratches_[thread].candidates, labels))
                     moved.fetch_add(1, std::memory_order_relaxed);
             });
        return {moved, n * n_centers_, "full scan"};
    }

    AssignStats scan_moved(const Centers& centers, int32_t* labels) {
        const int64_t n = n_rows_, known = int64_t(own_.size());
        const CenterIndex& index = stale_;
        forgotten_ = false;
        make_room(n);
        std::vector<int32_t> local(n_centers_, -1);
        for (int64_t s = 0; s < index.n_centers; ++s) local[index.ids[s]] = int32_t(s);

        std::atomic<int64_t> moved{0};
        std::vector<std::vector<int64_t>> open(std::max(options_.n_threads, 1));
        scan(rows_, index, nullptr, known, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto&, int thread) {
                 const int64_t i = scanned.row;
                 const double best = scanned.top.best, error = scanned.error;
                 const double own_low = double(own_[i]) - error_[i], own_high = double(own_[i]) + error_[i];
                 bool wins;
                 if (local[labels[i]] < 0) {
                     if (best + error < own_low) {
                         other_[i] = std::max(other_[i], next_above(best + error));
                         return;
                     }
                     wins = best - error > own_high;
                     if (wins && scanned.certain()) other_[i] = std::max(other_[i], next_above(own_high));
                 } else {
                     // A comparison with NaN, a forgotten row, is false.
                     wins = best - error > other_[i] && own_low == own_low;
                 }
                 if (!wins || !scanned.certain()) {
                     open[thread].push_back(i);
                     return;
                 }
                 const int32_t label = index.ids[scanned.top.index];
                 own_[i] = scanned.top.best;
                 error_[i] = next_above(error);
                 other_[i] = std::max(other_[i], next_above(scanned.top.second + error));
                 if (labels[i] == label) return;
                 labels[i] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });

        std::vector<int64_t> ids;
        for (const auto& part : open) ids.insert(ids.end(), part.begin(), part.end());
        std::sort(ids.begin(), ids.end());
        AssignStats stats{moved, known * index.n_centers, "moved centers"};
        scan_whole(std::move(ids), known, centers, labels, stats);
        return stats;
    }

    // Only rows are new, no center moved.
    AssignStats scan_new(const Centers& centers, int32_t* labels) {
        const int64_t known = int64_t(own_.size());
        make_room(n_rows_);
        AssignStats stats{0, 0, "new rows"};
        scan_whole({}, known, centers, labels, stats);
        return stats;
    }

    // The listed rows and all from `known` on, against all centers.
    void scan_whole(std::vector<int64_t> ids, int64_t known, const Centers& centers, int32_t* labels,
                    AssignStats& stats) {
        for (int64_t i = known; i < n_rows_; ++i) ids.push_back(i);
        stats.distances += int64_t(ids.size()) * n_centers_;
        for (int64_t begin = 0; begin < int64_t(ids.size()); begin += kBatch)
            stats.moved += scan_again(centers, ids.data() + begin,
                                      std::min(kBatch, int64_t(ids.size()) - begin), labels);
    }

    // Complete scores of a few rows: the base index where it is fresh, the stale centers on top.
    int64_t scan_again(const Centers& centers, const int64_t* ids, int64_t n_ids, int32_t* labels) {
        const CenterIndex& index = stale_;
        std::vector<float> scores(n_ids * index.stride);
        std::vector<double> errors(n_ids), roundings(n_ids);
        auto position = [&](int64_t row) { return std::lower_bound(ids, ids + n_ids, row) - ids; };
        auto keep = [&](const Scanned& scanned, const auto&, int) {
            const int64_t p = position(scanned.row);
            std::copy_n(scanned.scores, index.stride, scores.data() + p * index.stride);
            errors[p] = scanned.error;
            roundings[p] = scanned.rounding;
        };
        if (index.n_centers > 0) scan(rows_, index, ids, n_ids, options_.n_threads, scratches_, keep);
        std::atomic<int64_t> moved{0};
        scan(rows_, base_, ids, n_ids, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int64_t p = position(scanned.row);
                 float* all = const_cast<float*>(scanned.scores);
                 for (int64_t s = 0; s < index.n_centers; ++s)
                     all[index.ids[s]] = scores[p * index.stride + s];
                 Scanned complete = scanned;
                 complete.top = base_.simd->top2(all, base_.stride);
                 complete.error = std::max(scanned.error, errors[p]);
                 complete.rounding = std::max(scanned.rounding, roundings[p]);
                 if (settle_row(complete, row, centers, norms_, scratches_[thread].candidates, labels))
                     moved.fetch_add(1, std::memory_order_relaxed);
             });
        return moved;
    }

    int64_t n_centers_ = 0;
    bool forgotten_ = false;
    CenterIndex base_;   // all centers; those of stale_ are masked
    CenterIndex stale_;  // those that moved since base_ was built
    std::vector<double> norms_;
    std::vector<float> own_;    // score of the own center,
    std::vector<float> error_;  // how wrong that may be,
    std::vector<float> other_;  // and more than the score of any other
    std::vector<ScanScratch> scratches_;
};

}  // namespace

const Algorithm kAdaptive = {
    "auto", make_assigner<Adaptive>, [](int64_t n_rows, int64_t) { return 12 * n_rows; }};

}  // namespace sparsecluster
