// Products of rows with a few centers at once: a table of columns x lanes, a center per lane. Every sum is made in the
// order of the row's entries, lane by lane, so that the bits are the same at every width of vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/huge.hpp"
#include "tree/node_rows.hpp"

namespace sparsecluster {

// Lanes that so many centers take: 2, 4, or a multiple of 8.
inline int lanes_for(int k) { return k <= 2 ? 2 : k <= 4 ? 4 : (k + 7) / 8 * 8; }

// Per lane: what its column of the table is multiplied by to be the center, and half the squared norm of that, where it
// counts.
struct LaneScale {
    std::vector<double> factors, halves;
    void reset(int lanes) { factors.assign(lanes, 1.0), halves.assign(lanes, 0.0); }
};

// out[i - first][lane] = x_i . center - half.
void lane_scores(const NodeBlock& block, const double* table, int lanes, const LaneScale& scale, double* out);

// norms[lane] += the squares of the center, in the order of the columns.
void lane_norms(const double* table, int64_t n_columns, int lanes, double* norms);

// Divides each lane by its divisor.
void lane_divide(double* table, int64_t n_columns, int lanes, const double* divisors);

// Columns x lanes of float64, on huge pages where they are large.
class LaneTable {
public:
    void reset(int64_t n_columns, int lanes) {
        size_ = n_columns * lanes;
        buffer_.reserve(size_);
        std::fill_n(buffer_.get(), size_, 0.0);
    }
    double* get() const { return buffer_.get(); }
    int64_t size() const { return size_; }

private:
    HugeBuffer<double> buffer_;
    int64_t size_ = 0;
};

}  // namespace sparsecluster
