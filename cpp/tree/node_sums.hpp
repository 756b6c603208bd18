// Sums of the rows of each cluster of a node, in the lanes of a table that rows are scored with as it is. Large nodes are
// summed in a few parts, which their entries alone decide, and the parts are added up: threads change no bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/parallel.hpp"
#include "tree/lanes.hpp"
#include "tree/node_points.hpp"

namespace sparsecluster {

template <class V, class T>
class NodeSums {
public:
    LaneTable<T> table;

    // No rows yet, and nothing that is known of labels.
    void reset(const NodePoints<V>& points, int k) {
        const int lanes = lanes_for<T>(k);
        const int64_t n_columns = points.rows.n_columns();
        table.reserve(n_columns, lanes);
        n_parts_ = std::clamp<int64_t>(points.rows.n_entries() / (kEntriesPerCell * n_columns * lanes + 1), 1, kMostParts);
        summed_.clear();
    }
    void forget_labels() { summed_.clear(); }

    // Centers to start from: a row per lane.
    void set_rows(const NodePoints<V>& points, const std::vector<int64_t>& rows) {
        table.clear();
        for (size_t c = 0; c < rows.size(); ++c) {
            const auto lane = int32_t(c);
            points.rows.rows(rows[c], 1, [&](const NodeBlock<V>& row) { lane_add(row, &lane, nullptr, table); });
        }
        forget_labels();
    }

    // The sums of the first of every `step` blocks of rows; nothing is known of labels then.
    void sum_some(const NodePoints<V>& points, const std::vector<int32_t>& labels, int64_t step) {
        table.clear();
        for (int64_t block = 0; block < points.rows.n_blocks(); block += step)
            points.rows.block(block, [&](const NodeBlock<V>& rows) { add_rows(points, rows, labels, table); });
        forget_labels();
    }

    // Only rows that moved are taken out and put in, where few did: what rounding leaves behind stays until most move.
    void sum(const NodePoints<V>& points, const std::vector<int32_t>& labels) {
        int64_t moved = points.size();
        if (!summed_.empty()) {
            moved = 0;
            for (int64_t i = 0; i < points.size(); ++i) moved += labels[i] != summed_[i];
        }
        if (n_parts_ > 1) parts_.resize(kMostParts);
        const bool anew = 2 * moved >= points.size();
        const int64_t n_blocks = points.rows.n_blocks();
        parallel_blocks(n_parts_, points.n_threads, [&](int64_t part, int) {
            LaneTable<T>& into = n_parts_ > 1 ? parts_[part] : table;
            if (n_parts_ > 1) into.reserve(table.n_columns(), table.lanes());
            if (anew) into.clear();
            for (int64_t block = n_blocks * part / n_parts_; block < n_blocks * (part + 1) / n_parts_; ++block)
                points.rows.block(block, [&](const NodeBlock<V>& rows) {
                    if (anew)
                        add_rows(points, rows, labels, into);
                    else
                        move_rows(points, rows, labels, into);
                });
        });
        summed_ = labels;
        if (n_parts_ > 1) join_parts(points.n_threads);
    }

private:
    static constexpr int64_t kEntriesPerCell = 2, kMostParts = 4, kColumns = 4096;

    void add_rows(const NodePoints<V>& points, const NodeBlock<V>& rows, const std::vector<int32_t>& labels,
                  LaneTable<T>& into) const {
        lane_add(rows, labels.data() + rows.first, points.weights.empty() ? nullptr : points.weights.data() + rows.first,
                 into);
    }
    void move_rows(const NodePoints<V>& points, const NodeBlock<V>& rows, const std::vector<int32_t>& labels,
                   LaneTable<T>& into) const {
        for (int64_t j = 0; j < rows.n; ++j) {
            const int64_t i = rows.first + j;
            if (labels[i] == summed_[i]) continue;
            const NodeBlock<V> row{i, 1, rows.begin + j, rows.features, rows.values};
            const double added = points.weight(i), removed = -added;
            lane_add(row, &summed_[i], &removed, into);
            lane_add(row, &labels[i], &added, into);
        }
    }
    void join_parts(int n_threads) {
        parallel_blocks((table.n_columns() + kColumns - 1) / kColumns, n_threads, [&](int64_t block, int) {
            const int64_t first = block * kColumns, end = std::min(table.n_columns(), first + kColumns);
            std::copy(parts_[0].column(first), parts_[0].column(end), table.column(first));
            for (int64_t part = 1; part < n_parts_; ++part) lane_join(parts_[part], first, end, table);
        });
    }

    int64_t n_parts_ = 1;
    std::vector<LaneTable<T>> parts_;
    std::vector<int32_t> summed_;  // the labels that the sums are of; empty for none
};

}  // namespace sparsecluster
