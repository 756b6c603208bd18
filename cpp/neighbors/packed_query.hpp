// A query for screening: scaled, and with its entries in the order in which they are added up.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/rounding.hpp"
#include "core/rows.hpp"
#include "neighbors/row_index.hpp"

namespace sparsecluster {

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

// Row i as a query; its entries are put behind those of others, but for those that no indexed row has.
template <class V, class I>
PackedQuery pack_query(const Matrix<V, I>& view, double row_norm2, int64_t i, const RowIndex& index,
                       std::vector<QueryEntry>& entries) {
    const FeatureOrder& order = index.order();
    const double factor = index.scale().factor(row_norm2);
    PackedQuery query;
    query.row = i;
    query.begin = int64_t(entries.size());
    query.norm = index.scale().norm(row_norm2);
    query.norm2 = query.norm * query.norm;
    const Row<V, I> row = view.row(i);
    // By the highest level that a feature is in: a counting sort. What no row has comes last, and is dropped.
    std::array<int32_t, kLevels + 1> count{}, at;
    std::array<double, kLevels + 1> left{};
    for (int64_t e = 0; e < row.size; ++e) ++count[order.level[row.features[e]]];
    int32_t before = 0;
    for (int level = kLevels - 1; level >= 0; --level) {
        at[level] = before;
        before += count[level];
        query.n_entries[level] = before;
    }
    at[kLevels] = before;
    entries.resize(query.begin + row.size);
    QueryEntry* const own = entries.data() + query.begin;
    for (int64_t e = 0; e < row.size; ++e) {
        const auto feature = row.features[e];
        const int level = order.level[feature];
        const double value = double(row.values[e]) * factor;
        own[at[level]++] = {order.rank[feature], float(value)};
        left[level] += value * value;
    }
    entries.resize(query.begin + before);
    double left2 = 0;
    query.left_norm[0] = 0;
    for (int level = 0; level + 1 < kLevels; ++level) {
        left2 += left[level];
        query.left_norm[level + 1] = round_up(std::sqrt(left2));
    }
    return query;
}

}  // namespace sparsecluster
