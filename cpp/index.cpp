// Builds the center index: count per feature, choose the head, fill head rows and tail lists.
#include "index.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "parallel.hpp"

namespace sparsecluster {

namespace {

// A list entry costs about as much as this many floats of a SIMD row, and a list as much again to enter.
constexpr double kListCost = 6.0;
constexpr double kListStart = 8.0;

float* allocate_floats(int64_t count) {
    constexpr size_t kHuge = size_t(1) << 21;
    const size_t bytes = std::max<size_t>(size_t(count) * sizeof(float), 64);
    const size_t alignment = bytes >= kHuge ? kHuge : 64;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, rounded);
    if (!memory) throw std::bad_alloc();
#ifdef __linux__
    if (alignment == kHuge) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
    return static_cast<float*>(memory);
}

}  // namespace

void CenterIndex::Free::operator()(float* p) const { std::free(p); }

CenterIndex::CenterIndex(const Centers& centers, double scale, int64_t head_limit, int n_threads)
    : simd(kernels()), n_centers(centers.size()), stride((n_centers + 15) / 16 * 16) {
    const int64_t d = centers.n_features;

    std::vector<int32_t> count(d, 0);
    for (const Center& center : centers.items)
        for (int32_t feature : center.features) ++count[feature];

    // Dense enough for a SIMD row to beat a list; denser still where the rows would not fit the limit.
    double threshold = std::max(1.0, (double(stride) - kListStart * kListCost) / kListCost);
    const int64_t head_rows_allowed = head_limit / (stride * int64_t(sizeof(float)));
    auto rows_above = [&](double least) {
        return std::count_if(count.begin(), count.end(), [&](int32_t c) { return c >= least; });
    };
    while (threshold <= double(n_centers) && rows_above(threshold) > head_rows_allowed) threshold *= 1.5;

    slot.assign(d, kAbsent);
    tail_begin.assign(d + 1, 0);
    int64_t n_tail = 0;
    for (int64_t f = 0; f < d; ++f) {
        tail_begin[f] = n_tail;
        if (count[f] == 0) continue;
        if (count[f] >= threshold) {
            slot[f] = int32_t(n_head++);
        } else {
            slot[f] = kTail;
            n_tail += count[f];
        }
    }
    tail_begin[d] = n_tail;

    const int64_t width = int64_t(simd.lanes) * simd.tile_vectors;
    for (int64_t first = 0; first < n_centers; first += width) {
        const int64_t left = std::min(width, n_centers - first);
        tiles.push_back({first, int((left + simd.lanes - 1) / simd.lanes), first * n_head});
    }

    start.assign(stride, -std::numeric_limits<float>::infinity());
    norm.resize(n_centers);
    for (int64_t k = 0; k < n_centers; ++k) {
        norm[k] = std::sqrt(centers.items[k].norm2) * scale;
        start[k] = float(-0.5 * norm[k] * norm[k]);
        max_norm = std::max(max_norm, norm[k]);
    }

    storage_.reset(allocate_floats(n_head * stride));
    head_ = storage_.get();
    tail.resize(n_tail);
    std::vector<int64_t> at(tail_begin.begin(), tail_begin.end() - 1);
    for (int64_t k = 0; k < n_centers; ++k) {
        const Center& center = centers.items[k];
        for (int64_t e = 0; e < center.size(); ++e)
            if (slot[center.features[e]] == kTail)
                tail[at[center.features[e]]++] = {int32_t(k), float(center.values[e] * scale)};
    }
    // A tile's columns belong to its centers alone, so tiles are filled side by side.
    parallel_blocks(int64_t(tiles.size()), n_threads, [&](int64_t t, int) {
        const Tile& tile = tiles[t];
        const int64_t columns = int64_t(tile.vectors) * simd.lanes;
        float* rows = head_ + tile.offset;
        std::memset(rows, 0, size_t(n_head * columns) * sizeof(float));
        const int64_t last = std::min(n_centers, tile.first + columns);
        for (int64_t k = tile.first; k < last; ++k) {
            const Center& center = centers.items[k];
            for (int64_t e = 0; e < center.size(); ++e) {
                const int32_t s = slot[center.features[e]];
                if (s >= 0) rows[s * columns + (k - tile.first)] = float(center.values[e] * scale);
            }
        }
    });
}

}  // namespace sparsecluster
