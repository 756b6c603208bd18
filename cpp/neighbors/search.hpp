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
#include <vector>

#include "core/parallel.hpp"
#include "core/rounding.hpp"
#include "core/rows.hpp"
#include "neighbors/distance.hpp"
#include "neighbors/row_index.hpp"

namespace sparsecluster {

// Called with the part that is done, from the calling thread.
using OnProgress = std::function<void(double)>;

// What a search is for. `i` is a query, `j` an indexed row; different queries are asked for by several threads.
template <class F>
concept Finder = requires(F finder, const F& asked, int64_t i, int64_t j, double distance, int thread) {
    // Rows that are farther away do not matter; infinity while none is known to be far enough.
    { asked.reach(i) } -> std::same_as<double>;
    // While the reach is infinite: how many rows are needed until it is not.
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
};

struct QueryEntry {
    uint32_t rank;
    float value;
};

// A query for screening: its entries from the rarest feature to the most frequent.
struct PackedQuery {
    int64_t row;
    int64_t begin;                          // of its entries
    std::array<int32_t, kLevels> n_entries;  // that are not left out
    std::array<float, kLevels> left_norm;    // of those left out, rounded up
    double norm, norm2;                      // scaled
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
    SpreadRow<V, I> spread;
    int64_t spread_row = -1;
    // How much of the score may be left to the bound: less where that leaves many rows in doubt.
    double trust = 0.6;
    int64_t list_work = 0, doubt_work = 0, n_queries = 0;

    void adapt() {
        if (++n_queries % 64) return;
        trust = std::clamp(trust * (doubt_work > list_work ? 0.9 : 1.05), 0.05, 0.95);
        list_work = doubt_work = 0;
    }
};

// A query against a block: what is left out of the screening, and which scores remain.
struct Screening {
    bool skipped = false;
    int level = 0;
    int64_t n_rows = 0;  // of the block that matter
    double error = 0;    // bounds that of every score
    double least = 0;    // score of the farthest row within reach; minus infinity where there is no reach
};

template <class V, class I>
void pack_query(const Matrix<V, I>& view, double row_norm2, int64_t i, const RowIndex& index,
                SearchScratch<V, I>& scratch) {
    const FeatureOrder& order = index.order();
    const double factor = index.scale().factor(row_norm2);
    PackedQuery query;
    query.row = i;
    query.begin = int64_t(scratch.entries.size());
    query.norm = index.scale().norm(row_norm2);
    query.norm2 = query.norm * query.norm;
    const Row<V, I> row = view.row(i);
    // By the highest level that a feature is in: a counting sort.
    std::array<int32_t, kLevels> count{};
    std::array<double, kLevels> left{};
    auto level_of = [&](uint32_t rank) {
        int level = 0;
        while (level + 1 < kLevels && rank >= order.left_out[level + 1]) ++level;
        return level;
    };
    for (int64_t e = 0; e < row.size; ++e) count[level_of(order.rank[row.features[e]])] += row.values[e] != 0;
    std::array<int32_t, kLevels> at;
    int32_t before = 0;
    for (int level = kLevels - 1; level >= 0; --level) {
        at[level] = before;
        before += count[level];
        query.n_entries[level] = before;
    }
    scratch.entries.resize(query.begin + before);
    for (int64_t e = 0; e < row.size; ++e) {
        if (row.values[e] == 0) continue;
        const uint32_t rank = order.rank[row.features[e]];
        const int level = level_of(rank);
        const double value = double(row.values[e]) * factor;
        scratch.entries[query.begin + at[level]++] = {rank, float(value)};
        left[level] += value * value;
    }
    double left2 = 0;
    query.left_norm[0] = 0;
    for (int level = 0; level + 1 < kLevels; ++level) {
        left2 += left[level];
        query.left_norm[level + 1] = round_up(std::sqrt(left2));
    }
    scratch.queries.push_back(query);
}

// The score that a row at this distance has, at least: x.y - |y|^2 / 2, or the cosine.
inline double score_at(const PackedQuery& query, RowScale scale, double distance) {
    if (scale.metric == Metric::cosine) return 1.0 - distance;
    const double scaled = distance * scale.scale;
    return 0.5 * (query.norm2 - scaled * scaled);
}

// What to leave out: the more, the less the bound of it takes of the score that is needed.
inline int choose_level(const PackedQuery& query, const RowIndex& index, double needed, double trust) {
    if (!(needed > 0) || !std::isfinite(needed)) return 0;
    int level = kLevels - 1;
    while (level > 0 && query.left_norm[level] * index.mean_left_norm(level) > trust * needed) --level;
    return level;
}

template <class V, class I>
void score_lists(const PackedQuery& query, const RowBlock& block, int64_t n_head, const Screening& screening,
                 float* scores, SearchScratch<V, I>& scratch) {
    std::memset(scores, 0, size_t(block.stride) * sizeof(float));
    const QueryEntry* entry = scratch.entries.data() + query.begin;
    const QueryEntry* const end = entry + query.n_entries[screening.level];
    const bool whole = screening.n_rows == block.n_rows;
    for (; entry < end; ++entry) {
        if (entry->rank < n_head) {
            scratch.head.push_back({entry->rank, entry->value});
            continue;
        }
        const uint32_t list = entry->rank - uint32_t(n_head);
        const uint32_t first = block.begin[list];
        uint32_t last = block.begin[list + 1];
        const uint16_t* const rows = block.list_rows.data();
        if (!whole) last = uint32_t(std::lower_bound(rows + first, rows + last, screening.n_rows) - rows);
        const float* const values = block.list_values.data();
        const float value = entry->value;
        for (uint32_t p = first; p < last; ++p) scores[rows[p]] += value * values[p];
        scratch.list_work += last - first + 2;
    }
    scratch.head_begin.push_back(int64_t(scratch.head.size()));
}

// A score that at least `n` rows reach: the n-th largest among maxima of groups; minus infinity where they are fewer.
template <class V, class I>
float reached_by(int64_t n, const float* scores, const RowBlock& block, int64_t n_rows, SearchScratch<V, I>& scratch) {
    const int64_t group = n_rows >= 32 * n ? 16 : n_rows >= 4 * n ? 4 : 1;
    scratch.maxima.clear();
    for (int64_t begin = 0; begin < n_rows; begin += group) {
        float largest = -std::numeric_limits<float>::infinity();
        for (int64_t r = begin; r < std::min(begin + group, n_rows); ++r)
            largest = std::max(largest, scores[r] - block.offset[r]);
        scratch.maxima.push_back(largest);
    }
    if (int64_t(scratch.maxima.size()) < n) return -std::numeric_limits<float>::infinity();
    std::nth_element(scratch.maxima.begin(), scratch.maxima.begin() + (n - 1), scratch.maxima.end(), std::greater<>());
    return scratch.maxima[n - 1];
}

template <Finder F>
Screening plan(const F& finder, const PackedQuery& query, const RowIndex& index, const RowBlock& block, double trust) {
    constexpr double kUnit = 0x1p-24;
    Screening screening;
    const double reach = finder.reach(query.row);
    screening.n_rows = std::min(block.n_rows, finder.limit(query.row) - block.first);
    if (screening.n_rows <= 0 || !(reach >= 0)) {
        screening.skipped = true;
        return screening;
    }
    const double n_entries = query.n_entries[0];
    // Roundings on the way to a score: of the inputs, of products, of the sums (Higham 2002, chapter 3), and of the
    // comparison. A unit more than the rounding of the exact distance takes, too.
    const double roundings = kUnit * (n_entries + 16);
    screening.error = roundings * (1 + 2 * roundings) * block.max_norm * (query.norm + 0.5 * block.max_norm) +
                      8 * kUnit * query.norm2 + 1e-36;
    if (std::isfinite(reach)) {
        const double score = score_at(query, index.scale(), reach);
        screening.level = choose_level(query, index, score + index.mean_offset(), trust);
        screening.error += 8 * kUnit * std::abs(score);
        screening.least = score;
    } else {
        screening.least = -std::numeric_limits<double>::infinity();
    }
    return screening;
}

// Tells the finder of all rows of a block within reach.
template <Finder F, class V, class I>
void decide_block(F& finder, const PackedQuery& query, const Matrix<V, I>& query_view, double row_norm2,
                  const Matrix<V, I>& view, const RowIndex& index, const RowBlock& block, const Screening& screening,
                  const float* scores, SearchScratch<V, I>& scratch, int thread) {
    double least = screening.least;
    if (!std::isfinite(least)) {
        const float reached = reached_by(finder.wanted(query.row), scores, block, screening.n_rows, scratch);
        least = double(reached) - screening.error;  // twice in all: of that row's score, too
    }
    least = std::max(least - screening.error, -double(std::numeric_limits<float>::max()));
    scratch.candidates.resize(block.stride + 64);
    const int64_t n_candidates = index.simd().collect_above(
        scores, block.left_norms(screening.level), block.offset.data(), screening.n_rows,
        query.left_norm[screening.level], float(least), scratch.candidates.data());
    if (n_candidates == 0) return;
    if (scratch.spread_row != query.row) {
        scratch.spread.set(query_view.row(query.row), row_norm2);
        scratch.spread_row = query.row;
    }
    for (int64_t c = 0; c < n_candidates; ++c) {
        const int64_t j = block.first + scratch.candidates[c];
        if (!finder.considers(query.row, j)) continue;
        const Row<V, I> row = view.row(j);
        const double distance = scratch.spread.distance(index.scale().metric, row, index.rows().norm2()[j]);
        if (distance <= finder.reach(query.row)) finder.found(query.row, j, distance, thread);
        if (screening.level > 0) scratch.doubt_work += row.size + 24;
        if (thread == 0 && c % 256 == 255) poll_interrupt();
    }
}

// Queries that are packed together: their head entries meet a tile of head rows one after the other.
inline constexpr int64_t kQueriesTogether = 16;

// Looks for the queries from `first` to `last` among the rows that are indexed. Queries and rows are of one type.
template <Finder F, class V, class I>
void search_view(F& finder, const RowIndex& index, const Rows& queries, const Matrix<V, I>& query_view,
                 const Matrix<V, I>& view, int64_t first, int64_t last, int n_threads, const OnProgress& progress) {
    const std::vector<RowBlock>& blocks = index.blocks();
    std::vector<SearchScratch<V, I>> scratches(std::max(n_threads, 1));
    const int64_t n_batches = (last - first + kQueriesTogether - 1) / kQueriesTogether;
    parallel_blocks(n_batches, n_threads, [&](int64_t batch, int thread) {
        SearchScratch<V, I>& scratch = scratches[thread];
        if (scratch.scores.empty()) {
            int64_t stride = 0;
            for (const RowBlock& block : blocks) stride = std::max(stride, block.stride);
            scratch.scores.resize(kQueriesTogether * stride);
            scratch.spread = SpreadRow<V, I>(queries.n_features());
        }
        const int64_t begin = first + batch * kQueriesTogether, end = std::min(last, begin + kQueriesTogether);
        queries.read_ahead(begin, end);
        scratch.entries.clear();
        scratch.queries.clear();
        for (int64_t i = begin; i < end; ++i) pack_query(query_view, queries.norm2()[i], i, index, scratch);
        // From the block of the queries on, where rows lie together that are alike.
        size_t home = 0;
        while (F::kAnyOrder && home + 1 < blocks.size() && blocks[home + 1].first <= begin) ++home;
        std::array<Screening, kQueriesTogether> screenings;
        for (size_t b = 0; b < blocks.size(); ++b) {
            const RowBlock& block = blocks[(home + b) % blocks.size()];
            scratch.head.clear();
            scratch.head_begin.assign(1, 0);
            for (int64_t q = 0; q < end - begin; ++q) {
                const PackedQuery& query = scratch.queries[q];
                Screening& screening = screenings[q] = plan(finder, query, index, block, scratch.trust);
                if (screening.skipped)
                    scratch.head_begin.push_back(int64_t(scratch.head.size()));
                else
                    score_lists(query, block, index.order().n_head, screening, &scratch.scores[q * block.stride],
                                scratch);
            }
            if (scratch.head_begin.back() > 0) {
                scratch.head.resize(scratch.head.size() + kPrefetchAhead, HeadEntry{0, 0.0f});
                for (const Tile& tile : block.tiles)
                    index.simd().add_tile(tile.vectors, block.head.data.get() + tile.offset, scratch.head.data(),
                                          scratch.head_begin.data(), end - begin, scratch.scores.data() + tile.first,
                                          block.stride);
            }
            for (int64_t q = 0; q < end - begin; ++q) {
                if (screenings[q].skipped) continue;
                const PackedQuery& query = scratch.queries[q];
                decide_block(finder, query, query_view, queries.norm2()[query.row], view, index, block, screenings[q],
                             &scratch.scores[q * block.stride], scratch, thread);
                if (thread == 0) poll_interrupt();
            }
        }
        for (int64_t q = 0; q < end - begin; ++q) scratch.adapt();
        finder.finish(begin, end, thread);
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
