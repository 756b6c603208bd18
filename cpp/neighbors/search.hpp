// Rows that may be near a query, block by block: scores in float32 with a bound of their error, then exact distances of
// what the bound leaves. A finder says how far a query still has to look, and gets all rows within that.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "core/parallel.hpp"
#include "core/rows.hpp"
#include "neighbors/distance.hpp"
#include "neighbors/packed_query.hpp"
#include "neighbors/row_index.hpp"

namespace sparsecluster {

// Called with the part that is done, from the calling thread.
using OnProgress = std::function<void(double)>;

// What a search is for. `i` is a query, `j` an indexed row; different queries are asked for by several threads.
template <class F>
concept Finder = requires(F finder, const F& asked, int64_t i, int64_t j, double distance, int thread) {
    // Rows that are farther away do not matter; infinity while none is known to be far enough.
    { asked.reach(i) } -> std::same_as<double>;
    // While the reach is infinite: how many rows are missing until it is not.
    { asked.missing(i) } -> std::same_as<int64_t>;
    // So many of the nearest rows are all that it can still want of a block; 0 where that is not known.
    { asked.wanted(i) } -> std::same_as<int64_t>;
    // Rows from this number on do not matter.
    { asked.limit(i) } -> std::same_as<int64_t>;
    // Whether this row matters at all.
    { asked.considers(i, j) } -> std::same_as<bool>;
    // A row that matters, within reach; each is told once, and in ascending order unless kAnyOrder.
    finder.found(i, j, distance, thread);
    // The queries from i to j have met all rows that are indexed now.
    finder.finish(i, j, thread);
    { F::kAnyOrder } -> std::convertible_to<bool>;
    // What the features that are left out at first may add, as a share of the score that is needed.
    { F::kTrust } -> std::convertible_to<double>;
};

// For one thread.
template <class V, class I>
struct SearchScratch {
    std::vector<QueryEntry> entries;
    std::vector<PackedQuery> queries;
    std::vector<float> scores;
    std::vector<HeadEntry> head;
    std::vector<int64_t> head_begin;
    std::vector<int32_t> candidates;
    std::vector<float> maxima;
    std::vector<double> distances;
    SpreadRow<V, I> spread;
    int64_t spread_row = -1;
};

// A query against a block: what is left out of the screening, and which scores remain.
struct Screening {
    bool skipped = false;
    int level = 0;
    int64_t n_rows = 0;  // of the block that matter
    double reach = 0;
    double error = 0;  // bounds that of every score
    double least = -std::numeric_limits<double>::infinity();  // score of the farthest row within reach
};

// The score that a row at this distance has, at least: x.y - |y|^2 / 2, or the cosine.
inline double score_at(const PackedQuery& query, RowScale scale, double distance) {
    if (scale.metric == Metric::cosine) return 1.0 - distance;
    const double scaled = distance * scale.scale;
    return 0.5 * (query.norm2 - scaled * scaled);
}

// What to leave out at first: the more, the less the bound of it takes of the score that is needed.
inline int choose_level(const PackedQuery& query, const RowIndex& index, double needed, double trust) {
    if (!(needed > 0) || !std::isfinite(needed)) return 0;
    int level = kLevels - 1;
    while (level > 0 && query.left_norm[level] * index.mean_left_norm(level) > trust * needed) --level;
    return level;
}

// Adds the lists of entries `from` to `to` of a query to the scores; those of the head are put aside.
template <class V, class I>
void add_lists(const PackedQuery& query, const RowBlock& block, int64_t n_head, int64_t n_rows, int64_t from, int64_t to,
               float* scores, SearchScratch<V, I>& scratch) {
    const QueryEntry* const entries = scratch.entries.data() + query.begin;
    const uint16_t* const rows = block.list_rows.data();
    const float* const values = block.list_values.data();
    constexpr uint32_t kShortList = 16;
    for (int64_t e = from; e < to; ++e) {
        constexpr int64_t kAhead = 4;
        const QueryEntry entry = entries[e];
        if (e + 2 * kAhead < to && entries[e + 2 * kAhead].rank >= n_head)
            __builtin_prefetch(block.begin.data() + (entries[e + 2 * kAhead].rank - n_head));
        if (e + kAhead < to && entries[e + kAhead].rank >= n_head) {
            const uint32_t ahead = block.begin[entries[e + kAhead].rank - n_head];
            __builtin_prefetch(rows + ahead);
            __builtin_prefetch(values + ahead);
        }
        if (entry.rank < n_head) {
            scratch.head.push_back({entry.rank, entry.value});
            continue;
        }
        const uint32_t list = entry.rank - uint32_t(n_head);
        const uint32_t first = block.begin[list];
        uint32_t last = block.begin[list + 1];
        if (n_rows < block.n_rows) {
            // A short list is walked faster than it is halved.
            if (last - first > kShortList)
                last = uint32_t(std::lower_bound(rows + first, rows + last, n_rows) - rows);
            else
                while (last > first && rows[last - 1] >= n_rows) --last;
        }
        for (uint32_t p = first; p < last; ++p) scores[rows[p]] += entry.value * values[p];
    }
}

// A score that at least `n` rows reach: the n-th largest among maxima of groups; minus infinity where they are fewer.
template <class V, class I>
float reached_by(int64_t n, const float* scores, const RowBlock& block, int64_t n_rows, SearchScratch<V, I>& scratch) {
    const int64_t n_groups = std::min(n_rows, std::max<int64_t>(256, (16 * n + 63) / 64 * 64));
    if (n_groups < n) return -std::numeric_limits<float>::infinity();
    scratch.maxima.resize(n_groups);
    group_maxima(scores, block.offset.data(), n_rows, n_groups, scratch.maxima.data());
    std::nth_element(scratch.maxima.begin(), scratch.maxima.begin() + (n - 1), scratch.maxima.end(), std::greater<>());
    return scratch.maxima[n - 1];
}

template <Finder F>
Screening plan(const F& finder, const PackedQuery& query, const RowBlock& block) {
    constexpr double kUnit = 0x1p-24;
    Screening screening;
    screening.reach = finder.reach(query.row);
    screening.n_rows = std::min(block.n_rows, finder.limit(query.row) - block.first);
    screening.skipped = screening.n_rows <= 0 || !(screening.reach >= 0);
    // Roundings on the way to a score: of the inputs, of products, of the sums (Higham 2002, chapter 3), and of the
    // comparison. That is more than the exact distance is off, too.
    const double roundings = kUnit * double(query.n_entries[0] + 16);
    screening.error = roundings * (1 + 2 * roundings) * block.max_norm * (query.norm + 0.5 * block.max_norm) +
                      8 * kUnit * query.norm2 + 1e-36;
    return screening;
}

// A thread's part in a search.
template <Finder F, class V, class I>
class Searcher {
public:
    Searcher(F& finder, const RowIndex& index, const Rows& queries, const Matrix<V, I>& query_view,
             const Matrix<V, I>& view, int thread)
        : finder_(finder), index_(index), queries_(queries), query_view_(query_view), view_(view), thread_(thread) {
        for (const RowBlock& block : index.blocks()) stride_ = std::max(stride_, block.stride);
        // Queries whose scores are at hand together, so that head rows are read once for all of them.
        constexpr int64_t kScoreBytes = 1 << 20, kMost = 16;
        together_ = std::clamp<int64_t>(kScoreBytes / (stride_ * int64_t(sizeof(float))), 1, kMost);
        scratch_.scores.resize(together_ * stride_);
        scratch_.candidates.resize(stride_ + 64);
        scratch_.spread = SpreadRow<V, I>(queries.n_features());
        screenings_.resize(together_);
    }

    // Searches all blocks for the queries from begin to end.
    void run(int64_t begin, int64_t end) {
        for (int64_t first = begin; first < end; first += together_) search(first, std::min(end, first + together_));
        finder_.finish(begin, end, thread_);
    }

private:
    void search(int64_t begin, int64_t end) {
        scratch_.entries.clear();
        scratch_.queries.clear();
        for (int64_t i = begin; i < end; ++i) {
            if (!(finder_.reach(i) >= 0) || finder_.limit(i) <= 0) continue;
            scratch_.queries.push_back(pack_query(query_view_, queries_.norm2()[i], i, index_, scratch_.entries));
        }
        const int64_t n_queries = int64_t(scratch_.queries.size());
        // From the block of the queries on, where rows lie together that are alike.
        const std::vector<RowBlock>& blocks = index_.blocks();
        size_t home = 0;
        while (F::kAnyOrder && home + 1 < blocks.size() && blocks[home + 1].first <= begin) ++home;
        for (size_t b = 0; b < blocks.size(); ++b) {
            const RowBlock& block = blocks[(home + b) % blocks.size()];
            scratch_.head.clear();
            scratch_.head_begin.assign(1, 0);
            for (int64_t q = 0; q < n_queries; ++q) {
                screenings_[q] = plan(finder_, scratch_.queries[q], block);
                if (!screenings_[q].skipped) add_all_lists(scratch_.queries[q], block, screenings_[q], scores(q));
                scratch_.head_begin.push_back(int64_t(scratch_.head.size()));
            }
            add_head(block, n_queries, scores(0));
            for (int64_t q = 0; q < n_queries; ++q) {
                if (!screenings_[q].skipped) decide(scratch_.queries[q], block, screenings_[q], scores(q));
                if (thread_ == 0) poll_interrupt();
            }
        }
    }

    float* scores(int64_t q) { return scratch_.scores.data() + q * stride_; }

    void add_all_lists(const PackedQuery& query, const RowBlock& block, Screening& screening, float* scores) {
        const int64_t n_head = index_.order().n_head;
        std::memset(scores, 0, size_t(block.stride) * sizeof(float));
        int64_t done = 0;
        int level = kLevels - 1;
        if (!std::isfinite(screening.reach)) {
            // The rarest features tell rows that are near enough for a first reach.
            while (level > 2 && query.left_norm[level] > kPilotShare * query.norm) --level;
            done = query.n_entries[level];
            add_lists(query, block, n_head, screening.n_rows, 0, done, scores, scratch_);
            screening.reach = first_reach(query, block, screening.n_rows, scores);
        }
        if (std::isfinite(screening.reach)) {
            screening.least = score_at(query, index_.scale(), screening.reach);
            screening.error += 0x1p-21 * std::abs(screening.least);
            const double needed = screening.least + index_.mean_offset();
            screening.level = std::min(level, choose_level(query, index_, needed, F::kTrust));
        }
        add_lists(query, block, n_head, screening.n_rows, done, query.n_entries[screening.level], scores, scratch_);
    }

    // How far the rows are, at most, that a query wants: of those with the best scores so far.
    double first_reach(const PackedQuery& query, const RowBlock& block, int64_t n_rows, const float* scores) {
        const int64_t missing = finder_.missing(query.row);
        const int64_t wanted = std::min(n_rows, std::max<int64_t>(missing + kSpare, finder_.wanted(query.row)));
        const float least = reached_by(wanted, scores, block, n_rows, scratch_);
        const int64_t n_best = collect(block, n_rows, 0, 0.0f, least, scores);
        std::vector<double>& distances = scratch_.distances;
        distances.clear();
        spread(query.row);
        for (int64_t c = 0; c < n_best && int64_t(distances.size()) < 2 * wanted; ++c) {
            const int64_t j = block.first + scratch_.candidates[c];
            if (finder_.considers(query.row, j)) distances.push_back(distance(j));
        }
        if (int64_t(distances.size()) < missing) return std::numeric_limits<double>::infinity();
        std::nth_element(distances.begin(), distances.begin() + (missing - 1), distances.end());
        return distances[missing - 1];
    }

    // The rows whose scores may reach `least` with what is left out at a level.
    int64_t collect(const RowBlock& block, int64_t n_rows, int level, float left_norm, float least,
                    const float* scores) {
        return index_.simd().collect_above(scores, block.left_norms(level), block.offset.data(), n_rows, left_norm,
                                           least, scratch_.candidates.data());
    }

    void add_head(const RowBlock& block, int64_t n_queries, float* scores) {
        if (scratch_.head.empty()) return;
        scratch_.head.resize(scratch_.head.size() + kPrefetchAhead, HeadEntry{0, 0.0f});
        for (const Tile& tile : block.tiles)
            index_.simd().add_tile(tile.vectors, block.head.data.get() + tile.offset, scratch_.head.data(),
                                   scratch_.head_begin.data(), n_queries, scores + tile.first, stride_);
    }

    // Tells the finder of all rows of a block within reach.
    void decide(const PackedQuery& query, const RowBlock& block, Screening& screening, float* scores) {
        const int64_t n_candidates = screen(query, block, screening, scores);
        if (n_candidates == 0) return;
        spread(query.row);
        const int32_t* const candidates = scratch_.candidates.data();
        for (int64_t c = 0; c < n_candidates; ++c) {
            constexpr int64_t kAhead = 4;
            if (c + kAhead < n_candidates) view_.prefetch(block.first + candidates[c + kAhead]);
            const int64_t j = block.first + candidates[c];
            if (thread_ == 0 && c % 256 == 255) poll_interrupt();
            if (!finder_.considers(query.row, j)) continue;
            const double found = distance(j);
            if (found <= finder_.reach(query.row)) finder_.found(query.row, j, found, thread_);
        }
    }

    // Leaves the rows that are in doubt in `candidates`. While these would take longer than the lists of more features
    // do, the lists are added.
    int64_t screen(const PackedQuery& query, const RowBlock& block, Screening& screening, float* scores) {
        double least = screening.least - screening.error;
        for (;;) {
            const int64_t wanted = finder_.wanted(query.row);
            if (screening.level == 0 && wanted > 0)  // the scores are complete: the best of them bound the others
                least = std::max(least, double(reached_by(wanted, scores, block, screening.n_rows, scratch_)) -
                                            2 * screening.error);
            const int64_t n_candidates =
                collect(block, screening.n_rows, screening.level, query.left_norm[screening.level],
                        float(std::max(least, -double(std::numeric_limits<float>::max()))), scores);
            int next = screening.level - 1;
            while (next > 0 && query.n_entries[next] == query.n_entries[screening.level]) --next;
            if (next < 0 || n_candidates == 0) return n_candidates;
            const int64_t from = query.n_entries[screening.level], to = query.n_entries[next];
            if (n_candidates * kDoubtWork <= work_of_lists(query, block, from, to) + screening.n_rows / kLanesOfWork)
                return n_candidates;
            scratch_.head.clear();
            add_lists(query, block, index_.order().n_head, screening.n_rows, from, to, scores, scratch_);
            scratch_.head_begin = {0, int64_t(scratch_.head.size())};
            add_head(block, 1, scores);
            screening.level = next;
        }
    }

    int64_t work_of_lists(const PackedQuery& query, const RowBlock& block, int64_t from, int64_t to) const {
        int64_t work = 0;
        for (int64_t e = from; e < to; ++e) {
            const int64_t list = int64_t(scratch_.entries[query.begin + e].rank) - index_.order().n_head;
            work += list < 0 ? block.n_rows / kLanesOfWork : block.begin[list + 1] - block.begin[list];
        }
        return work;
    }

    void spread(int64_t i) {
        if (scratch_.spread_row == i) return;
        scratch_.spread.set(query_view_.row(i), queries_.norm2()[i]);
        scratch_.spread_row = i;
    }
    double distance(int64_t j) const {
        return scratch_.spread.distance(index_.scale().metric, view_.row(j), index_.rows().norm2()[j]);
    }

    // So much of a query may be left out of the scores that the first reach comes from.
    static constexpr double kPilotShare = 0.8;
    // So many more rows are looked at for it than are missing, because some may not matter.
    static constexpr int64_t kSpare = 6;
    // Entries of lists that take as long as an exact distance, and lanes of vectors that take as long as an entry.
    static constexpr int64_t kDoubtWork = 150, kLanesOfWork = 8;

    F& finder_;
    const RowIndex& index_;
    const Rows& queries_;
    const Matrix<V, I>&query_view_, &view_;
    const int thread_;
    int64_t stride_ = 0, together_ = 1;
    SearchScratch<V, I> scratch_;
    std::vector<Screening> screenings_;
};

// Looks for the queries from `first` to `last` among the rows that are indexed. Queries and rows are of one type.
template <Finder F, class V, class I>
void search_view(F& finder, const RowIndex& index, const Rows& queries, const Matrix<V, I>& query_view,
                 const Matrix<V, I>& view, int64_t first, int64_t last, int n_threads, const OnProgress& progress) {
    constexpr int64_t kBatch = 16;
    std::vector<std::unique_ptr<Searcher<F, V, I>>> searchers(std::max(n_threads, 1));
    // A chunk of the rows of a file is at hand.
    const bool mapped = query_view.values == std::get<Matrix<V, I>>(queries.matrix()).values;
    parallel_blocks((last - first + kBatch - 1) / kBatch, n_threads, [&](int64_t batch, int thread) {
        auto& searcher = searchers[thread];
        if (!searcher)
            searcher = std::make_unique<Searcher<F, V, I>>(finder, index, queries, query_view, view, thread);
        const int64_t begin = first + batch * kBatch, end = std::min(last, begin + kBatch);
        if (mapped) queries.read_ahead(begin, end);
        searcher->run(begin, end);
        if (thread == 0 && progress) progress(double(end - first) / double(last - first));
    });
}

// The same, whatever their type; false where that of the queries is another than that of the rows.
template <Finder F>
bool search(F& finder, const RowIndex& index, const Rows& queries, int64_t first, int64_t last, int n_threads,
            const OnProgress& progress) {
    return std::visit(
        [&](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            const View* const query_view = std::get_if<View>(&queries.matrix());
            if (query_view) search_view(finder, index, queries, *query_view, view, first, last, n_threads, progress);
            return query_view != nullptr;
        },
        index.rows().matrix());
}

}  // namespace sparsecluster
