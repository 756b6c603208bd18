// The rows of one node of a tree, in columns of their own: work on a small node follows its entries, not the columns of
// the whole matrix. Zeros that are stored are left out, so that dense and sparse rows give the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/huge.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "core/rows.hpp"
#include "tree/column_marks.hpp"

namespace sparsecluster {

// Entries of a row that are not zero.
template <class V, class I>
int64_t n_nonzero(const Row<V, I>& row) {
    return row.size - std::count(row.values, row.values + row.size, V(0));
}

// Consecutive rows: entries begin[i] .. begin[i + 1] for row i from 0.
template <class V>
struct NodeBlock {
    int64_t first = 0, n = 0;
    const int64_t* begin = nullptr;
    const int32_t* features = nullptr;
    const V* values = nullptr;
};

// Values are as the matrix has them: float32 or float64.
template <class V>
class NodeRows {
public:
    static constexpr int64_t kBlock = 256;
    // Above so many entries, and at least one for each column, rows are read where they are.
    static constexpr int64_t kMostCopied = int64_t(1) << 22;

    static constexpr int64_t kAhead = 16;  // rows that are asked for before they are copied

    // With so many entries per column, on average, columns keep their numbers.
    static constexpr int64_t kFullColumns = 16;

    void load(const Rows& rows, const int32_t* ids, int64_t n, int n_threads) {
        rows_ = &rows, ids_ = ids, n_ = n;
        with_matrix(
            [&](const auto& matrix) {
                n_entries_ = 0, n_columns_ = matrix.n_features;
                for (int64_t i = 0; i < n; ++i) n_entries_ += matrix.row(ids[i]).size;
                in_place_ = (large() || full()) && stands_in_place(matrix);
                if (!in_place_ && (large() || full())) count(matrix, n_threads);
                copied_ = !in_place_ && !large();
                renumbered_ = copied_ && !full();
                if (renumbered_)
                    copy(matrix);
                else if (copied_)
                    copy_as_it_is(matrix, n_threads);
            });
    }

    int64_t size() const { return n_; }
    int64_t n_entries() const { return n_entries_; }  // that are not zero
    int64_t n_columns() const { return n_columns_; }
    int64_t n_features() const { return rows_->n_features(); }  // columns of the matrix
    int64_t n_declared() const { return rows_->n_columns(); }   // and with those that are left out there
    int32_t column(int64_t local) const { return renumbered_ ? columns_[local] : int32_t(local); }
    // Of a column that occurs.
    int32_t local(int32_t column) const { return renumbered_ ? numbers_[column] : column; }
    // Ascending: the columns of the matrix that local ones stand for.
    std::vector<int32_t> columns() const {
        std::vector<int32_t> all(n_columns_);
        for (int64_t local = 0; local < n_columns_; ++local) all[local] = column(local);
        return all;
    }
    double norm2(int64_t i) const { return rows_->norm2()[ids_[i]]; }
    int64_t n_blocks() const { return (n_ + kBlock - 1) / kBlock; }

    // Asks for a row to be brought into the cache.
    void prefetch(int64_t i) const {
        if (!copied_ && !in_place_) return;
        const int64_t* const begin = copied_ ? begin_.data() : own_.indptr;
        const int32_t* const features = copied_ ? features_.get() : own_.features;
        const V* const values = copied_ ? values_.get() : own_.values;
        const int64_t end = std::min(begin[i + 1], begin[i] + kPrefetchedEntries);
        prefetch_lines(features + begin[i], features + end);
        prefetch_lines(values + begin[i], values + end);
    }

    // Calls work(NodeBlock) for a block of rows.
    template <class Work>
    void block(int64_t index, const Work& work) const {
        const int64_t first = index * kBlock;
        rows(first, std::min(kBlock, n_ - first), work);
    }
    template <class Work>
    void rows(int64_t first, int64_t n, const Work& work) const {
        if (copied_) return work(NodeBlock<V>{first, n, begin_.data() + first, features_.get(), values_.get()});
        if (in_place_) return work(NodeBlock<V>{first, n, own_.indptr + first, own_.features, own_.values});
        static thread_local std::vector<int64_t> begin;
        static thread_local std::vector<int32_t> features;
        static thread_local std::vector<V> values;
        begin.assign(1, 0), features.clear(), values.clear();
        with_matrix(
            [&](const auto& matrix) {
                for (int64_t i = first; i < first + n; ++i) {
                    const auto row = matrix.row(ids_[i]);
                    for (int64_t e = 0; e < row.size; ++e) {
                        if (row.values[e] == 0) continue;
                        features.push_back(int32_t(row.features[e]));
                        values.push_back(row.values[e]);
                    }
                    begin.push_back(int64_t(features.size()));
                }
            });
        work(NodeBlock<V>{first, n, begin.data(), features.data(), values.data()});
    }

private:
    // How columns are numbered decides where sums are rounded, so it follows what the rows hold, not how they are stored.
    bool large() const { return n_entries_ > kMostCopied && n_entries_ >= rows_->n_features(); }
    bool full() const { return n_entries_ >= kFullColumns * n_declared(); }

    template <class Work>
    void with_matrix(const Work& work) const {
        std::visit(
            [&]<class Value, class I>(const Matrix<Value, I>& matrix) {
                if constexpr (std::is_same_v<Value, V>) work(matrix);
            },
            rows_->matrix());
    }

    // Whether the rows are all those of the matrix, whose arrays are as a block has them.
    template <class I>
    bool stands_in_place(const Matrix<V, I>& matrix) {
        if constexpr (!std::is_same_v<I, int32_t>) {
            return false;
        } else {
            if (n_ != matrix.n_rows || !matrix.indptr || matrix.selected) return false;
            for (int64_t i = 0; i < n_; ++i)
                if (ids_[i] != i) return false;
            own_ = matrix;
            // All are looked at in any case, and so many at a time.
            return std::count(matrix.values + matrix.indptr[0], matrix.values + matrix.indptr[n_], V(0)) == 0;
        }
    }

    template <class I>
    void copy(const Matrix<V, I>& matrix) {
        if (int64_t(numbers_.size()) < matrix.n_features) numbers_.resize(matrix.n_features);
        occurring_.reserve(matrix.n_features);
        begin_.resize(n_ + 1);
        begin_[0] = 0;
        features_.reserve(n_entries_ + 1), values_.reserve(n_entries_ + 1);
        int64_t at = 0;
        int32_t* const features = features_.get();
        V* const values = values_.get();
        for (int64_t i = 0; i < n_; ++i) {
            matrix.prefetch(ids_[std::min(i + kAhead, n_ - 1)]);
            const auto row = matrix.row(ids_[i]);
            for (int64_t e = 0; e < row.size; ++e) {
                const auto feature = int32_t(row.features[e]);
                features[at] = feature, values[at] = row.values[e];
                const bool there = row.values[e] != 0;
                if (there) occurring_.mark(feature);
                at += there;
            }
            begin_[i + 1] = at;
        }
        columns_.clear();
        occurring_.take([&](int64_t column) {
            numbers_[column] = int32_t(columns_.size());
            columns_.push_back(int32_t(column));
        });
        n_entries_ = at, n_columns_ = int64_t(columns_.size());
        const int32_t* const numbers = numbers_.data();
        for (int64_t e = 0; e < at; ++e) features[e] = numbers[features[e]];
    }

    // Where rows begin when zeros are left out.
    template <class I>
    void count(const Matrix<V, I>& matrix, int n_threads) {
        begin_.resize(n_ + 1);
        begin_[0] = 0;
        parallel_blocks(n_blocks(), n_threads, [&](int64_t block, int) {
            for (int64_t i = block * kBlock; i < std::min(n_, (block + 1) * kBlock); ++i)
                begin_[i + 1] = sparsecluster::n_nonzero(matrix.row(ids_[i]));
        });
        for (int64_t i = 0; i < n_; ++i) begin_[i + 1] += begin_[i];
        n_entries_ = begin_[n_];
    }

    // After the count.
    template <class I>
    void copy_as_it_is(const Matrix<V, I>& matrix, int n_threads) {
        features_.reserve(n_entries_), values_.reserve(n_entries_);
        parallel_blocks(n_blocks(), n_threads, [&](int64_t block, int) {
            for (int64_t i = block * kBlock; i < std::min(n_, (block + 1) * kBlock); ++i) {
                const auto row = matrix.row(ids_[i]);
                int64_t at = begin_[i];
                for (int64_t e = 0; e < row.size; ++e)
                    if (row.values[e] != 0) features_[at] = int32_t(row.features[e]), values_[at++] = row.values[e];
            }
        });
    }

    const Rows* rows_ = nullptr;
    const int32_t* ids_ = nullptr;
    int64_t n_ = 0, n_entries_ = 0, n_columns_ = 0;
    bool in_place_ = false, copied_ = false, renumbered_ = false;
    Matrix<V, int32_t> own_;        // where rows stand in place
    std::vector<int32_t> columns_;  // ascending
    std::vector<int32_t> numbers_;  // per column of the matrix: its number in the node, where it occurs
    ColumnMarks occurring_;
    std::vector<int64_t> begin_;
    HugeBuffer<int32_t> features_;
    HugeBuffer<V> values_;
};

}  // namespace sparsecluster
