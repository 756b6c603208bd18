// Builds the center index: count per feature, choose the head, fill head rows and tail lists.
#include "index.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "parallel.hpp"

namespace sparsecluster {

namespace {

// A list entry costs about as much as kListCost floats of a SIMD row, and entering a list as kListStart
// entries (measured on text at K = 100 and 1000; the optimum is flat).
constexpr double kListCost = 8.0;
constexpr double kListStart = 4.0;
// Up to so many centers may get a row for every feature. A tile of every SIMD level is as wide.
constexpr int64_t kDirectCenters = 32;

}  // namespace

void CenterIndex::Free::operator()(float* p) const { std::free(p); }

// Makes room for so many floats; answers whether that is new memory.
bool CenterIndex::reserve_head(int64_t n_floats) {
    if (n_floats <= head_capacity_ && head_) return false;
    constexpr size_t kHuge = size_t(1) << 21;
    const size_t bytes = std::max<size_t>(size_t(n_floats) * sizeof(float), 64);
    const size_t alignment = bytes >= kHuge ? kHuge : 64;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    head_.reset();
    head_capacity_ = 0;
    head_.reset(static_cast<float*>(std::aligned_alloc(alignment, rounded)));
    if (!head_) throw std::bad_alloc();
    head_capacity_ = int64_t(rounded / sizeof(float));
#ifdef __linux__
    if (alignment == kHuge) madvise(head_.get(), rounded, MADV_HUGEPAGE);
#endif
    return true;
}

void CenterIndex::build(const Centers& centers, double scale, IndexLimits limits, int n_threads) {
    std::vector<int32_t> all(centers.size());
    std::iota(all.begin(), all.end(), 0);
    build(centers, all, scale, limits, n_threads);
}

void CenterIndex::build(const Centers& centers, const std::vector<int32_t>& which, double scale,
                        IndexLimits limits, int n_threads) {
    simd = &kernels();
    ids = which;
    n_centers = int64_t(ids.size());
    stride = (n_centers + 15) / 16 * 16;

    start.assign(stride, -std::numeric_limits<float>::infinity());
    norm.resize(n_centers);
    max_norm = 0;
    for (int64_t k = 0; k < n_centers; ++k) {
        norm[k] = std::sqrt(centers.items[ids[k]].norm2) * scale;
        start[k] = float(-0.5 * norm[k] * norm[k]);
        max_norm = std::max(max_norm, norm[k]);
    }

    if (!build_direct(centers, scale, limits)) build_hybrid(centers, scale, limits.head, n_threads);
}

// Few centers: a head row for every feature, so that no feature has to be looked up.
bool CenterIndex::build_direct(const Centers& centers, double scale, IndexLimits limits) {
    const int64_t old_width = direct ? stride_of_filled_ : 0;
    direct = stride <= kDirectCenters &&
             centers.n_features * stride * int64_t(sizeof(float)) <= std::min(limits.head, limits.direct);
    if (!direct) return false;
    if (reserve_head(centers.n_features * stride) || old_width == 0) {
        std::memset(head_.get(), 0, size_t(head_capacity_) * sizeof(float));
    } else {
        for (int32_t feature : filled_)
            std::fill_n(head_.get() + int64_t(feature) * old_width, old_width, 0.0f);
    }
    filled_.clear();
    stride_of_filled_ = stride;
    for (int64_t k = 0; k < n_centers; ++k) {
        const Center& center = centers.items[ids[k]];
        filled_.insert(filled_.end(), center.features.begin(), center.features.end());
        for (int64_t e = 0; e < center.size(); ++e)
            head_[int64_t(center.features[e]) * stride + k] = float(center.values[e] * scale);
    }
    n_head = centers.n_features;
    tiles.assign(1, Tile{0, int(stride / simd->lanes), 0});
    return true;
}

void CenterIndex::build_hybrid(const Centers& centers, double scale, int64_t head_limit, int n_threads) {
    place.assign(centers.n_features, FeaturePlace{0, 0});
    for (int32_t id : ids)
        for (int32_t feature : centers.items[id].features) ++place[feature].count;

    // Dense enough for a SIMD row to beat a list; denser still where the rows would not fit the limit.
    double threshold = std::max(1.0, double(stride) / kListCost - kListStart);
    const int64_t head_rows_allowed = head_limit / (stride * int64_t(sizeof(float)));
    auto rows_above = [&](double least) {
        return std::count_if(place.begin(), place.end(), [&](auto p) { return p.count >= least; });
    };
    while (threshold <= double(n_centers) && rows_above(threshold) > head_rows_allowed) threshold *= 1.5;

    n_head = 0;
    int64_t n_tail = 0;
    for (FeaturePlace& at : place) {
        if (at.count == 0) continue;
        if (at.count >= threshold) {
            at = {uint32_t(n_head++), FeaturePlace::kHead};
        } else {
            at.position = uint32_t(n_tail);
            n_tail += at.count;
        }
    }
    if (n_tail > int64_t(UINT32_MAX)) throw std::length_error("the centers have more than 2^32 entries");

    tiles.clear();
    const int64_t width = int64_t(simd->lanes) * simd->tile_vectors;
    for (int64_t first = 0; first < n_centers; first += width) {
        const int64_t left = std::min(width, n_centers - first);
        tiles.push_back({first, int((left + simd->lanes - 1) / simd->lanes), first * n_head});
    }

    reserve_head(n_head * stride);
    tail.resize(n_tail);
    // A tile's columns belong to its centers alone, so tiles are filled side by side.
    parallel_blocks(1 + int64_t(tiles.size()), n_threads, [&](int64_t block, int) {
        if (block == 0)
            fill_tail(centers, scale);
        else
            fill_tile(centers, scale, tiles[block - 1]);
    });
}

void CenterIndex::fill_tail(const Centers& centers, double scale) {
    tail_at_.resize(place.size());
    for (size_t f = 0; f < place.size(); ++f) tail_at_[f] = place[f].position;
    for (int64_t k = 0; k < n_centers; ++k) {
        const Center& center = centers.items[ids[k]];
        for (int64_t e = 0; e < center.size(); ++e)
            if (place[center.features[e]].count > 0)
                tail[tail_at_[center.features[e]]++] = {int32_t(k), float(center.values[e] * scale)};
    }
}

void CenterIndex::fill_tile(const Centers& centers, double scale, const Tile& tile) {
    const int64_t columns = int64_t(tile.vectors) * simd->lanes;
    float* const rows = head_.get() + tile.offset;
    std::memset(rows, 0, size_t(n_head * columns) * sizeof(float));
    for (int64_t k = tile.first; k < std::min(n_centers, tile.first + columns); ++k) {
        const Center& center = centers.items[ids[k]];
        for (int64_t e = 0; e < center.size(); ++e) {
            const FeaturePlace at = place[center.features[e]];
            if (at.count == FeaturePlace::kHead)
                rows[int64_t(at.position) * columns + (k - tile.first)] = float(center.values[e] * scale);
        }
    }
}

}  // namespace sparsecluster
