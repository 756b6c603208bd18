// One pass of rows against all centers on their index: pack a block of rows, add tail lists, then
// tile by tile the head rows, and hand each row's scores (x.c - |c|^2/2, scaled) to the caller.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "core/rows.hpp"
#include "index/center_index.hpp"

namespace sparsecluster {

// What a scan knows of one row. Distances are in the scaled space of the index.
struct Scanned {
    int64_t row;
    const float* scores;
    Top2 top;
    double norm2;     // scaled |x|^2
    double rounding;  // unit roundoffs per score: |score error| <= rounding * (|x| |c| + |c|^2 / 2) + coarseness
    double coarseness;  // what 16-bit numbers add, where centers are such
    double error;     // the same for the longest center: bounds the error of every score

    bool certain() const { return certain(error); }
    bool certain(double at_error) const { return double(top.best) - double(top.second) > 2 * at_error; }
    // Bounds of the distance that belongs to a score.
    double upper(double score) const { return std::sqrt(std::max(0.0, norm2 - 2 * (score - error))); }
    double lower(double score) const { return std::sqrt(std::max(0.0, norm2 - 2 * (score + error))); }
};

struct ScanScratch {
    std::vector<HeadEntry> head;
    std::vector<int64_t> head_begin;
    std::vector<HeadEntry> tail;  // feature in place of slot: of the features that have a list
    std::vector<int64_t> tail_begin;
    std::vector<StoredRow> rows;
    std::vector<int32_t> features;  // of rows that cannot be read as they are, and
    std::vector<float> values;
    std::vector<float> scores;
    std::vector<Top2> tops;  // of these, row by row
    std::vector<int32_t> candidates;
};

// The label of a scanned row; near-ties are settled in float64. `norms` are the scaled norms of the centers, `firm`
// is as in settle().
template <class V, class I>
int32_t decide(const Scanned& scanned, const Row<V, I>& row, double row_norm2, const Centers& centers,
               const std::vector<double>& norms, std::vector<int32_t>& candidates, bool* firm = nullptr) {
    if (firm) *firm = true;
    if (scanned.certain()) return scanned.top.index;
    const double row_norm = std::sqrt(scanned.norm2);
    auto error = [&](int64_t k) {
        return scanned.rounding * norms[k] * (row_norm + 0.5 * norms[k]) + scanned.coarseness + 1e-36;
    };
    const double least = double(scanned.top.best) - 2 * scanned.error;
    double threshold = -INFINITY;
    for (int64_t k = 0; k < centers.size(); ++k)
        if (scanned.scores[k] >= least) threshold = std::max(threshold, scanned.scores[k] - error(k));
    candidates.clear();
    for (int64_t k = 0; k < centers.size(); ++k)
        if (scanned.scores[k] >= least && scanned.scores[k] + error(k) >= threshold)
            candidates.push_back(int32_t(k));
    return settle(row, row_norm2, centers, candidates, firm);
}

// Where to stop packing, so that a block of long rows does not take much memory.
template <class V, class I>
int64_t end_of_pack(const Matrix<V, I>& view, const int64_t* ids, int64_t begin, int64_t end) {
    constexpr int64_t kMostEntries = 1 << 17, kBeginsAhead = 16;
    if (!ids && !view.selected && view.indptr && view.indptr[end] - view.indptr[begin] <= kMostEntries) return end;
    int64_t entries = 0, p = begin;
    do {
        if (ids && p + kBeginsAhead < end) view.prefetch_place(ids[p + kBeginsAhead]);
        entries += view.row(ids ? ids[p] : p).size;
    } while (++p < end && entries + view.row(ids ? ids[p] : p).size <= kMostEntries);
    return p;
}

// A value times the scale of an index.
template <class V, class Scale>
float scaled(V value, Scale scale) {
    if constexpr (std::is_same_v<V, float> && std::is_same_v<Scale, float>) return value * scale;
    return float(double(value) * double(scale));
}

// Appends the entries of a row to those of the head and of the tail: they are written to both, and kept in one of them or
// in none, because the kind of a feature is hard to predict.
template <class V, class I, class Scale>
void pack_row(const Row<V, I>& row, const FeaturePlace* places, Scale scale, HeadEntry*& head, HeadEntry*& tail) {
    constexpr int64_t kPlacesAhead = 16;
    HeadEntry *to_head = head, *to_tail = tail;  // in registers
    const auto append = [&](int64_t e) {
        const FeaturePlace place = places[row.features[e]];
        const float value = scaled(row.values[e], scale);
        *to_head = {place.position, value};
        *to_tail = {uint32_t(row.features[e]), value};
        to_head += place.count < 0;
        to_tail += place.count > 0;
    };
    int64_t e = 0;
    for (; e + kPlacesAhead < row.size; ++e) {
        __builtin_prefetch(places + row.features[e + kPlacesAhead]);
        append(e);
    }
    for (; e < row.size; ++e) append(e);
    head = to_head;
    tail = to_tail;
}

// Listed rows that are asked for before they are read.
constexpr int64_t kRowsAhead = 4;

template <class V, class I>
void pack(const Matrix<V, I>& view, const CenterIndex& index, const int64_t* ids, int64_t begin,
          int64_t end, ScanScratch& scratch) {
    int64_t entries = 0;
    for (int64_t p = begin; p < end; ++p) entries += view.row(ids ? ids[p] : p).size;
    if (int64_t(scratch.head.size()) < entries + kPrefetchAhead + 1) {
        scratch.head.resize(entries + kPrefetchAhead + 1);
        scratch.tail.resize(entries + 1);
    }
    scratch.head_begin.assign(1, 0);
    scratch.tail_begin.assign(1, 0);
    HeadEntry* head = scratch.head.data();
    HeadEntry* tail = scratch.tail.data();
    const bool in_float = std::is_same_v<V, float> && scales_in_float(index.scale);
    for (int64_t p = begin; p < end; ++p) {
        if (ids && p + kRowsAhead < end) view.prefetch(ids[p + kRowsAhead]);
        const Row<V, I> row = view.row(ids ? ids[p] : p);
        if (in_float)
            pack_row(row, index.place.data(), float(index.scale), head, tail);
        else
            pack_row(row, index.place.data(), index.scale, head, tail);
        scratch.head_begin.push_back(head - scratch.head.data());
        scratch.tail_begin.push_back(tail - scratch.tail.data());
    }
    std::fill_n(head, kPrefetchAhead, HeadEntry{0, 0.0f});
}

// Starts the scores of a block of rows.
inline void start_scores(const CenterIndex& index, int64_t n_rows, ScanScratch& scratch) {
    scratch.scores.resize(n_rows * index.stride);
    for (int64_t r = 0; r < n_rows; ++r)
        std::copy(index.start.begin(), index.start.end(), scratch.scores.data() + r * index.stride);
}

// Adds the lists of the rows that are packed. They may lie anywhere in memory: those to come are asked for.
inline void add_lists(const CenterIndex& index, int64_t n_rows, ScanScratch& scratch) {
    constexpr int64_t kListsAhead = 4;
    constexpr int32_t kEntriesOfLine = 64 / sizeof(TailEntry);
    const TailEntry* const tail = index.tail.data();
    const FeaturePlace* const places = index.place.data();
    const int64_t n_visits = scratch.tail_begin[n_rows];
    for (int64_t r = 0; r < n_rows; ++r) {
        float* const scores = scratch.scores.data() + r * index.stride;
        for (int64_t t = scratch.tail_begin[r]; t < scratch.tail_begin[r + 1]; ++t) {
            if (t + kListsAhead < n_visits) {
                const FeaturePlace ahead = places[scratch.tail[t + kListsAhead].slot];
                for (int32_t e = 0; e < ahead.count; e += kEntriesOfLine) __builtin_prefetch(tail + ahead.position + e);
            }
            const HeadEntry visit = scratch.tail[t];
            const FeaturePlace list = places[visit.slot];
            const TailEntry* entry = tail + list.position;
            for (int32_t e = 0; e < list.count; ++e) scores[entry[e].center] += visit.value * entry[e].value;
        }
    }
}

// Adds the head rows, tile by tile.
inline void add_tiles(const CenterIndex& index, int64_t n_rows, ScanScratch& scratch) {
    for (const Tile& tile : index.tiles)
        index.simd->add_tile(tile.vectors, index.tile_rows(tile), scratch.head.data(), scratch.head_begin.data(),
                             n_rows, scratch.scores.data() + tile.first, index.stride);
}

// Everything but the tiles: starts the scores of a block of rows, packs the rows, adds the lists.
template <class V, class I>
void start_block(const Matrix<V, I>& view, const CenterIndex& index, const int64_t* ids, int64_t begin,
                 int64_t end, ScanScratch& scratch) {
    start_scores(index, end - begin, scratch);
    pack(view, index, ids, begin, end, scratch);
    add_lists(index, end - begin, scratch);
}

// Whether score_stored can read rows where they are.
template <class V, class I>
bool stored_in_place(const CenterIndex& index) {
    return std::is_same_v<V, float> && std::is_same_v<I, int32_t> && scales_in_float(index.scale);
}

// Lists the rows of a block for score_stored: where they are, or copies of them. Answers by what their values are to be
// multiplied.
template <class V, class I>
float list_stored(const Matrix<V, I>& view, const CenterIndex& index, const int64_t* ids, int64_t begin, int64_t end,
                  ScanScratch& scratch) {
    const int64_t n_rows = end - begin;
    if (int64_t(scratch.rows.size()) < n_rows) scratch.rows.resize(n_rows);
    scratch.head_begin.resize(n_rows + 1);
    scratch.head_begin[0] = 0;
    if constexpr (std::is_same_v<V, float> && std::is_same_v<I, int32_t>) {
        if (stored_in_place<V, I>(index)) {
            StoredRow* const rows = scratch.rows.data();
            int64_t* const head_begin = scratch.head_begin.data();
            for (int64_t r = 0; r < n_rows; ++r) {
                const auto row = view.row(ids ? ids[begin + r] : begin + r);
                rows[r] = {row.features, row.values, row.size};
                head_begin[r + 1] = head_begin[r] + row.size;
            }
            return float(index.scale);
        }
    }
    for (int64_t r = 0; r < n_rows; ++r)
        scratch.head_begin[r + 1] = scratch.head_begin[r] + view.row(ids ? ids[begin + r] : begin + r).size;
    scratch.features.resize(scratch.head_begin[n_rows]);
    scratch.values.resize(scratch.head_begin[n_rows]);
    for (int64_t r = 0; r < n_rows; ++r) {
        if (ids && begin + r + kRowsAhead < end) view.prefetch(ids[begin + r + kRowsAhead]);
        const auto row = view.row(ids ? ids[begin + r] : begin + r);
        int32_t* const features = scratch.features.data() + scratch.head_begin[r];
        float* const values = scratch.values.data() + scratch.head_begin[r];
        for (int64_t e = 0; e < row.size; ++e) {
            features[e] = int32_t(row.features[e]);
            values[e] = scaled(row.values[e], index.scale);
        }
        scratch.rows[r] = {features, values, row.size};
    }
    return 1.0f;
}

// Few centers: no feature has to be looked up.
template <class V, class I>
void score_direct(const Matrix<V, I>& view, const CenterIndex& index, const int64_t* ids, int64_t begin, int64_t end,
                  ScanScratch& scratch) {
    const int64_t n_rows = end - begin;
    scratch.scores.resize(n_rows * index.stride);
    scratch.tail_begin.assign(n_rows + 1, 0);
    const float scale = list_stored(view, index, ids, begin, end, scratch);
    // Listed rows may lie anywhere: those to come are asked for, some at a time.
    const bool apart = ids && stored_in_place<V, I>(index);
    const int64_t some = apart ? kRowsAhead : n_rows;
    const auto ask_for = [&](int64_t from) {
        for (int64_t r = from; apart && r < std::min(n_rows, from + some); ++r) view.prefetch(ids[begin + r]);
    };
    ask_for(0);
    for (int64_t from = 0; from < n_rows; from += some) {
        ask_for(from + some);
        for (const Tile& tile : index.tiles) {
            const auto score = [&](auto kernel, const auto* rows_of_tile, float by) {
                kernel(index.width_of(tile), rows_of_tile, scratch.rows.data() + from, std::min(some, n_rows - from), by,
                       index.start.data() + tile.first, scratch.scores.data() + from * index.stride + tile.first,
                       index.stride);
            };
            if (index.step > 0)
                score(index.simd->score_quantized, index.quantized_rows(tile), float(double(scale) * index.step));
            else
                score(index.simd->score_stored, index.tile_rows(tile), scale);
        }
    }
}

// Fills in the scores of a block of rows, and how many entries of each went into head and tail.
template <class V, class I>
void score_block(const Matrix<V, I>& view, const CenterIndex& index, const int64_t* ids, int64_t begin,
                 int64_t end, ScanScratch& scratch) {
    if (index.direct) return score_direct(view, index, ids, begin, end, scratch);
    start_block(view, index, ids, begin, end, scratch);
    add_tiles(index, end - begin, scratch);
}

// Unit roundoffs of a score on the way through so many sums: of the inputs, of products, of the sums (Higham 2002,
// chapter 3). The 8 leaves room for the window of settle().
inline double rounding_of(int64_t n_sums) {
    const double roundings = 0x1p-24 * double(n_sums + 8);
    return roundings * (1 + 2 * roundings);  // at least roundings / (1 - roundings) up to a half
}

// Bounds the error of every score of a row with centers of at most this norm.
inline double error_of_scores(double rounding, double row_norm, double longest) {
    return rounding * longest * (row_norm + 0.5 * longest) + 1e-36;
}

// Finds the best two of the scores of each row of a block, or only the best.
template <bool kBest = false>
void find_tops(const CenterIndex& index, int64_t n_rows, ScanScratch& scratch) {
    scratch.tops.resize(std::max<size_t>(scratch.tops.size(), n_rows));
    const auto find = kBest ? index.simd->best_of_rows : index.simd->top2_of_rows;
    find(scratch.scores.data(), index.stride, n_rows, scratch.tops.data());
}

// Where centers are multiples of a step, the step is rounded to a float, and so is its product with a value of a row.
constexpr int64_t kStepRoundings = 2;
// What multiples of a step in place of centers add to the error of a score: half a step for each entry of the row. `rounding`
// applies to them, too.
inline double coarseness_of(double step, double rounding, double row_norm, int64_t n_entries) {
    return step > 0 ? 0.5 * (1 + rounding + 0x1p-40) * step * row_norm * std::sqrt(double(n_entries)) : 0.0;
}

// What the scores of row i, r-th of its block, tell.
inline Scanned read_scores(const Rows& rows, const CenterIndex& index, const ScanScratch& scratch, int64_t i, int64_t r) {
    Scanned scanned;
    scanned.row = i;
    scanned.scores = scratch.scores.data() + r * index.stride;
    scanned.top = scratch.tops[r];
    scanned.norm2 = rows.norm2()[i] * index.scale * index.scale;
    const int64_t n_head = scratch.head_begin[r + 1] - scratch.head_begin[r];
    const int64_t n_tail = scratch.tail_begin[r + 1] - scratch.tail_begin[r];
    scanned.rounding = rounding_of(std::min(n_head, kChunk) + n_head / kChunk + n_tail + (index.step > 0 ? kStepRoundings : 0));
    const double row_norm = std::sqrt(scanned.norm2);
    scanned.coarseness = coarseness_of(index.step, scanned.rounding, row_norm, n_head);
    scanned.error = error_of_scores(scanned.rounding, row_norm, index.max_norm) + scanned.coarseness;
    return scanned;
}

// Rows that are scanned together: few, so that their scores stay in the cache; many where the head is too large for it,
// so that the rows of a tile that are used often stay there instead. All threads get several blocks.
inline int64_t block_rows(const CenterIndex& index, int64_t n_rows, int n_threads) {
    constexpr int64_t kScoreBytes = 256 << 10, kMost = 256;
    constexpr int64_t kLargeHead = 8 << 20, kLargeScoreBytes = 8 << 20, kMostOfLarge = 2048, kBlocksOfThread = 8;
    const int64_t row_bytes = index.stride * int64_t(sizeof(float));
    const int64_t few = std::clamp<int64_t>(kScoreBytes / row_bytes, 4, kMost);
    if (index.direct || index.n_head * row_bytes < kLargeHead) return few;
    const int64_t many = std::min(kLargeScoreBytes / row_bytes, kMostOfLarge);
    return std::max(few, std::min(many, n_rows / (kBlocksOfThread * std::max(n_threads, 1))));
}

// Calls on_row(const Scanned&, matrix row, thread) for the listed rows (ids null: rows 0 .. n_ids - 1); where kBest, the
// second best and the center of the best are left out.
template <bool kBest = false, class OnRow>
void scan(const Rows& rows, const CenterIndex& index, const int64_t* ids, int64_t n_ids, int n_threads,
          std::vector<ScanScratch>& scratches, const OnRow& on_row) {
    const int64_t block = block_rows(index, n_ids, n_threads);
    if (int64_t(scratches.size()) < n_threads) scratches.resize(n_threads);
    auto scan_between = [&](const auto& view, int64_t first, int64_t last) {
        parallel_blocks((last - first + block - 1) / block, n_threads, [&](int64_t b, int thread) {
            ScanScratch& scratch = scratches[thread];
            const int64_t block_end = std::min(last, first + (b + 1) * block);
            for (int64_t begin = first + b * block, end; begin < block_end; begin = end) {
                end = end_of_pack(view, ids, begin, block_end);
                score_block(view, index, ids, begin, end, scratch);
                find_tops<kBest>(index, end - begin, scratch);
                for (int64_t p = begin; p < end; ++p) {
                    const int64_t i = ids ? ids[p] : p;
                    on_row(read_scores(rows, index, scratch, i, p - begin), view.row(i), thread);
                }
                if (thread == 0) poll_interrupt();
            }
        });
    };
    if (!ids) {
        std::optional<TeamScope> team;
        if (rows.streamed()) team.emplace(n_threads);  // for all chunks
        return rows.in_chunks(n_ids, scan_between);
    }
    std::visit([&](const auto& view) { scan_between(view, 0, n_ids); }, rows.matrix());
}

}  // namespace sparsecluster
