#include "kmeans/block_scan.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "core/timing.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kGroup = 16;         // centers that are looked at together: a cache line of floats per feature
constexpr int64_t kBlock = 8;          // centers that share a bound
constexpr double kPairsPerRow = 12;    // of all rows: pairs of a row and a group that are listed at a time, about
constexpr int64_t kRows = 64;          // rows of a task

}  // namespace

void BlockScan::arrange(const Centers& centers, const std::vector<int32_t>& moved, bool all) {
    all_ = all;
    order_ = moved;
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
    direct_limit_ = direct_limit(rows_.nnz());
    maxima_.build(centers, order_, kBlock, scale_, options_.n_threads);
    scratches_.resize(std::max(options_.n_threads, 1));
}

AssignStats BlockScan::assign(const Centers& centers, int32_t* labels, std::vector<int64_t>& doubtful) {
    AssignStats stats{0, 0, "block maxima", 0};
    const int64_t n = scores_.size();
    found_.assign(n, Found());
    // First a row's own group, whose best is what others have to reach.
    look_into(by_group(0, n, [&](int64_t i, const auto& add) { add(group_of(labels[i])); }), centers, labels, stats,
              [](const auto&...) { return false; });
    for (int64_t begin = 0; begin < n; begin += rows_of_part())
        look_further(begin, std::min(n, begin + rows_of_part()), centers, labels, doubtful, stats);
    std::vector<Found>().swap(found_);
    return stats;
}

// The group of a center; -1 where that does not count.
int64_t BlockScan::group_of(int32_t label) const { return position_[label] < 0 ? -1 : position_[label] / kGroup; }

// Bounds the error of every score of a row, however a scan adds it up.
float BlockScan::error_of(int64_t row, int64_t size) const {
    return next_above(error_of_scores(rounding_of(size), std::sqrt(rows_.norm2()[row]) * scale_, longest_));
}

// The sums of all blocks for some rows: those with numbers from begin to end, or every `step`-th of these.
template <class V, class I>
void BlockScan::sum_blocks(const Matrix<V, I>& view, int64_t begin, int64_t end, int64_t step, Scratch& scratch) const {
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

// What a sum of blocks, of the r-th row, is multiplied by: more than the roundings of the terms, all of which are
// positive, and of their sum.
float BlockScan::factor_of(int64_t r, const Scratch& scratch) const {
    return 1.0f + float(scratch.row_begin[r + 1] - scratch.row_begin[r] + 16) * 0x1p-22f;
}

// How many blocks reach a score, for the r-th row of the sums; their numbers are in scratch.reaching. `below` becomes
// the largest bound of the others, if larger.
int64_t BlockScan::reaching(int64_t r, double score, Scratch& scratch, float& below) const {
    return kernels().collect_reaching(scratch.sums.data() + r * maxima_.width(), factor_of(r, scratch),
                                      maxima_.offsets().data(), maxima_.width(),
                                      std::nextafter(float(score), -INFINITY), scratch.reaching.data(), &below);
}

// visit(group, bound) for the groups of the blocks that reach a score.
template <class Visit>
void BlockScan::visit_groups_of(int64_t r, int64_t n_reaching, const Scratch& scratch, const Visit& visit) const {
    constexpr int64_t kBlocks = kGroup / kBlock;
    const float* const sums = scratch.sums.data() + r * maxima_.width();
    const float factor = factor_of(r, scratch);
    for (int64_t o = 0; o < n_reaching;) {
        const int64_t group = scratch.reaching[o] / kBlocks;
        float bound = -INFINITY;
        for (; o < n_reaching && scratch.reaching[o] / kBlocks == group; ++o) {
            const int64_t block = scratch.reaching[o];
            bound = std::max(bound, sums[block] * factor + maxima_.offsets()[block]);
        }
        visit(group, bound);
    }
}

void BlockScan::index_group(int64_t group, const Centers& centers, int n_threads) {
    const auto first = order_.begin() + group * kGroup;
    const IndexLimits limits{options_.head_limit, direct_limit_};
    index_.build(centers, {first, std::min(first + kGroup, order_.end())}, scale_, limits, n_threads);
}

// Rows whose open groups are listed at a time.
int64_t BlockScan::rows_of_part() const {
    const double rows = double(scores_.size()) * kPairsPerRow / std::max(1.0, open_groups_);
    return std::max<int64_t>(kRows, int64_t(rows));
}

double BlockScan::expected_seconds(const Centers& centers, const int32_t* labels) {
    constexpr int64_t kSample = 512, kLookedInto = 8;  // rows, and each how many of them find their best scores
    const int64_t known = scores_.size(), step = std::max<int64_t>(1, known / kSample);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < known; i += step) ids.push_back(i);
    const int64_t n = int64_t(ids.size());
    Scratch& scratch = scratches_[0];
    int64_t n_open = 0, n_left = 0, n_looked_into = 0;
    double bounding = 0, indexing = 0, scoring = 0;
    std::visit(
        [&](const auto& view) {
            const auto score = [&](int64_t i, int32_t k) {
                return (dot(view.row(i), centers.items[k]) - 0.5 * centers.items[k].norm2) * scale_ * scale_;
            };
            std::vector<double> own(n);
            constexpr int64_t kScores = 16;  // of a task
            parallel_blocks((n + kScores - 1) / kScores, options_.n_threads, [&](int64_t t, int) {
                for (int64_t r = t * kScores; r < std::min(n, (t + 1) * kScores); ++r)
                    own[r] = score(ids[r], labels[ids[r]]);
            });
            const auto bound_all = [&] {
                n_open = 0;
                sum_blocks(view, 0, known, step, scratch);
                for (int64_t r = 0; r < n; ++r) {
                    float below = 0;
                    visit_groups_of(r, reaching(r, own[r], scratch, below), scratch, [&](int64_t, float) { ++n_open; });
                }
            };
            const auto score_all = [&] {
                for (int64_t from = 0, to; from < n; from = to) {
                    to = end_of_pack(view, ids.data(), from, n);
                    score_block(view, index_, ids.data(), from, to, scratch.scan);
                }
            };
            // Each twice: the first time nothing is in the caches, and there is no room yet.
            for (int turn = 0; turn < 2; ++turn) {
                bounding = seconds_of(bound_all);
                // A group of centers of medium norms.
                indexing = seconds_of([&] { index_group(n_groups_ / 2, centers, 1); });
                scoring = seconds_of(score_all);
            }
            // Bounds and groups, of each row that is looked at.
            std::vector<std::vector<std::pair<float, int64_t>>> open((n + kLookedInto - 1) / kLookedInto);
            n_looked_into = int64_t(open.size());
            for (int64_t o = 0; o < n_looked_into; ++o) {
                float below = 0;
                const int64_t r = o * kLookedInto, n_reaching = reaching(r, own[r], scratch, below);
                visit_groups_of(r, n_reaching, scratch, [&](int64_t g, float bound) { open[o].emplace_back(bound, g); });
            }
            std::atomic<int64_t> left{0};
            parallel_blocks(n_looked_into, options_.n_threads, [&](int64_t o, int) {
                if (open[o].empty()) return;
                double best = own[o * kLookedInto];
                const int64_t first = std::max_element(open[o].begin(), open[o].end())->second * kGroup;
                for (int64_t p = first; p < std::min(first + kGroup, int64_t(order_.size())); ++p)
                    best = std::max(best, score(ids[o * kLookedInto], order_[p]));
                left += std::max<int64_t>(
                    1, std::count_if(open[o].begin(), open[o].end(), [&](const auto& one) { return one.first >= best; }));
            });
            n_left = left;
        },
        rows_.matrix());
    open_groups_ = double(n_open) / double(n);
    const double left = double(n_left) / double(n_looked_into);
    const double per_row = (bounding + scoring * (1 + left)) / double(n);
    const double passes = 1 + 2 * std::ceil(double(known) / double(rows_of_part()));
    return (per_row * double(known) + passes * indexing * double(n_groups_)) / std::max(options_.n_threads, 1);
}

// The groups that a row's own group does not rule out. Where a row changes its cluster, the group of the highest bound
// mostly has its new center, whose score rules out most of the others.
void BlockScan::look_further(int64_t begin, int64_t end, const Centers& centers, int32_t* labels,
                             std::vector<int64_t>& doubtful, AssignStats& stats) {
    OpenGroups open = list_open(begin, end, labels);
    const auto visit = [&](int64_t i, int64_t from, int64_t to, const auto& add) {
        const int64_t first = open.row_begin[i - begin], n = open.row_begin[i - begin + 1] - first;
        for (int64_t p = first + std::min(from, n); p < first + std::min(to, n); ++p) add(open.groups[p]);
    };
    look_into(by_group(begin, end, [&](int64_t i, const auto& add) { visit(i, 0, 1, add); }), centers, labels, stats,
              [](const auto&...) { return false; });
    look_into(by_group(begin, end, [&](int64_t i, const auto& add) { visit(i, 1, n_groups_, add); }), centers, labels,
              stats, [&](const auto& row, int64_t i, int64_t group) { return rules_out(row, i, group, open); });
    decide_rows(open, centers, labels, doubtful, stats);
}

// The groups whose bounds reach what rows have with their own.
BlockScan::OpenGroups BlockScan::list_open(int64_t begin, int64_t end, const int32_t* labels) {
    const int64_t n_tasks = (end - begin + kRows - 1) / kRows;
    struct Part {
        std::vector<int32_t> groups;
        std::vector<float> bounds;
    };
    std::vector<Part> parts(n_tasks);
    OpenGroups open{begin, end - begin, {}, {}, {}, {}, {}};
    open.row_begin.assign(end - begin + 1, 0);
    open.below.assign(end - begin, -INFINITY);
    open.doubtful.assign(end - begin, 0);
    const auto list_row = [&](int64_t i, int64_t r, Part& part, Scratch& scratch) {
        const int64_t own_group = group_of(labels[i]);
        double least = scores_.own[i];
        open.doubtful[i - begin] = std::isnan(least);
        if (own_group >= 0) {
            least = std::max(least, double(found_[i].best));
            // A center that stayed where it was may be nearer now.
            open.doubtful[i - begin] =
                !all_ && double(scores_.own[i]) - 3 * double(scores_.error[i]) <= double(scores_.other[i]);
        }
        if (open.doubtful[i - begin]) return;
        const int64_t n_reaching =
            reaching(r, least - 4 * double(scores_.error[i]), scratch, open.below[i - begin]);
        const size_t first = part.groups.size();
        visit_groups_of(r, n_reaching, scratch, [&](int64_t group, float bound) {
            if (group == own_group) return;
            part.groups.push_back(int32_t(group));
            part.bounds.push_back(bound);
            if (bound <= part.bounds[first]) return;
            std::swap(part.groups[first], part.groups.back());
            std::swap(part.bounds[first], part.bounds.back());
        });
        open.row_begin[i - begin + 1] = int64_t(part.groups.size() - first);
    };
    std::visit(
        [&](const auto& view) {
            parallel_blocks(n_tasks, options_.n_threads, [&](int64_t t, int thread) {
                const int64_t from = begin + t * kRows, to = std::min(end, from + kRows);
                sum_blocks(view, from, to, 1, scratches_[thread]);
                for (int64_t i = from; i < to; ++i) list_row(i, i - from, parts[t], scratches_[thread]);
            });
        },
        rows_.matrix());
    for (int64_t r = 0; r < end - begin; ++r) open.row_begin[r + 1] += open.row_begin[r];
    open.groups.reserve(open.row_begin.back());
    open.bounds.reserve(open.row_begin.back());
    for (Part& part : parts) {
        open.groups.insert(open.groups.end(), part.groups.begin(), part.groups.end());
        open.bounds.insert(open.bounds.end(), part.bounds.begin(), part.bounds.end());
        part = {};
    }
    return open;
}

// Whether the best score that a row has found by now rules out one of its open groups.
template <class V, class I>
bool BlockScan::rules_out(const Row<V, I>& row, int64_t i, int64_t group, OpenGroups& open) const {
    const int64_t r = i - open.first_row;
    int64_t p = open.row_begin[r];
    while (open.groups[p] != group) ++p;
    const double error = std::max(scores_.error[i], error_of(i, row.size));
    if (!(open.bounds[p] < std::nextafter(float(double(found_[i].best) - 4 * error), -INFINITY))) return false;
    open.below[r] = std::max(open.below[r], open.bounds[p]);
    open.groups[p] = kRuledOut;
    return true;
}

// The rows that look into each group: visit(row, add) calls add(group) for those of a row.
template <class Visit>
BlockScan::RowsByGroup BlockScan::by_group(int64_t begin, int64_t end, const Visit& visit) const {
    RowsByGroup listed;
    listed.begin.assign(n_groups_ + 1, 0);
    for (int64_t i = begin; i < end; ++i)
        visit(i, [&](int64_t group) { if (group >= 0) ++listed.begin[group + 1]; });
    for (int64_t g = 0; g < n_groups_; ++g) listed.begin[g + 1] += listed.begin[g];
    listed.rows.resize(listed.begin.back());
    std::vector<int64_t> next(listed.begin.begin(), listed.begin.end() - 1);
    for (int64_t i = begin; i < end; ++i)
        visit(i, [&](int64_t group) { if (group >= 0) listed.rows[next[group]++] = int32_t(i); });
    return listed;
}

// Finds the best two of every row and group, unless skip(row, its number, group); a row's own center is left out, and its
// score renewed. One group after the other, each by all threads: there is one index at a time, which they have in the
// cache together.
template <class Skip>
void BlockScan::look_into(const RowsByGroup& listed, const Centers& centers, const int32_t* labels, AssignStats& stats,
                          const Skip& skip) {
    std::atomic<int64_t> n_looked{0};
    for (int64_t g = 0; g < n_groups_; ++g) {
        const int32_t* const rows = listed.rows.data() + listed.begin[g];
        const int64_t n = listed.begin[g + 1] - listed.begin[g];
        if (n == 0) continue;
        index_group(g, centers, options_.n_threads);
        const int64_t step = block_rows(index_, n, options_.n_threads);
        std::visit(
            [&](const auto& view) {
                parallel_blocks((n + step - 1) / step, options_.n_threads, [&](int64_t b, int thread) {
                    std::vector<int64_t>& ids = scratches_[thread].ids;
                    ids.clear();
                    for (int64_t m = b * step; m < std::min(n, (b + 1) * step); ++m)
                        if (!skip(view.row(rows[m]), rows[m], g)) ids.push_back(rows[m]);
                    look_into_group(view, g, labels, scratches_[thread]);
                    n_looked += int64_t(ids.size());
                });
            },
            rows_.matrix());
    }
    stats.distances += n_looked * kGroup;
}

// The rows of scratch.ids.
template <class V, class I>
void BlockScan::look_into_group(const Matrix<V, I>& view, int64_t group, const int32_t* labels, Scratch& scratch) {
    const auto first = order_.begin() + group * kGroup;
    const int64_t* const ids = scratch.ids.data();
    const int64_t n_rows = int64_t(scratch.ids.size());
    for (int64_t from = 0, to; from < n_rows; from = to) {
        to = end_of_pack(view, ids, from, n_rows);
        score_block(view, index_, ids, from, to, scratch.scan);
        for (int64_t m = from; m < to; ++m) {
            const int64_t i = ids[m], own = position_[labels[i]] - group * kGroup;
            float* const scores = scratch.scan.scores.data() + (m - from) * index_.stride;
            if (own >= 0 && own < kGroup) {
                scores_.own[i] = scores[own];
                scores_.error[i] = error_of(i, view.row(i).size);
                scores[own] = -INFINITY;
            }
            const Top2 top = index_.simd->top2(scores, index_.stride);
            Found& found = found_[i];
            if (!(top.best > found.third)) continue;
            found.add(top.best, first[top.index]);
            if (!(top.second > found.second)) {
                found.third = std::max(found.third, top.second);
                continue;
            }
            scores[top.index] = -INFINITY;
            const Top2 rest = index_.simd->top2(scores, index_.stride);
            found.add(rest.best, first[rest.index]);
            found.third = std::max(found.third, rest.second);
        }
    }
}

void BlockScan::decide_rows(const OpenGroups& open, const Centers& centers, int32_t* labels,
                            std::vector<int64_t>& doubtful, AssignStats& stats) {
    const int64_t begin = open.first_row, end = begin + open.n_rows, n_tasks = (open.n_rows + kRows - 1) / kRows;
    std::vector<std::vector<int64_t>> undecided(n_tasks);
    std::atomic<int64_t> moved{0}, skipped{0};
    std::visit(
        [&](const auto& view) {
            parallel_blocks(n_tasks, options_.n_threads, [&](int64_t t, int thread) {
                int64_t n_moved = 0, n_skipped = 0;
                for (int64_t i = begin + t * kRows; i < std::min(end, begin + (t + 1) * kRows); ++i) {
                    const int64_t r = i - begin;
                    const int32_t before = labels[i];
                    const bool own_looked_into = group_of(before) >= 0;
                    if (open.doubtful[r] || !decide_row(i, view.row(i), open, centers, labels, scratches_[thread]))
                        undecided[t].push_back(i);
                    n_moved += labels[i] != before;
                    n_skipped += !own_looked_into && open.row_begin[r] == open.row_begin[r + 1];
                }
                moved += n_moved;
                skipped += n_skipped;
            });
        },
        rows_.matrix());
    for (const auto& some : undecided) doubtful.insert(doubtful.end(), some.begin(), some.end());
    stats.moved += moved;
    stats.skipped += skipped;
}

// Gives a row its label by what it found. False where that leaves it in doubt.
template <class V, class I>
bool BlockScan::decide_row(int64_t i, const Row<V, I>& row, const OpenGroups& open, const Centers& centers,
                           int32_t* labels, Scratch& scratch) {
    const Found best = found_[i];
    const int64_t r = i - open.first_row;
    const float second = std::max(open.below[r], best.second);  // of all other centers that count
    const float found_error = error_of(i, row.size);
    const double own = scores_.own[i], error = std::max(scores_.error[i], found_error);
    const float still = all_ ? -INFINITY : scores_.other[i];
    if (double(best.best) + error < own - error) {
        scores_.other[i] = std::max(still, next_above(double(std::max(second, best.best)) + error));
        return true;
    }
    if (double(best.best) - error > own + error && double(best.best) - double(second) > 2 * error) {
        scores_.other[i] = std::max(still, next_above(std::max(double(second), own) + error));
        labels[i] = best.center;
        scores_.own[i] = best.best;
        scores_.error[i] = found_error;
        return true;
    }
    if (!all_) return false;
    std::vector<int32_t>& candidates = scratch.candidates;
    candidates.clear();
    if (double(std::max(open.below[r], best.third)) < std::max(double(best.best), own) - 4 * error) {
        for (const int32_t k : {labels[i], best.center, best.second_center})
            if (k >= 0) candidates.push_back(k);
    } else {
        // All that come near are in groups that were looked into.
        const auto add_group = [&](int64_t group) {
            const int64_t end = std::min(int64_t(order_.size()), (group + 1) * kGroup);
            candidates.insert(candidates.end(), order_.begin() + group * kGroup, order_.begin() + end);
        };
        add_group(group_of(labels[i]));
        for (int64_t p = open.row_begin[r]; p < open.row_begin[r + 1]; ++p)
            if (open.groups[p] != kRuledOut) add_group(open.groups[p]);
    }
    std::sort(candidates.begin(), candidates.end());
    bool firm;
    labels[i] = settle(row, rows_.norm2()[i], centers, candidates, &firm);
    const Center& center = centers.items[labels[i]];
    scores_.own[i] =
        firm ? float((dot(row, center) - 0.5 * center.norm2) * scale_ * scale_) : RowScores::kUnknown;
    scores_.other[i] = next_above(std::max({double(second), double(best.best), own}) + error);
    return true;
}

}  // namespace sparsecluster
