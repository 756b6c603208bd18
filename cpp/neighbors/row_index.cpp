// Builds the index of rows: features by frequency, then block by block the lists, head rows and norms.
#include "neighbors/row_index.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "core/clones.hpp"
#include "core/parallel.hpp"
#include "core/rounding.hpp"

namespace sparsecluster {

namespace {

// A feature of at least one row in so many is a SIMD row: a list entry takes as long as several lanes.
constexpr int64_t kHeadShare = 8;

FeatureOrder order_features(const Rows& rows) {
    const int64_t n = rows.n_rows(), d = rows.n_features();
    std::vector<int32_t> frequency(d, 0);
    std::visit(
        [&](const auto& view) {
            for (int64_t i = 0; i < n; ++i) {
                if (i % 1024 == 0) {
                    rows.read_ahead(i, std::min(n, i + 1024));
                    poll_interrupt();
                }
                const auto row = view.row(i);
                for (int64_t e = 0; e < row.size; ++e) frequency[row.features[e]] += row.values[e] != 0;
            }
        },
        rows.matrix());
    // A counting sort; features that are as frequent as each other stay in their order.
    std::vector<int64_t> before(n + 1, 0);  // per frequency: features that are more frequent
    for (const int32_t one : frequency)
        if (one > 0) ++before[one - 1];
    for (int64_t f = n - 1; f >= 0; --f) before[f] += before[f + 1];
    FeatureOrder order;
    order.rank.resize(d);
    const auto more_frequent_than = [before](double least) { return before[std::max<int64_t>(0, int64_t(std::floor(least)))]; };
    for (int64_t f = 0; f < d; ++f) order.rank[f] = uint32_t(before[frequency[f]]++);
    order.n_head = more_frequent_than(double(n) / kHeadShare);
    for (int level = 1; level < kLevels; ++level)
        order.left_out[level] = uint32_t(more_frequent_than(double(n) / std::exp2(level + 1)));
    order.level.resize(d);
    for (int64_t f = 0; f < d; ++f) {
        int level = 0;
        while (level + 1 < kLevels && order.rank[f] >= order.left_out[level + 1]) ++level;
        order.level[f] = uint8_t(frequency[f] > 0 ? level : kLevels);
    }
    return order;
}

}  // namespace

FOR_EACH_PROCESSOR
void group_maxima(const float* scores, const float* offsets, int64_t n, int64_t n_groups, float* maxima) {
    for (int64_t g = 0; g < n_groups; ++g) maxima[g] = scores[g] - offsets[g];
    for (int64_t begin = n_groups; begin < n; begin += n_groups) {
        const int64_t size = std::min(n_groups, n - begin);
        for (int64_t g = 0; g < size; ++g) {
            const float score = scores[begin + g] - offsets[begin + g];
            maxima[g] = score > maxima[g] ? score : maxima[g];
        }
    }
}

void AlignedFloats::Free::operator()(float* p) const { std::free(p); }

void AlignedFloats::allocate(int64_t n) {
    const size_t bytes = (size_t(n) * sizeof(float) + 63) / 64 * 64 + 64;
    data.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    if (!data) throw std::bad_alloc();
    std::memset(data.get(), 0, bytes);
}

RowIndex::RowIndex(const Rows& rows, RowScale scale, int64_t block_rows)
    : rows_(rows), scale_(scale), block_rows_(block_rows), simd_(&kernels()), order_(order_features(rows)) {}

std::vector<int64_t> RowIndex::run_ends(int64_t bytes) const {
    const int64_t n = rows_.n_rows(), per_block = rows_.n_features() * int64_t(sizeof(uint32_t));
    const int64_t per_row = (kLevels + 1 + order_.n_head) * int64_t(sizeof(float));
    constexpr int64_t kEntryBytes = sizeof(uint16_t) + sizeof(float);
    std::vector<int64_t> ends;
    int64_t used = 0;
    std::visit(
        [&](const auto& view) {
            for (int64_t begin = 0; begin < n; begin += block_rows_) {
                const int64_t end = std::min(n, begin + block_rows_);
                int64_t needed = per_block + per_row * (end - begin);
                for (int64_t i = begin; i < end; ++i) needed += view.row(i).size * kEntryBytes;
                if (begin > 0 && used + needed > bytes) {
                    ends.push_back(begin);
                    used = 0;
                }
                used += needed;
            }
        },
        rows_.matrix());
    if (n > 0) ends.push_back(n);
    return ends;
}

void RowIndex::build(int64_t begin, int64_t end, int n_threads) {
    const int64_t n_blocks = (end - begin + block_rows_ - 1) / block_rows_;
    blocks_.clear();
    blocks_.resize(n_blocks);
    rows_.will_need(begin, end);
    std::visit(
        [&](const auto& view) {
            parallel_blocks(n_blocks, n_threads, [&](int64_t b, int) {
                RowBlock& block = blocks_[b];
                block.first = begin + b * block_rows_;
                block.n_rows = std::min(block_rows_, end - block.first);
                fill(block, view);
            });
        },
        rows_.matrix());
    mean_left_norm_.fill(0);
    mean_offset_ = 0;
    for (const RowBlock& block : blocks_) {
        for (int level = 0; level < kLevels; ++level)
            for (int64_t r = 0; r < block.n_rows; ++r) mean_left_norm_[level] += block.left_norms(level)[r];
        for (int64_t r = 0; r < block.n_rows; ++r) mean_offset_ += block.offset[r];
    }
    for (double& mean : mean_left_norm_) mean /= double(std::max<int64_t>(end - begin, 1));
    mean_offset_ /= double(std::max<int64_t>(end - begin, 1));
}

template <class V, class I>
void RowIndex::fill(RowBlock& block, const Matrix<V, I>& view) const {
    const int64_t d = rows_.n_features(), n_head = order_.n_head, lanes = simd_->lanes;
    const uint32_t* const rank = order_.rank.data();
    block.stride = (block.n_rows + lanes - 1) / lanes * lanes;
    block.begin.assign(d - n_head + 1, 0);
    for (int64_t r = 0; r < block.n_rows; ++r) {
        const Row<V, I> row = view.row(block.first + r);
        for (int64_t e = 0; e < row.size; ++e)
            if (rank[row.features[e]] >= n_head && row.values[e] != 0) ++block.begin[rank[row.features[e]] - n_head + 1];
    }
    for (int64_t f = 0; f < d - n_head; ++f) block.begin[f + 1] += block.begin[f];
    block.list_rows.resize(block.begin.back());
    block.list_values.resize(block.begin.back());

    const int64_t width = int64_t(lanes) * simd_->tile_vectors;
    for (int64_t first = 0; first < block.n_rows; first += width) {
        const int64_t columns = std::min(width, block.stride - first);
        block.tiles.push_back({first, int(columns / lanes), first * n_head});
    }
    block.head.allocate(n_head * block.stride);
    block.offset.assign(block.stride, std::numeric_limits<float>::infinity());
    block.left_norm.assign(kLevels * block.stride, 0.0f);

    std::vector<uint32_t> at(block.begin.begin(), block.begin.end() - 1);
    for (int64_t r = 0; r < block.n_rows; ++r) {
        const int64_t i = block.first + r;
        const Row<V, I> row = view.row(i);
        const double norm2 = rows_.norm2()[i], factor = scale_.factor(norm2), norm = scale_.norm(norm2);
        block.max_norm = std::max(block.max_norm, norm);
        block.offset[r] = scale_.metric == Metric::euclidean ? round_down(0.5 * norm * norm) : 0.0f;
        const Tile& tile = block.tiles[r / width];
        const int64_t columns = int64_t(tile.vectors) * lanes;
        std::array<double, kLevels> left{};
        for (int64_t e = 0; e < row.size; ++e) {
            if (row.values[e] == 0) continue;
            const uint32_t place = rank[row.features[e]];
            const double value = double(row.values[e]) * factor;
            for (int level = kLevels - 1; level > 0 && place < order_.left_out[level]; --level)
                left[level] += value * value;
            if (place < n_head) {
                block.head.data[tile.offset + int64_t(place) * columns + (r - tile.first)] = float(value);
            } else {
                const uint32_t p = at[place - n_head]++;
                block.list_rows[p] = uint16_t(r);
                block.list_values[p] = float(value);
            }
        }
        for (int level = 1; level < kLevels; ++level)
            block.left_norm[level * block.stride + r] = round_up(std::sqrt(left[level]));
    }
}

}  // namespace sparsecluster
