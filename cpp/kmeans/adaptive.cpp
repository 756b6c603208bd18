// The algorithm behind "auto". A center that did not move keeps its scores, so a row only has to look at
// the centers that moved: if its own center stayed, against its own score; if its own center moved, also
// against the best score that any other center had. Rows for which that does not decide are scanned again.
// Rows that are new are scanned against all centers; what is known of the others stays.
// (The idea of invariant center pairs: Kaukoranta, Franti and Nevalainen 2000; Aoyama and Saito's ES-ICP.)
// Where the centers are larger than the caches, reading them takes the time, and whole blocks of them are ruled out
// instead (block_scan.hpp), as long as that is faster.
#include <atomic>
#include <limits>
#include <optional>

#include "core/timing.hpp"
#include "index/scan.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/block_scan.hpp"

namespace sparsecluster {

namespace {

bool any_negative(const Rows& rows) {
    return std::visit(
        [](const auto& view) {
            for (int64_t i = 0; i < view.n_rows; ++i) {
                const auto row = view.row(i);
                for (int64_t e = 0; e < row.size; ++e)
                    if (row.values[e] < 0) return true;
            }
            return false;
        },
        rows.matrix());
}

// Counts the rows that centers of 16-bit numbers left in doubt, and floats would not have, since the first pass.
class CoarseDoubts {
public:
    void note() { n_.fetch_add(1, std::memory_order_relaxed); }
    // Whether they are few enough, of so many rows, for 16-bit numbers to pay.
    bool few_of(int64_t n_rows) const { return double(n_) <= kMostOfRows * double(n_rows); }

private:
    static constexpr double kMostOfRows = 0.1;
    std::atomic<int64_t> n_{0};
};

class Adaptive : public Assigner {
public:
    // `blocks`: rule out blocks wherever it is possible, whatever it costs.
    Adaptive(const Rows& rows, AssignOptions options, bool blocks = false) : Assigner(rows, options), always_(blocks) {}

    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override {
        n_centers_ = centers.size();
        if (scores_.size() == 0) return scan_all(centers, labels);
        norms_.resize(n_centers_);
        std::vector<int32_t> moved;
        for (int32_t k = 0; k < n_centers_; ++k) {
            norms_[k] = std::sqrt(centers.items[k].norm2) * scale_;
            if (shift[k] > 0) moved.push_back(k);
        }
        const bool more_rows = n_rows_ > scores_.size();
        if (moved.empty() && !forgotten_)
            return more_rows ? scan_new(centers, labels) : AssignStats{0, 0, "nothing moved", n_rows_};

        if (!moved.empty() && blocks_pay(centers, moved, labels)) return scan_blocks(centers, labels);

        // stale: centers that moved since the base index was built, or some were put aside; these last ones included.
        std::vector<int32_t> merged;
        std::set_union(stale_.ids.begin(), stale_.ids.end(), moved.begin(), moved.end(), std::back_inserter(merged));
        if (moved.empty() || double(moved.size()) > kFullShare * double(n_centers_))
            return scan_all(centers, labels);
        if (!base_built_ || stale_are_many(centers, int64_t(merged.size() - moved.size()))) {
            put_aside(centers, int64_t(moved.size()));
            merged = moved;
        }
        AssignStats stats;
        const double seconds = seconds_of([&] {
            stale_.build(centers, merged, scale_, screening_limits(), options_.n_threads);
            mask(moved, shift);
            stats = scan_moved(centers, labels);
        });
        plain_rate_ = seconds / double(n_rows_ * int64_t(merged.size()));
        return stats;
    }

    void forget(int64_t i) override {
        if (i >= scores_.size()) return;
        scores_.own[i] = RowScores::kUnknown;
        scores_.other[i] = std::numeric_limits<float>::infinity();
        forgotten_ = true;
    }

    bool grow() override {
        base_built_ = false;
        stale_.clear();
        n_aside_ = 0;
        return true;
    }

private:
    // Above this share of moved centers a full scan costs less.
    static constexpr double kFullShare = 0.7;
    // To put an entry of a center into an index costs as much as the scores of so many rows with a center.
    static constexpr double kScoresOfEntry = 4;
    static constexpr int64_t kBatch = 2048;
    // Indexes of centers that are put aside.
    static constexpr size_t kMostAside = 8;
    // Bytes that they may take: so many in any case, and so many per entry of the rows.
    static constexpr int64_t kEnoughBytes = int64_t(48) << 20, kBytesOfEntry = 4;
    // Centers of more entries than this are read from memory, not from caches.
    static constexpr int64_t kLargeCenters = int64_t(2) << 20;
    // Blocks are made of all centers where more than so many moved, or where leaving out the others left more than
    // so many rows in doubt.
    static constexpr double kMovedShare = 0.8, kDoubtShare = 0.02;

    IndexLimits screening_limits() const {
        IndexLimits limits = this->limits();
        limits.quantized = coarse_doubts_.few_of(n_rows_);
        return limits;
    }

    void build_base(const Centers& centers) {
        base_.build(centers, scale_, screening_limits(), options_.n_threads);
        stale_.clear();
        n_aside_ = 0;
        base_built_ = true;
        wasted_ = detours_ = 0;
    }

    static double building_scores(const Centers& centers) { return kScoresOfEntry * double(centers.nnz()); }

    // Whether the centers that are stale, but did not move now, have cost as much as an index of all would.
    bool stale_are_many(const Centers& centers, int64_t n_stale) {
        const double building = building_scores(centers);
        wasted_ += double(n_stale) * (double(n_rows_) + building / double(n_centers_));
        return wasted_ > building;
    }

    // Begins anew with stale centers. Only rows that have to be scanned again ask for those that were: as long as these
    // are few, their index is kept beside that of all. So many will move now.
    void put_aside(const Centers& centers, int64_t n_moved) {
        int64_t kept = stale_.n_centers + n_moved;
        for (size_t a = 0; a < n_aside_; ++a) kept += aside_[a].n_centers;
        int64_t bytes = stale_.bytes();
        for (const CenterIndex& index : aside_) bytes += index.bytes();
        const bool large = bytes > std::max(kEnoughBytes, kBytesOfEntry * rows_.nnz());
        if (large) {  // gives the memory back, so that others can be put aside later
            aside_.clear();
            stale_ = CenterIndex();
        }
        if (!base_built_ || large || n_aside_ == kMostAside || double(kept) > kFullShare * double(n_centers_) ||
            detours_ > building_scores(centers)) {
            build_base(centers);
            return;
        }
        if (n_aside_ == aside_.size()) aside_.emplace_back();
        std::swap(stale_, aside_[n_aside_++]);
        stale_.clear();
        wasted_ = 0;
    }

    // Centers that moved are looked for in the index of stale ones alone.
    void mask(const std::vector<int32_t>& moved, const std::vector<double>& shift) {
        constexpr float kNowhere = -std::numeric_limits<float>::infinity();
        for (int32_t k : moved) base_.start[k] = kNowhere;
        for (size_t a = 0; a < n_aside_; ++a)
            for (int64_t s = 0; s < aside_[a].n_centers; ++s)
                if (shift[aside_[a].ids[s]] > 0) aside_[a].start[s] = kNowhere;
    }

    // Whether to rule out blocks in this pass: where that is possible, and should be faster.
    bool blocks_pay(const Centers& centers, const std::vector<int32_t>& moved, const int32_t* labels) {
        // One group after the other is made a table of, for few rows each.
        const bool direct = rows_.n_features() * 16 * int64_t(sizeof(float)) <= direct_limit(rows_.nnz(n_rows_));
        if (!always_ && (centers.nnz() < kLargeCenters || !direct || n_rows_ < 4 * n_centers_)) return false;
        if (!negative_) negative_ = any_negative(rows_);
        if (*negative_) return false;
        double plain = std::numeric_limits<double>::infinity();
        if (!always_) {
            if (!(plain_rate_ > 0)) probe_plain(centers);
            const bool few = double(moved.size()) <= kFullShare * double(n_centers_);
            plain = plain_rate_ * double(n_rows_) * double(few ? int64_t(moved.size()) : n_centers_);
        }
        if (rest_-- > 0) return false;
        if (!blocks_) blocks_.emplace(rows_, options_, scale_, scores_);
        blocks_->arrange(centers, moved, many_in_doubt_ || double(moved.size()) > kMovedShare * double(n_centers_));
        expected_ = blocks_->expected_seconds(centers, labels);
        const double slower = expected_ * surprise_ / plain;
        if (slower <= 1) return true;
        blocks_.reset();
        // Asking takes time, too: the less, the farther it is from paying.
        rest_ = int(std::min(16.0, 4 * (slower - 1)));
        return false;
    }

    // Times a scan of a few rows, with every other center: an index of all would be the most memory that a fit takes.
    void probe_plain(const Centers& centers) {
        const int64_t n = std::min<int64_t>(n_rows_, 4096);
        std::vector<int32_t> some;
        for (int64_t k = 0; k < n_centers_; k += 2) some.push_back(int32_t(k));
        base_ = CenterIndex();
        base_built_ = false;
        aside_.clear();
        n_aside_ = 0;
        CenterIndex index;
        const double indexing =
            seconds_of([&] { index.build(centers, some, scale_, screening_limits(), options_.n_threads); });
        const double scanning = seconds_of([&] {
            scan(rows_, index, nullptr, n, options_.n_threads, scratches_, [](const Scanned&, const auto&, int) {});
        });
        plain_rate_ = (indexing / double(n_rows_) + scanning / double(n)) / double(some.size());
    }

    AssignStats scan_blocks(const Centers& centers, int32_t* labels) {
        const int64_t known = scores_.size();
        base_ = CenterIndex();
        stale_ = CenterIndex();
        aside_.clear();
        n_aside_ = 0;
        base_built_ = forgotten_ = false;
        std::vector<int64_t> doubtful;
        AssignStats stats;
        const double seconds = seconds_of([&] {
            stats = blocks_->assign(centers, labels, doubtful);
            many_in_doubt_ = double(doubtful.size()) > kDoubtShare * double(known);
            scores_.resize(n_rows_);
            if (doubtful.empty() && known == n_rows_) return;
            build_base(centers);
            scan_whole(std::move(doubtful), known, centers, labels, stats);
        });
        if (expected_ > 0) surprise_ = seconds / expected_;
        return stats;
    }

    // Takes over what a complete scan of a row found.
    template <class V, class I>
    bool settle_row(const Scanned& scanned, const Row<V, I>& row, const Centers& centers,
                    const std::vector<double>& norms, std::vector<int32_t>& candidates, int32_t* labels) {
        const int64_t i = scanned.row;
        bool firm;
        if (!scanned.certain() && scanned.coarseness > 0 && scanned.certain(scanned.error - scanned.coarseness))
            coarse_doubts_.note();
        const int32_t label = decide(scanned, row, rows_.norm2()[i], centers, norms, candidates, &firm);
        const float other = label == scanned.top.index ? scanned.top.second : scanned.top.best;
        scores_.own[i] = firm ? scanned.scores[label] : RowScores::kUnknown;
        scores_.error[i] = next_above(scanned.error);
        scores_.other[i] = next_above(double(other) + scanned.error);
        const bool changed = labels[i] != label;
        labels[i] = label;
        return changed;
    }

    AssignStats scan_all(const Centers& centers, int32_t* labels) {
        const int64_t n = n_rows_;
        const bool first = scores_.size() == 0;
        scores_.resize(n);
        forgotten_ = false;
        std::atomic<int64_t> moved{0};
        const double seconds = seconds_of([&] {
            build_base(centers);
            scan(rows_, base_, nullptr, n, options_.n_threads, scratches_,
                 [&](const Scanned& scanned, const auto& row, int thread) {
                     if (settle_row(scanned, row, centers, base_.norm, scratches_[thread].candidates, labels))
                         moved.fetch_add(1, std::memory_order_relaxed);
                 });
        });
        // The centers to start from may be rows, with far fewer entries than later ones.
        if (!first) plain_rate_ = seconds / double(n * n_centers_);
        return {moved, n * n_centers_, "full scan"};
    }

    AssignStats scan_moved(const Centers& centers, int32_t* labels) {
        const int64_t n = n_rows_, known = scores_.size();
        const CenterIndex& index = stale_;
        forgotten_ = false;
        scores_.resize(n);
        std::vector<int32_t> local(n_centers_, -1);
        for (int64_t s = 0; s < index.n_centers; ++s) local[index.ids[s]] = int32_t(s);

        // Rows whose own centers moved need the best two: found for all of a block where most rows will.
        const bool most = 2 * index.n_centers > n_centers_;
        std::atomic<int64_t> moved{0};
        std::vector<std::vector<int64_t>> open(std::max(options_.n_threads, 1));
        const auto decide_row = [&](const Scanned& found, const auto&, int thread) {
            const int64_t i = found.row;
            const double best = found.top.best, error = found.error;
            const double own_low = double(scores_.own[i]) - scores_.error[i];
            const double own_high = double(scores_.own[i]) + scores_.error[i];
            const bool own_stayed = local[labels[i]] < 0;
            if (own_stayed && best + error < own_low) {
                if (best + error > scores_.other[i]) scores_.other[i] = next_above(best + error);
                return;
            }
            Scanned scanned = found;
            if (!most) scanned.top = index.simd->top2(found.scores, index.stride);
            bool wins;
            if (own_stayed) {
                wins = best - error > own_high;
                if (wins && scanned.certain()) scores_.other[i] = std::max(scores_.other[i], next_above(own_high));
            } else {
                // A comparison with NaN, where it is unknown, is false.
                wins = best - error > scores_.other[i] && own_low == own_low;
            }
            if (!wins || !scanned.certain()) {
                open[thread].push_back(i);
                return;
            }
            const int32_t label = index.ids[scanned.top.index];
            scores_.own[i] = scanned.top.best;
            scores_.error[i] = next_above(error);
            scores_.other[i] = std::max(scores_.other[i], next_above(scanned.top.second + error));
            if (labels[i] == label) return;
            labels[i] = label;
            moved.fetch_add(1, std::memory_order_relaxed);
        };
        if (most)
            scan(rows_, index, nullptr, known, options_.n_threads, scratches_, decide_row);
        else
            scan<true>(rows_, index, nullptr, known, options_.n_threads, scratches_, decide_row);

        std::vector<int64_t> ids;
        for (const auto& part : open) ids.insert(ids.end(), part.begin(), part.end());
        std::sort(ids.begin(), ids.end());
        AssignStats stats{moved, known * index.n_centers, "moved centers"};
        scan_whole(std::move(ids), known, centers, labels, stats);
        return stats;
    }

    // Only rows are new, no center moved.
    AssignStats scan_new(const Centers& centers, int32_t* labels) {
        const int64_t known = scores_.size();
        scores_.resize(n_rows_);
        if (!base_built_) build_base(centers);
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

    // Complete scores of a few rows: those of the base index, and of the others those of centers that moved since.
    int64_t scan_again(const Centers& centers, const int64_t* ids, int64_t n_ids, int32_t* labels) {
        std::vector<Newer> newer;
        for (size_t a = 0; a < n_aside_; ++a) newer.push_back(scan_newer(aside_[a], ids, n_ids));
        if (stale_.n_centers > 0) newer.push_back(scan_newer(stale_, ids, n_ids));
        std::atomic<int64_t> moved{0};
        scan(rows_, base_, ids, n_ids, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int64_t p = std::lower_bound(ids, ids + n_ids, scanned.row) - ids;
                 float* all = const_cast<float*>(scanned.scores);
                 Scanned complete = scanned;
                 for (const Newer& one : newer) {
                     const CenterIndex& index = *one.index;
                     // A center has its score in one index; elsewhere it is masked.
                     for (int64_t s = 0; s < index.n_centers; ++s)
                         all[index.ids[s]] = std::max(all[index.ids[s]], one.scores[p * index.stride + s]);
                     complete.error = std::max(complete.error, one.errors[p]);
                     complete.rounding = std::max(complete.rounding, one.roundings[p]);
                     complete.coarseness = std::max(complete.coarseness, one.coarseness[p]);
                 }
                 complete.top = base_.simd->top2(all, base_.stride);
                 if (settle_row(complete, row, centers, norms_, scratches_[thread].candidates, labels))
                     moved.fetch_add(1, std::memory_order_relaxed);
             });
        return moved;
    }

    // What an index beside that of all says of a few rows.
    struct Newer {
        const CenterIndex* index;
        std::vector<float> scores;
        std::vector<double> errors, roundings, coarseness;
    };

    Newer scan_newer(const CenterIndex& index, const int64_t* ids, int64_t n_ids) {
        detours_ += double(n_ids) * double(index.n_centers);
        const std::vector<double> zeros(n_ids);
        Newer found{&index, std::vector<float>(n_ids * index.stride), zeros, zeros, zeros};
        scan(rows_, index, ids, n_ids, options_.n_threads, scratches_, [&](const Scanned& scanned, const auto&, int) {
            const int64_t p = std::lower_bound(ids, ids + n_ids, scanned.row) - ids;
            std::copy_n(scanned.scores, index.stride, found.scores.data() + p * index.stride);
            found.errors[p] = scanned.error;
            found.roundings[p] = scanned.rounding;
            found.coarseness[p] = scanned.coarseness;
        });
        return found;
    }

    bool always_;
    int64_t n_centers_ = 0;
    bool forgotten_ = false;
    RowScores scores_;
    CoarseDoubts coarse_doubts_;
    CenterIndex base_;        // all centers; those that moved since are masked
    bool base_built_ = false;
    std::vector<CenterIndex> aside_;  // the first n_aside_: those that moved since base_ was built, but not lately; others
    size_t n_aside_ = 0;              // keep their memory
    CenterIndex stale_;       // those that moved since then
    double wasted_ = 0;       // in scores: on those of them that had not moved again,
    double detours_ = 0;      // and on those beside base_, by rows that were scanned again
    std::vector<double> norms_;
    std::vector<ScanScratch> scratches_;
    std::optional<BlockScan> blocks_;
    std::optional<bool> negative_;  // whether rows have negative values, which no bound of a block covers
    bool many_in_doubt_ = false;
    double plain_rate_ = 0;     // seconds per row and center of the last scan
    double expected_ = 0;       // seconds of a pass over blocks,
    double surprise_ = 1;       // times which the last one took
    int rest_ = 0;              // passes until blocks are considered again
};

class BlockMax final : public Adaptive {
public:
    BlockMax(const Rows& rows, AssignOptions options) : Adaptive(rows, options, true) {}
};

}  // namespace

const Algorithm kAdaptive = {
    "auto", make_assigner<Adaptive>, [](int64_t n_rows, int64_t) { return 12 * n_rows; }};
const Algorithm kBlockMax = {"block-max", make_assigner<BlockMax>, kAdaptive.bytes};

}  // namespace sparsecluster
