// The rows of a node with at least a quarter of its cells filled, as 16-bit numbers in full rows: for centers on the way and for
// scores, which need little precision. All sums are of whole numbers, so that neither threads nor SIMD change a bit. Products of
// pairs of columns take one instruction, a row of sums takes no search for columns, and all is half as large as float32.
#pragma once

#include <cstdint>
#include <vector>

#include "core/huge.hpp"
#include "simd/kernels.hpp"
#include "tree/lanes.hpp"
#include "tree/node_points.hpp"

namespace sparsecluster {

class QuantizedRows {
public:
    // False where rows are sparse, many, weighted, or so unlike in length that 16 bits would lose the short ones. Squares of
    // their norms are to be numbers that float32 holds.
    template <class V>
    bool load(const NodePoints<V>& points);

    // Centers for `scores`: those of the table, by its scales and halves.
    void set_centers(const LaneTable<float>& table);
    // Of two rows as they are here.
    double distance2(int64_t i, int64_t j) const;
    // As lane_scores, for n rows from the first.
    void scores(int64_t first, int64_t n, float* out) const;
    // The sums of rows by label, as columns of the table: of all rows, or of the first of every `step` blocks of so many.
    void sum(const std::vector<int32_t>& labels, int k, int64_t step, int64_t block, int n_threads, LaneTable<float>& table);

private:
    const int16_t* row(int64_t i) const { return cells_.get() + i * stride_; }

    const Kernels* kernels_ = nullptr;
    int64_t n_ = 0, n_columns_ = 0, stride_ = 0;  // a row has `stride_` cells, those beyond the columns zero
    float scale_ = 1, center_scale_ = 1;          // from values to whole numbers
    int lanes_ = 0, padded_ = 0;                  // of the table, and of the products
    HugeBuffer<int16_t> cells_, centers_;         // centers: pairs of columns x lanes x 2
    std::vector<int64_t> norms2_;
    std::vector<float> halves_;
    HugeBuffer<int32_t> sums_;                    // clusters x stride
    std::vector<int32_t> changed_;                // rows whose cells the sums are to get
    std::vector<int32_t> summed_;                 // the labels that the sums are of; empty for none
};

}  // namespace sparsecluster
