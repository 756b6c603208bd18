// Whole blocks of centers ruled out at once. Of each block a row computes a bound from above of all its scores
// (block_maxima.hpp), and only the blocks whose bound reaches the best score that the row has with its own group are
// looked at. A score x.c - |c|^2/2 is lowered the most by centers of large norm: a block has centers of about the same
// norm, so that the bound can take off the least of them. Nothing but its own score is kept per row, so the bounds are
// as good in the second iteration as in the last. A center that did not move cannot win a row whose own score did not
// fall: where few centers move, only their blocks count.
#include <atomic>
#include <limits>
#include <numeric>

#include "core/groups.hpp"
#include "index/scan.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/block_maxima.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kGroup = 16;  // centers that are looked at together: a cache line of floats per feature
constexpr int64_t kBlock = 8;   // centers that share a bound

float next_above(double value) {
    return std::nextafter(float(value), std::numeric_limits<float>::infinity());
}

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

// What a group holds for a row, but for the row's own center.
struct Found {
    float best = -INFINITY, second = -INFINITY;
    int32_t center = -1;
    float error = 0;
};

// Pairs of rows and groups that are to be looked at: by row, and where each is in the order by group.
struct Pairs {
    std::vector<int64_t> row_begin;
    std::vector<int32_t> groups;
    std::vector<int64_t> places;  // per pair by row: its place in the order by group
    Groups by_group;
    std::vector<Found> found;  // in the order by group
};

class BlockMax final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override {
        const int64_t known = int64_t(own_.size());
        if (known == 0) negative_ = any_negative(rows_);
        if (known == 0 || negative_) return scan_all(centers, labels);
        whole_ = std::move(forgotten_);
        forgotten_.clear();
        AssignStats stats{0, 0, "nothing moved", known};
        if (arrange(centers, shift)) {
            maxima_.build(centers, order_, kBlock, scale_, options_.n_threads);
            scratches_.resize(std::max(options_.n_threads, 1));
            if (open_share(centers, labels) > kFullShare) return scan_all(centers, labels);
            stats = {0, 0, "block maxima", 0};
            for (int64_t begin = 0; begin < known; begin += kPart)
                look_again(begin, std::min(known, begin + kPart), centers, labels, stats);
        }
        for (int64_t i = known; i < n_rows_; ++i) whole_.push_back(i);
        std::sort(whole_.begin(), whole_.end());
        whole_.erase(std::unique(whole_.begin(), whole_.end()), whole_.end());
        if (!whole_.empty()) scan_whole(whole_.data(), int64_t(whole_.size()), centers, labels, stats);
        many_in_doubt_ = double(whole_.size()) > kDoubtShare * double(known);
        return stats;
    }

    void forget(int64_t i) override {
        if (i < int64_t(own_.size())) forgotten_.push_back(i);
    }

private:
    // Above this share of blocks that are open a scan of everything costs less.
    static constexpr double kFullShare = 0.15;
    // Centers that did not move are left out where they are more than a few, and few rows need them all the same.
    static constexpr double kMovedShare = 0.8, kDoubtShare = 0.02;
    static constexpr int64_t kPart = 1 << 17;     // rows whose open groups are listed at a time
    static constexpr int64_t kRows = 64;          // rows of a task
    static constexpr int64_t kPortion = 1 << 13;  // rows of a group of a task

    struct Scratch {
        std::vector<HeadEntry> entries;
        std::vector<int64_t> row_begin;
        std::vector<float> sums;
        std::vector<int32_t> reaching, candidates;
        CenterIndex index;
        ScanScratch scan;
    };

    // Puts the centers that count into groups. False where none moved.
    bool arrange(const Centers& centers, const std::vector<double>& shift) {
        order_.clear();
        for (int32_t k = 0; k < centers.size(); ++k)
            if (shift[k] > 0) order_.push_back(k);
        if (order_.empty()) return false;
        all_ = many_in_doubt_ || double(order_.size()) > kMovedShare * double(centers.size());
        if (all_) {
            order_.resize(centers.size());
            std::iota(order_.begin(), order_.end(), 0);
        }
        std::stable_sort(order_.begin(), order_.end(),
                         [&](int32_t a, int32_t b) { return centers.items[a].norm2 < centers.items[b].norm2; });
        position_.assign(centers.size(), -1);
        for (size_t p = 0; p < order_.size(); ++p) position_[order_[p]] = int32_t(p);
        n_groups_ = (int64_t(order_.size()) + kGroup - 1) / kGroup;
        longest_ = 0;
        for (const Center& center : centers.items) longest_ = std::max(longest_, std::sqrt(center.norm2) * scale_);
        return true;
    }

    // The group of a row's own center; -1 where that does not count.
    int64_t group_of(int32_t label) const { return position_[label] < 0 ? -1 : position_[label] / kGroup; }

    AssignStats scan_all(const Centers& centers, int32_t* labels) {
        AssignStats stats{0, 0, "full scan", 0};
        forgotten_.clear();
        scan_whole(nullptr, n_rows_, centers, labels, stats);
        return stats;
    }

    // The listed rows (null: the first ones) against all centers.
    void scan_whole(const int64_t* ids, int64_t n_ids, const Centers& centers, int32_t* labels, AssignStats& stats) {
        own_.resize(n_rows_);
        error_.resize(n_rows_);
        other_.resize(n_rows_);
        CenterIndex index;
        index.build(centers, scale_, limits(), options_.n_threads);
        std::vector<ScanScratch> scratches;
        std::atomic<int64_t> moved{0};
        scan(rows_, index, ids, n_ids, options_.n_threads, scratches,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int64_t i = scanned.row;
                 const int32_t label =
                     decide(scanned, row, rows_.norm2()[i], centers, index.norm, scratches[thread].candidates);
                 own_[i] = scanned.scores[label];
                 error_[i] = next_above(scanned.error);
                 const float other = label == scanned.top.index ? scanned.top.second : scanned.top.best;
                 other_[i] = next_above(double(other) + scanned.error);
                 if (labels[i] == label) return;
                 labels[i] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });
        stats.moved += moved;
        stats.distances += n_ids * centers.size();
    }

    // Bounds the error of every score of a row, as a scan does (read_scores).
    double error_of(int64_t row, int64_t size) const {
        const double roundings = 0x1p-24 * double(size + 8);
        return roundings * (1 + 2 * roundings) * longest_ * (std::sqrt(rows_.norm2()[row]) * scale_ + 0.5 * longest_) +
               1e-36;
    }

    // The sums of all blocks for some rows: those with numbers from begin to end, or every `step`-th of these.
    template <class V, class I>
    void sum_blocks(const Matrix<V, I>& view, int64_t begin, int64_t end, int64_t step, Scratch& scratch) const {
        int64_t n_entries = 0, n_rows = 0;
        for (int64_t i = begin; i < end; i += step, ++n_rows) n_entries += view.row(i).size;
        if (int64_t(scratch.entries.size()) < n_entries + kPrefetchAhead + 1)
            scratch.entries.resize(n_entries + kPrefetchAhead + 1);
        scratch.sums.resize(n_rows * maxima_.width());
        scratch.reaching.resize(maxima_.width());
        scratch.row_begin.assign(1, 0);
        HeadEntry* at = scratch.entries.data();
        for (int64_t i = begin; i < end; i += step) {
            const Row<V, I> row = view.row(i);
            for (int64_t e = 0; e < row.size; ++e) {
                *at = maxima_.entry(int64_t(row.features[e]), double(row.values[e]) * scale_);
                at += int32_t(at->slot) >= 0;
            }
            scratch.row_begin.push_back(at - scratch.entries.data());
        }
        std::fill_n(at, kPrefetchAhead, HeadEntry{0, 0.0f});
        kernels().sum_bytes(maxima_.table(), maxima_.width(), scratch.entries.data(), scratch.row_begin.data(), n_rows,
                            maxima_.width(), scratch.sums.data());
    }

    // How many blocks reach a score, for the r-th row of the sums; their numbers are in scratch.reaching. `below` becomes
    // the largest bound of the others, if larger.
    int64_t reaching(int64_t r, double score, Scratch& scratch, float& below) const {
        const int64_t n_entries = scratch.row_begin[r + 1] - scratch.row_begin[r];
        // More than the roundings of the terms, all of which are positive, and of their sum.
        const float factor = 1.0f + float(n_entries + 16) * 0x1p-22f;
        return kernels().collect_reaching(scratch.sums.data() + r * maxima_.width(), factor, maxima_.offsets().data(),
                                          maxima_.width(), std::nextafter(float(score), -INFINITY),
                                          scratch.reaching.data(), &below);
    }

    // The share of the blocks that would be open, by a sample of rows.
    double open_share(const Centers& centers, const int32_t* labels) {
        constexpr int64_t kSample = 512;
        const int64_t known = int64_t(own_.size()), step = std::max<int64_t>(1, known / kSample);
        int64_t n_open = 0, r = 0;
        Scratch& scratch = scratches_[0];
        std::visit(
            [&](const auto& view) {
                sum_blocks(view, 0, known, step, scratch);
                for (int64_t i = 0; i < known; i += step, ++r) {
                    const Center& center = centers.items[labels[i]];
                    const double own = (dot(view.row(i), center) - 0.5 * center.norm2) * scale_ * scale_;
                    float below = 0;
                    n_open += reaching(r, own, scratch, below);
                }
            },
            rows_.matrix());
        return double(n_open) / (double(r) * double(centers.size()) / kBlock);
    }

    void look_again(int64_t begin, int64_t end, const Centers& centers, int32_t* labels, AssignStats& stats) {
        // First a row's own group, whose best is what others have to reach.
        Pairs near = list_pairs(begin, end, [&](const auto&, int64_t from, int64_t to, Scratch&, const auto& add) {
            for (int64_t i = from; i < to; ++i)
                if (group_of(labels[i]) >= 0) add(i, group_of(labels[i]));
        });
        look_into(near, centers, labels);
        std::vector<char> doubtful(end - begin, 0);
        std::vector<float> below(end - begin, -INFINITY);
        Pairs far = list_pairs(begin, end, [&](const auto& view, int64_t from, int64_t to, Scratch& scratch,
                                               const auto& add) {
            sum_blocks(view, from, to, 1, scratch);
            for (int64_t i = from; i < to; ++i) {
                const int64_t r = i - begin, own_group = group_of(labels[i]);
                double least = own_[i];
                if (own_group >= 0) {
                    least = std::max(least, double(near.found[near.places[near.row_begin[r]]].best));
                    // A center that stayed where it was may be nearer now.
                    doubtful[r] = !all_ && double(own_[i]) - 3 * double(error_[i]) <= double(other_[i]);
                }
                if (doubtful[r]) continue;
                const int64_t n_open = reaching(i - from, least - 4 * double(error_[i]), scratch, below[r]);
                for (int64_t o = 0, last = -1; o < n_open; ++o) {
                    const int64_t group = scratch.reaching[o] / (kGroup / kBlock);
                    if (group != last && group != own_group) add(i, group);
                    last = group;
                }
            }
        });
        look_into(far, centers, labels);
        decide_rows(begin, end, near, far, below, doubtful, centers, labels, stats);
        stats.distances += int64_t(near.groups.size() + far.groups.size()) * kGroup;
    }

    // visit(view, from, to, scratch, add) calls add(row, group) for what the rows of a task are to look at, in order.
    template <class Visit>
    Pairs list_pairs(int64_t begin, int64_t end, const Visit& visit) {
        const int64_t n_tasks = (end - begin + kRows - 1) / kRows;
        std::vector<std::vector<int32_t>> groups(n_tasks);
        Pairs pairs;
        pairs.row_begin.assign(end - begin + 1, 0);
        std::visit(
            [&](const auto& view) {
                parallel_blocks(n_tasks, options_.n_threads, [&](int64_t t, int thread) {
                    const int64_t from = begin + t * kRows, to = std::min(end, from + kRows);
                    visit(view, from, to, scratches_[thread], [&](int64_t row, int64_t group) {
                        groups[t].push_back(int32_t(group));
                        ++pairs.row_begin[row - begin + 1];
                    });
                });
            },
            rows_.matrix());
        for (int64_t r = 0; r < end - begin; ++r) pairs.row_begin[r + 1] += pairs.row_begin[r];
        for (const auto& some : groups) pairs.groups.insert(pairs.groups.end(), some.begin(), some.end());
        pairs.by_group.begin.assign(n_groups_ + 1, 0);
        for (const int32_t group : pairs.groups) ++pairs.by_group.begin[group + 1];
        for (int64_t g = 0; g < n_groups_; ++g) pairs.by_group.begin[g + 1] += pairs.by_group.begin[g];
        pairs.by_group.ids.resize(pairs.groups.size());
        pairs.places.resize(pairs.groups.size());
        std::vector<int64_t> next(pairs.by_group.begin.begin(), pairs.by_group.begin.end() - 1);
        for (int64_t r = 0; r < end - begin; ++r)
            for (int64_t p = pairs.row_begin[r]; p < pairs.row_begin[r + 1]; ++p) {
                pairs.places[p] = next[pairs.groups[p]]++;
                pairs.by_group.ids[pairs.places[p]] = begin + r;
            }
        return pairs;
    }

    // Finds the best two of every pair; a row's own center is left out, and its score renewed.
    void look_into(Pairs& pairs, const Centers& centers, const int32_t* labels) {
        struct Portion {
            int64_t group, begin, end;
        };
        std::vector<Portion> portions;
        for (int64_t g = 0; g < n_groups_; ++g)
            for (int64_t begin = pairs.by_group.begin[g]; begin < pairs.by_group.begin[g + 1]; begin += kPortion)
                portions.push_back({g, begin, std::min(begin + kPortion, pairs.by_group.begin[g + 1])});
        pairs.found.resize(pairs.groups.size());
        std::visit(
            [&](const auto& view) {
                parallel_blocks(int64_t(portions.size()), options_.n_threads, [&](int64_t p, int thread) {
                    const Portion& portion = portions[p];
                    look_into_group(view, portion.group, pairs.by_group.ids.data(), portion.begin, portion.end, centers,
                                    labels, scratches_[thread], pairs.found.data());
                });
            },
            rows_.matrix());
    }

    template <class V, class I>
    void look_into_group(const Matrix<V, I>& view, int64_t group, const int64_t* ids, int64_t begin, int64_t end,
                         const Centers& centers, const int32_t* labels, Scratch& scratch, Found* found) {
        const auto first = order_.begin() + group * kGroup;
        CenterIndex& index = scratch.index;
        index.build(centers, {first, std::min(first + kGroup, order_.end())}, scale_, limits(), 1);
        const int64_t step = block_rows(index);
        for (int64_t from = begin, to; from < end; from = to) {
            to = end_of_pack(view, ids, from, std::min(end, from + step));
            score_block(view, index, ids, from, to, scratch.scan);
            for (int64_t m = from; m < to; ++m) {
                const int64_t i = ids[m], own = position_[labels[i]] - group * kGroup;
                float* const scores = scratch.scan.scores.data() + (m - from) * index.stride;
                const bool inside = own >= 0 && own < kGroup;
                if (inside) {
                    own_[i] = scores[own];
                    scores[own] = -INFINITY;
                }
                const Scanned scanned = read_scores(rows_, index, scratch.scan, i, m - from);
                const float error = next_above(std::max(scanned.error, error_of(i, view.row(i).size)));
                if (inside) error_[i] = error;
                found[m] = {scanned.top.best, scanned.top.second, first[scanned.top.index], error};
            }
        }
    }

    void decide_rows(int64_t begin, int64_t end, const Pairs& near, const Pairs& far, const std::vector<float>& below,
                     const std::vector<char>& doubtful, const Centers& centers, int32_t* labels, AssignStats& stats) {
        const int64_t n_tasks = (end - begin + kRows - 1) / kRows;
        std::vector<std::vector<int64_t>> undecided(n_tasks);
        std::atomic<int64_t> moved{0}, skipped{0};
        std::visit(
            [&](const auto& view) {
                parallel_blocks(n_tasks, options_.n_threads, [&](int64_t t, int thread) {
                    int64_t n_moved = 0, n_skipped = 0;
                    for (int64_t i = begin + t * kRows; i < std::min(end, begin + (t + 1) * kRows); ++i) {
                        const int64_t r = i - begin;
                        const int32_t before = labels[i];
                        if (doubtful[r] || !decide_row(i, r, view.row(i), near, far, below[r], centers, labels,
                                                       scratches_[thread]))
                            undecided[t].push_back(i);
                        n_moved += labels[i] != before;
                        n_skipped += near.row_begin[r] == near.row_begin[r + 1] && far.row_begin[r] == far.row_begin[r + 1];
                    }
                    moved += n_moved;
                    skipped += n_skipped;
                });
            },
            rows_.matrix());
        for (const auto& some : undecided) whole_.insert(whole_.end(), some.begin(), some.end());
        stats.moved += moved;
        stats.skipped += skipped;
    }

    // Gives a row its label by what it found. False where that leaves it in doubt.
    template <class V, class I>
    bool decide_row(int64_t i, int64_t r, const Row<V, I>& row, const Pairs& near, const Pairs& far, float below,
                    const Centers& centers, int32_t* labels, Scratch& scratch) {
        Found best;
        float second = below;  // of all other centers that count
        std::vector<int32_t>& groups = scratch.reaching;
        groups.clear();
        for (const Pairs* pairs : {&near, &far})
            for (int64_t p = pairs->row_begin[r]; p < pairs->row_begin[r + 1]; ++p) {
                const Found& one = pairs->found[pairs->places[p]];
                groups.push_back(pairs->groups[p]);
                second = std::max(second, std::min(one.best, best.best));
                if (!(one.best > best.best)) continue;
                second = std::max(second, one.second);
                best = one;
            }
        const double own = own_[i], error = std::max(error_[i], best.error);
        const float still = all_ ? -INFINITY : other_[i];
        if (double(best.best) + error < own - error) {
            other_[i] = std::max(still, next_above(double(std::max(second, best.best)) + error));
            return true;
        }
        if (double(best.best) - error > own + error && double(best.best) - double(second) > 2 * error) {
            other_[i] = std::max(still, next_above(std::max(double(second), own) + error));
            labels[i] = best.center;
            own_[i] = best.best;
            error_[i] = best.error;
            return true;
        }
        if (!all_) return false;
        // All that come near are in the groups that were looked at.
        std::vector<int32_t>& candidates = scratch.candidates;
        candidates.clear();
        for (const int32_t group : groups)
            for (int64_t p = group * kGroup; p < std::min(int64_t(order_.size()), (group + 1) * kGroup); ++p)
                candidates.push_back(order_[p]);
        std::sort(candidates.begin(), candidates.end());
        labels[i] = settle(row, rows_.norm2()[i], centers, candidates);
        const Center& center = centers.items[labels[i]];
        own_[i] = float((dot(row, center) - 0.5 * center.norm2) * scale_ * scale_);
        other_[i] = next_above(std::max({double(second), double(best.best), own}) + error);
        return true;
    }

    bool negative_ = false;           // whether rows have negative values, which no bound covers
    bool all_ = true;                 // whether all centers count, not only those that moved
    bool many_in_doubt_ = false;      // whether that left many rows in doubt
    int64_t n_groups_ = 0;
    double longest_ = 0;                     // of the centers, scaled
    std::vector<int32_t> order_, position_;  // centers that count, by group; where each is there, or -1
    BlockMaxima maxima_;
    std::vector<float> own_, error_;  // scores of rows with their own centers, and bounds of their errors
    std::vector<float> other_;        // what no score with another center exceeds
    std::vector<int64_t> forgotten_, whole_;  // rows that have to be compared with all centers
    std::vector<Scratch> scratches_;
};

}  // namespace

const Algorithm kBlockMax = {
    "block-max", make_assigner<BlockMax>, [](int64_t n_rows, int64_t) { return 12 * n_rows; }};

}  // namespace sparsecluster
