// Products of rows with a few centers at once: a table of columns x lanes, a center per lane. Every sum is made in an
// order that the row's entries alone decide, lane by lane, so that the bits are the same at every width of vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/huge.hpp"
#include "tree/node_rows.hpp"

namespace sparsecluster {

// Lanes that so many centers take: a part of 64 bytes, or a multiple of that.
template <class T>
int lanes_for(int k) {
    constexpr int kFull = int(64 / sizeof(T));
    for (int lanes = int(16 / sizeof(T)); lanes < kFull; lanes *= 2)
        if (k <= lanes) return lanes;
    return (k + kFull - 1) / kFull * kFull;
}

// Columns x lanes of centers, on huge pages where they are large. A center may be a sum of rows, which its scale makes
// one; and per lane half the squared norm of the center, where it counts.
template <class T>
class LaneTable {
public:
    // The content is undefined.
    void reserve(int64_t n_columns, int lanes) {
        n_columns_ = n_columns, lanes_ = lanes;
        buffer_.reserve(n_columns * lanes);
        scales.assign(lanes, T(1)), halves.assign(lanes, T(0));
    }
    void clear() { std::fill_n(buffer_.get(), size(), T(0)); }
    T* column(int64_t c) const { return buffer_.get() + c * lanes_; }
    int64_t n_columns() const { return n_columns_; }
    int lanes() const { return lanes_; }
    int64_t size() const { return n_columns_ * lanes_; }

    std::vector<T> scales, halves;

private:
    HugeBuffer<T> buffer_;
    int64_t n_columns_ = 0;
    int lanes_ = 0;
};

// out[i - first][lane] = x_i . column sums * scale - half. In float64 sums go entry by entry, as those of `route` do; in float32
// those of even and of odd entries are added up at the end.
void lane_scores(const NodeBlock<float>& block, const LaneTable<float>& table, float* out);
void lane_scores(const NodeBlock<double>& block, const LaneTable<float>& table, float* out);
void lane_scores(const NodeBlock<float>& block, const LaneTable<double>& table, double* out);
void lane_scores(const NodeBlock<double>& block, const LaneTable<double>& table, double* out);

// table[.][labels[i - first]] += times[i - first] * x_i, or once where `times` is null; row by row.
void lane_add(const NodeBlock<float>& block, const int32_t* labels, const double* times, LaneTable<float>& table);
void lane_add(const NodeBlock<double>& block, const int32_t* labels, const double* times, LaneTable<float>& table);
void lane_add(const NodeBlock<float>& block, const int32_t* labels, const double* times, LaneTable<double>& table);
void lane_add(const NodeBlock<double>& block, const int32_t* labels, const double* times, LaneTable<double>& table);

// Per lane the sum of the squares of its columns.
void lane_norms2(const LaneTable<float>& table, double* out);
void lane_norms2(const LaneTable<double>& table, double* out);

// into += table, for columns from first to end.
void lane_join(const LaneTable<float>& table, int64_t first, int64_t end, LaneTable<float>& into);
void lane_join(const LaneTable<double>& table, int64_t first, int64_t end, LaneTable<double>& into);

// Adds to each score a little that depends on row and lane, at most `most`: equal rows can be told apart.
void lane_jitter(int64_t first, int64_t n, int lanes, float most, float* scores);
void lane_jitter(int64_t first, int64_t n, int lanes, double most, double* scores);

}  // namespace sparsecluster
