// Rows by feature, in float32, for screening: in blocks of rows whose scores stay in the cache. Frequent features are
// SIMD rows ("head", laid out tile by tile), the others lists of (row, value). A query may leave out the most frequent
// features: by Cauchy and Schwarz, what they can add is at most the product of the norms of these parts of both rows,
// and the norms are kept for some numbers of features left out ("levels"), as in L2AP (Anastasiu and Karypis 2014).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/metric.hpp"
#include "core/rows.hpp"
#include "index/center_index.hpp"
#include "simd/kernels.hpp"

namespace sparsecluster {

// Level 0 leaves nothing out, level g > 0 the features that occur in more than one of 2^(g+1) rows.
inline constexpr int kLevels = 10;

// Rows of a block, so that their scores stay in the cache; 16-bit numbers hold up to 65,536.
inline constexpr int64_t kBlockRows = 16384;

// The features by falling frequency.
struct FeatureOrder {
    std::vector<uint32_t> rank;               // per feature
    std::vector<uint8_t> level;               // per feature: the highest that it is not left out at; kLevels where no row has it
    int64_t n_head = 0;                       // so many ranks are SIMD rows
    std::array<uint32_t, kLevels> left_out{};  // at each level the ranks below this one
};

// How rows are multiplied for screening: by a common power of two, or to unit length.
struct RowScale {
    Metric metric;
    double scale;

    double factor(double norm2) const {
        if (metric == Metric::euclidean) return scale;
        return norm2 > 0 ? 1.0 / std::sqrt(norm2) : 0.0;
    }
    double norm(double norm2) const { return std::sqrt(norm2) * factor(norm2); }
};

struct AlignedFloats {
    struct Free {
        void operator()(float* p) const;
    };
    void allocate(int64_t n);  // zeros
    std::unique_ptr<float[], Free> data;
};

// Some successive rows.
struct RowBlock {
    int64_t first = 0, n_rows = 0;
    int64_t stride = 0;           // n_rows rounded up to whole vectors
    std::vector<uint32_t> begin;  // per rank beyond the head: where its list begins; and the end of the last
    std::vector<uint16_t> list_rows;  // counted from the first, ascending within a list
    std::vector<float> list_values;
    std::vector<Tile> tiles;
    AlignedFloats head;
    std::vector<float> offset;     // |y|^2 / 2 (Euclidean) or 0; infinity beyond the last row
    std::vector<float> left_norm;  // level by level: the norm of what is left out, rounded up
    double max_norm = 0;

    const float* left_norms(int level) const { return left_norm.data() + level * stride; }
};

// maxima[g] = max of scores[i] - offsets[i] over the i < n with i mod n_groups = g; there are at least as many i.
void group_maxima(const float* scores, const float* offsets, int64_t n, int64_t n_groups, float* maxima);

class RowIndex {
public:
    // Nothing is indexed yet. `rows` must outlive the index.
    RowIndex(const Rows& rows, RowScale scale, int64_t block_rows = kBlockRows);

    // Ends of runs of rows whose index takes at most so many bytes; at least one block each.
    std::vector<int64_t> run_ends(int64_t bytes) const;
    // Indexes the rows from begin to end, in place of those before.
    void build(int64_t begin, int64_t end, int n_threads);

    const Rows& rows() const { return rows_; }
    RowScale scale() const { return scale_; }
    const FeatureOrder& order() const { return order_; }
    const std::vector<RowBlock>& blocks() const { return blocks_; }
    const Kernels& simd() const { return *simd_; }
    // Averages over the indexed rows.
    double mean_left_norm(int level) const { return mean_left_norm_[level]; }
    double mean_offset() const { return mean_offset_; }

private:
    template <class V, class I>
    void fill(RowBlock& block, const Matrix<V, I>& view) const;

    const Rows& rows_;
    RowScale scale_;
    int64_t block_rows_;
    const Kernels* simd_;
    FeatureOrder order_;
    std::vector<RowBlock> blocks_;
    std::array<double, kLevels> mean_left_norm_{};
    double mean_offset_ = 0;
};

}  // namespace sparsecluster
