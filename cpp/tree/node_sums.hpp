// Sums of the rows of clusters, and the same as sparse vectors: work follows the entries of the rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/huge.hpp"
#include "tree/node_rows.hpp"

namespace sparsecluster {

// A sparse vector in the columns of a node, without zeros.
struct LocalVector {
    HugeBuffer<int32_t> columns;
    HugeBuffer<double> values;
    int64_t size = 0;
    double norm2 = 0;
    bool ascending = true;

    // Room for so many, of which none is there yet.
    void reserve(int64_t most) {
        columns.reserve(most), values.reserve(most);
        size = 0, norm2 = 0;
    }
};

class NodeSums {
public:
    void reset(int k, int64_t n_columns) {
        n_columns_ = n_columns;
        if (totals_.reserve(k * n_columns)) std::fill_n(totals_.get(), totals_.capacity(), 0.0);
        if (seen_.reserve(k * n_columns)) std::fill_n(seen_.get(), seen_.capacity(), uint8_t(0));
        columns_.reserve(k * (n_columns + 1));
        sizes_.assign(k, 0);
        all_.assign(k, 0);
    }
    // Takes all rows out of a cluster; it will get about so many entries.
    void clear(int c, int64_t n_entries) {
        double* const totals = totals_.get() + c * n_columns_;
        uint8_t* const seen = seen_.get() + c * n_columns_;
        const int32_t* const columns = columns_.get() + c * (n_columns_ + 1);
        if (all_[c]) std::fill_n(totals, n_columns_, 0.0);
        for (int64_t j = 0; j < sizes_[c]; ++j) totals[columns[j]] = 0, seen[columns[j]] = 0;
        sizes_[c] = 0;
        all_[c] = kFew * n_entries >= n_columns_;
    }
    // Adds a row that often.
    template <class V>
    void add(int c, const NodeBlock<V>& rows, int64_t i, double times) {
        double* const totals = totals_.get() + c * n_columns_;
        const int32_t* const features = rows.features;
        const V* const values = rows.values;
        const int64_t end = rows.begin[i + 1];
        if (all_[c]) {
            for (int64_t e = rows.begin[i]; e < end; ++e) totals[features[e]] += times * double(values[e]);
            return;
        }
        uint8_t* const seen = seen_.get() + c * n_columns_;
        int32_t* const columns = columns_.get() + c * (n_columns_ + 1);
        int64_t size = sizes_[c];
        for (int64_t e = rows.begin[i]; e < end; ++e) {
            const int32_t column = features[e];
            columns[size] = column;
            size += 1 - seen[column];
            seen[column] = 1;
            totals[column] += times * double(values[e]);
        }
        sizes_[c] = size;
    }
    void list(int c, LocalVector& out) const {
        const double* const totals = totals_.get() + c * n_columns_;
        const int32_t* const columns = columns_.get() + c * (n_columns_ + 1);
        const int64_t n = all_[c] ? n_columns_ : sizes_[c];
        out.reserve(n + 1);
        out.ascending = all_[c];
        int64_t size = 0;
        for (int64_t j = 0; j < n; ++j) {
            const int32_t column = all_[c] ? int32_t(j) : columns[j];
            const double total = totals[column];
            out.columns[size] = column, out.values[size] = total;
            size += total != 0;
        }
        double norm2 = 0;
        for (int64_t j = 0; j < size; ++j) norm2 += out.values[j] * out.values[j];
        out.size = size, out.norm2 = norm2;
    }
    // All zero again, as `reset` expects it.
    void release(int k) {
        for (int c = 0; c < k; ++c) clear(c, 0), all_[c] = 0;
    }

private:
    static constexpr int64_t kFew = 2;  // columns per entry up to which all are looked at

    HugeBuffer<double> totals_;         // clusters x columns
    HugeBuffer<uint8_t> seen_;          // the same: whether a column is listed
    HugeBuffer<int32_t> columns_;       // per cluster: the columns of its rows, in the order in which they came
    std::vector<int64_t> sizes_;        // and how many these are
    std::vector<char> all_;             // per cluster: whether columns are not listed, because most of them occur
    int64_t n_columns_ = 0;
};

}  // namespace sparsecluster
