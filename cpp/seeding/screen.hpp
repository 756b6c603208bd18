// The screen of greedy k-means++: finds, in float32, the few rows that a candidate could be nearest to.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/rounding.hpp"
#include "core/rows.hpp"
#include "simd/kernels.hpp"

namespace sparsecluster {

struct ColumnEntry {
    int32_t row;
    float value;
};

// An entry in four bytes: a float in 19 bits, and in the other 13 the row within its chunk.
class PackedEntry {
public:
    static constexpr int64_t kPlaces = 1 << 13;
    static constexpr double kError = 0x1p-11;  // of a value, relative

    PackedEntry() = default;
    PackedEntry(int64_t place, float value) : bits_(nearest(value) | uint32_t(place)) {}

    uint32_t place() const { return bits_ & kPlace; }
    float value() const { return std::bit_cast<float>(bits_ & ~kPlace); }

private:
    static constexpr uint32_t kPlace = kPlaces - 1;

    static uint32_t nearest(float value) {
        const uint32_t bits = std::bit_cast<uint32_t>(value), rounded = (bits + kPlaces / 2) & ~kPlace;
        return std::isfinite(std::bit_cast<float>(rounded)) ? rounded : bits & ~kPlace;
    }

    uint32_t bits_;
};

// A column that a candidate shares, and its value there. Of long columns it is known where chunks of rows begin.
struct SharedColumn {
    float value;
    const int64_t* chunks;            // into the packed entries; null for a short column,
    const ColumnEntry *begin, *end;  // of which this is what is left
};

// A candidate as the screen sees it: the columns to visit, and its norm within each group that is bounded.
struct ScreenQuery {
    std::vector<SharedColumn> columns;
    std::vector<const float*> group_norms;
    std::vector<float> factors;
    double least = 0;  // a row that it is nearer to has a product of at least this + its offset,
    double slack = 0;  // less this times the row's norm, for roundings
    int64_t visited = 0;  // entries of columns
};

// The rows that a candidate could be nearest to, each with a value that its product with the candidate does not exceed,
// and what choosing it would gain at most: the weighted sum of how much the squared distances fall.
struct Survivors {
    std::vector<int32_t> rows;
    std::vector<float> reach;
    double most = 0;

    void clear() {
        rows.clear();
        reach.clear();
        most = 0;
    }
    void append(const Survivors& more) {
        rows.insert(rows.end(), more.rows.begin(), more.rows.end());
        reach.insert(reach.end(), more.reach.begin(), more.reach.end());
        most += more.most;
    }
};

struct ScreenScratch {
    std::vector<float> reach;  // per row of a chunk: at least its product with the candidate
    std::vector<int32_t> found;
    std::vector<std::vector<SharedColumn>> columns;  // per query, what is left of them
    std::vector<Survivors> survivors;              // per query
};

// The rows by feature, scaled, and for groups of frequent features each row's norm within the group. The product
// of two rows is at most the sum of the products of their group norms (Cauchy-Schwarz), so frequent features
// need not be visited entry by entry.
class Screen {
public:
    template <class V, class I>
    void build(const Matrix<V, I>& view, const Rows& rows, int n_threads);

    // The first n_bounded groups are bounded, the other features visited.
    template <class V, class I>
    void ask(const Row<V, I>& candidate, double candidate_norm2, double scale, int n_bounded, ScreenQuery& query) const;

    // Leaves in scratch.survivors, for each query, the rows i from `begin` to `end` whose product with the candidate may
    // exceed |candidate|^2 / 2 + offset[i]. All queries look at the same rows in turn, which stay in the cache.
    // `weights` may be null.
    void find(const std::vector<ScreenQuery>& queries, int64_t begin, int64_t end, double scale, const float* offset,
              const double* weights, ScreenScratch& scratch) const;

    // The same of rows that survived before, when the offsets were no higher.
    void find_again(double least, double slack, double scale, const float* offset, const double* weights,
                    Survivors& survivors) const;

    int n_groups() const { return n_groups_; }
    // Rows that are screened together, so that their sums and norms stay in the cache.
    static constexpr int64_t kChunkRows = PackedEntry::kPlaces;

    // Memory that build() will take, counts by parts of the rows included. A packed entry and its share of where chunks begin
    // are no larger than an entry.
    template <class V, class I>
    static int64_t bytes(const Matrix<V, I>& view) {
        return view.nnz() * int64_t(sizeof(ColumnEntry) + 1) + view.n_features * 40 +
               view.n_rows * int64_t(sizeof(float)) * (kMaxGroups + 1);
    }

private:
    static constexpr int32_t kNone = INT32_MAX;
    // Frequent features by descending count: single ones first, then ever larger groups.
    static constexpr int kMaxGroups = 16;
    static constexpr double kGroupGrowth = 1.3;
    static constexpr int64_t kRarest = 512;  // in fewer than one of so many rows: not frequent
    // With so many entries for each chunk of rows it is known where its chunks begin.
    static constexpr int64_t kLongColumn = 2;
    // Puts the features that are frequent by their counts into groups.
    void group_frequent(const std::vector<int64_t>& counts);

    const Kernels* simd_ = nullptr;
    int64_t n_ = 0;
    int n_groups_ = 0;
    std::vector<int32_t> group_;       // per feature, kNone for the rare ones
    std::vector<float> group_norms_;   // [group][row], rounded up
    int64_t n_chunks_ = 0;
    std::vector<int64_t> begin_;       // per feature, into entries_ of short columns or packed_ of long ones
    std::vector<int64_t> end_;
    std::vector<ColumnEntry> entries_;
    std::vector<PackedEntry> packed_;
    std::vector<int32_t> long_column_;  // per feature, its number among the long columns or -1
    std::vector<int64_t> chunk_begin_;  // [long column][chunk], into packed_
    std::vector<float> norms_;         // |x|, rounded up
};

inline void Screen::group_frequent(const std::vector<int64_t>& counts) {
    std::vector<std::pair<int64_t, int32_t>> frequent;  // (-count, feature)
    for (size_t f = 0; f < counts.size(); ++f)
        if (counts[f] * kRarest > n_) frequent.push_back({-counts[f], int32_t(f)});
    std::sort(frequent.begin(), frequent.end());
    group_.assign(counts.size(), kNone);
    double size = 1;
    for (size_t at = 0; at < frequent.size() && n_groups_ < kMaxGroups; size *= kGroupGrowth) {
        for (int64_t left = int64_t(size); left > 0 && at < frequent.size(); --left)
            group_[frequent[at++].second] = n_groups_;
        ++n_groups_;
    }
}

template <class V, class I>
void Screen::build(const Matrix<V, I>& view, const Rows& rows, int n_threads) {
    const int64_t d = view.n_features;
    n_ = view.n_rows;
    n_chunks_ = (n_ + kChunkRows - 1) / kChunkRows;
    simd_ = &kernels();
    // Parts of the rows, of whole chunks. Each has a count per feature; together these take an eighth of the memory of the
    // entries, or are those of one part.
    const int64_t most_parts = view.nnz() / 8 / std::max<int64_t>(d, 1);
    const int64_t n_parts = std::clamp<int64_t>(std::min<int64_t>(n_threads, most_parts), 1, std::max<int64_t>(n_chunks_, 1));
    const auto first_chunk = [&](int64_t part) { return part * n_chunks_ / n_parts; };
    const auto for_part = [&](int64_t part, const auto& visit) {
        const int64_t end = std::min(n_, first_chunk(part + 1) * kChunkRows);
        for (int64_t i = first_chunk(part) * kChunkRows; i < end; ++i) visit(i, view.row(i));
    };
    std::vector<std::vector<int64_t>> next(n_parts);  // per feature: entries, then where the next one goes
    parallel_blocks(n_parts, n_threads, [&](int64_t part, int) {
        next[part].assign(d, 0);
        for_part(part, [&](int64_t, const auto& row) {
            for (int64_t e = 0; e < row.size; ++e) ++next[part][row.features[e]];
        });
    });
    std::vector<int64_t> counts = next[0];
    for (int64_t part = 1; part < n_parts; ++part)
        for (int64_t f = 0; f < d; ++f) counts[f] += next[part][f];
    group_frequent(counts);

    begin_.resize(d);
    end_.resize(d);
    long_column_.assign(d, -1);
    std::vector<int32_t> long_features;
    int64_t n_short_entries = 0, n_packed = 0;
    for (int64_t f = 0; f < d; ++f) {
        const bool is_long = counts[f] >= kLongColumn * (n_chunks_ + 1);
        if (is_long) {
            long_column_[f] = int32_t(long_features.size());
            long_features.push_back(int32_t(f));
        }
        int64_t& entries = is_long ? n_packed : n_short_entries;
        begin_[f] = entries;
        for (int64_t part = 0; part < n_parts; ++part) entries += std::exchange(next[part][f], entries);
        end_[f] = entries;
    }
    entries_.resize(n_short_entries);
    packed_.resize(n_packed);
    chunk_begin_.resize(int64_t(long_features.size()) * (n_chunks_ + 1));
    norms_.resize(n_);
    group_norms_.resize(n_groups_ * n_);
    const auto mark = [&](int64_t chunk, const std::vector<int64_t>& at) {
        for (size_t column = 0; column < long_features.size(); ++column)
            chunk_begin_[int64_t(column) * (n_chunks_ + 1) + chunk] = at[long_features[column]];
    };
    parallel_blocks(n_parts, n_threads, [&](int64_t part, int thread) {
        std::vector<int64_t>& at = next[part];
        double group_norm2[kMaxGroups];
        for_part(part, [&](int64_t i, const auto& row) {
            if (i % kChunkRows == 0) mark(i / kChunkRows, at);
            if (thread == 0 && i % 256 == 0) poll_interrupt();
            std::fill_n(group_norm2, kMaxGroups, 0.0);
            for (int64_t e = 0; e < row.size; ++e) {
                const auto feature = row.features[e];
                const double value = double(row.values[e]) * rows.scale();
                if (long_column_[feature] < 0)
                    entries_[at[feature]++] = {int32_t(i), float(value)};
                else
                    packed_[at[feature]++] = PackedEntry(i % kChunkRows, float(value));
                if (group_[feature] != kNone) group_norm2[group_[feature]] += value * value;
            }
            for (int g = 0; g < n_groups_; ++g) group_norms_[g * n_ + i] = round_up(std::sqrt(group_norm2[g]));
            norms_[i] = round_up(std::sqrt(rows.norm2()[i]) * rows.scale());
        });
    });
    mark(n_chunks_, end_);
}

template <class V, class I>
void Screen::ask(const Row<V, I>& candidate, double candidate_norm2, double scale, int n_bounded,
                 ScreenQuery& query) const {
    double group_norm2[kMaxGroups] = {};
    query.columns.clear();
    query.visited = 0;
    for (int64_t e = 0; e < candidate.size; ++e) {
        const auto feature = candidate.features[e];
        const double value = double(candidate.values[e]) * scale;
        if (group_[feature] < n_bounded) {
            group_norm2[group_[feature]] += value * value;
        } else {
            SharedColumn column{float(value), nullptr, nullptr, nullptr};
            if (long_column_[feature] < 0) {
                column.begin = entries_.data() + begin_[feature];
                column.end = entries_.data() + end_[feature];
            } else {
                column.chunks = chunk_begin_.data() + long_column_[feature] * (n_chunks_ + 1);
            }
            query.columns.push_back(column);
            query.visited += end_[feature] - begin_[feature];
        }
    }
    query.group_norms.clear();
    query.factors.clear();
    for (int g = 0; g < n_bounded; ++g) {
        if (group_norm2[g] == 0) continue;
        query.group_norms.push_back(group_norms_.data() + g * n_);
        query.factors.push_back(round_up(std::sqrt(group_norm2[g])));
    }
    const double norm = std::sqrt(candidate_norm2) * scale;
    // Roundings of the packed values, of the sums, of the offsets, and of the comparison.
    query.slack = (PackedEntry::kError + double(candidate.size + kMaxGroups + 8) * 0x1p-23) * norm;
    query.least = 0.5 * norm * norm * (1 - 0x1p-20) - 1e-36;
}

inline void Screen::find(const std::vector<ScreenQuery>& queries, int64_t begin, int64_t end, double scale,
                         const float* offset, const double* weights, ScreenScratch& scratch) const {
    const Kernels& simd = *simd_;
    scratch.reach.resize(kChunkRows);
    scratch.found.resize(kChunkRows);
    scratch.columns.resize(std::max(scratch.columns.size(), queries.size()));
    scratch.survivors.resize(std::max(scratch.survivors.size(), queries.size()));
    for (size_t q = 0; q < queries.size(); ++q) {
        scratch.survivors[q].clear();
        scratch.columns[q] = queries[q].columns;
        for (SharedColumn& column : scratch.columns[q]) {
            if (column.chunks) continue;
            while (column.begin < column.end && column.begin->row < begin) ++column.begin;
        }
    }
    const float* group_norms[kMaxGroups];
    float* const reach = scratch.reach.data();
    int32_t* const found = scratch.found.data();
    for (; begin < end; begin += kChunkRows) {
        const int64_t stop_row = std::min(begin + kChunkRows, end), count = stop_row - begin;
        const int32_t first = int32_t(begin);
        const int64_t chunk = begin / kChunkRows;
        for (size_t q = 0; q < queries.size(); ++q) {
            const ScreenQuery& query = queries[q];
            const int n_factors = int(query.factors.size());
            for (int g = 0; g < n_factors; ++g) group_norms[g] = query.group_norms[g] + begin;
            simd.weighted_sum(reach, group_norms, query.factors.data(), n_factors, count);
            std::vector<SharedColumn>& columns = scratch.columns[q];
            for (size_t c = 0; c < columns.size(); ++c) {
                SharedColumn& column = columns[c];
                const float value = column.value;
                if (!column.chunks) {
                    const ColumnEntry* entry = column.begin;
                    for (; entry < column.end && entry->row < stop_row; ++entry)
                        reach[entry->row - first] += value * entry->value;
                    column.begin = entry;
                    continue;
                }
                if (c + 1 < columns.size() && columns[c + 1].chunks) {
                    const PackedEntry* const next = packed_.data() + columns[c + 1].chunks[chunk];
                    for (int line = 0; line < 4; ++line) __builtin_prefetch(next + 16 * line);
                }
                const PackedEntry* entry = packed_.data() + column.chunks[chunk];
                const PackedEntry* const stop = packed_.data() + column.chunks[chunk + 1];
                for (; entry + 4 <= stop; entry += 4) {
                    // Rows of a column differ, so the four do not wait for each other.
                    float sums[4];
                    for (int e = 0; e < 4; ++e) sums[e] = reach[entry[e].place()] + value * entry[e].value();
                    for (int e = 0; e < 4; ++e) reach[entry[e].place()] = sums[e];
                }
                for (; entry < stop; ++entry) reach[entry->place()] += value * entry->value();
            }
            const int64_t n_found = simd.collect_above(reach, norms_.data() + begin, offset + begin, count,
                                                       float(query.slack), float(query.least), found);
            Survivors& survivors = scratch.survivors[q];
            for (int64_t s = 0; s < n_found; ++s) {
                survivors.rows.push_back(first + found[s]);
                survivors.reach.push_back(reach[found[s]]);
            }
        }
    }
    for (size_t q = 0; q < queries.size(); ++q)
        find_again(queries[q].least, queries[q].slack, scale, offset, weights, scratch.survivors[q]);
}

inline void Screen::find_again(double least, double slack, double scale, const float* offset, const double* weights,
                               Survivors& survivors) const {
    double most = 0;
    size_t kept = 0;
    for (size_t s = 0; s < survivors.rows.size(); ++s) {
        const int32_t i = survivors.rows[s];
        const double above = double(survivors.reach[s]) + slack * double(norms_[i]) - double(offset[i]) - least;
        if (above < 0) continue;
        most += (weights ? weights[i] : 1.0) * above;
        survivors.rows[kept] = i;
        survivors.reach[kept++] = survivors.reach[s];
    }
    survivors.rows.resize(kept);
    survivors.reach.resize(kept);
    survivors.most = 2 * most / (scale * scale);
}

}  // namespace sparsecluster
