// The centers by feature, in float32, for screening: features that many centers share are SIMD rows
// ("head", laid out tile by tile), the others are lists of (center, value) ("tail"). Memory follows the
// non-zeros of the centers, not centers x features; only up to 32 centers may get a row for every feature.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/huge.hpp"
#include "core/rows.hpp"
#include "simd/kernels.hpp"

namespace sparsecluster {

struct TailEntry {
    int32_t center;
    float value;
};

struct Tile {
    int64_t first;   // its first center
    int vectors;     // its width in SIMD vectors
    int64_t offset;  // of its rows in `head`
};

// Where a feature is: a head row (count is kHead), a list of the tail, or nowhere (count is 0).
struct FeaturePlace {
    uint32_t position;
    int32_t count;

    static constexpr int32_t kHead = -1;
};

// Bytes that SIMD rows may take: those of the head, and a row for every feature where centers are few.
struct IndexLimits {
    int64_t head = int64_t(1) << 32;
    int64_t direct = 0;
};

// A row for every feature pays when the entries to be scanned are many against it.
inline int64_t direct_limit(int64_t nnz) { return std::min<int64_t>(8 * nnz, int64_t(96) << 20); }

// The scale for an index of these centers that scans these rows. Centers that start far away need room too.
double common_scale(const Rows& rows, const Centers& centers);

class CenterIndex {
public:
    // Indexes the centers `ids` (ascending), renumbered from 0; what an earlier call allocated is used again.
    // `scale` is a power of two that centers and rows are multiplied by (common_scale).
    void build(const Centers& centers, const std::vector<int32_t>& which, double scale, IndexLimits limits,
               int n_threads);
    // The same for all centers.
    void build(const Centers& centers, double scale, IndexLimits limits, int n_threads);
    // No centers. The memory stays, for the next ones.
    void clear();

    // What it holds, and keeps when it is cleared.
    int64_t bytes() const {
        return head_.capacity() * int64_t(sizeof(float)) + int64_t(place.capacity() * sizeof(FeaturePlace)) +
               int64_t(tail.capacity() * sizeof(TailEntry));
    }

    const float* tile_rows(const Tile& tile) const { return head_.get() + tile.offset; }

    const Kernels* simd = nullptr;
    double scale = 1;
    std::vector<int32_t> ids;
    int64_t n_centers = 0;
    int64_t stride = 0;               // n_centers rounded up to whole vectors
    int64_t n_head = 0;
    bool direct = false;              // every feature has a head row, at its own number
    std::vector<FeaturePlace> place;  // per feature, unless direct
    std::vector<TailEntry> tail;      // within a feature by ascending center
    std::vector<Tile> tiles;
    std::vector<float> start;         // -|c|^2 / 2; minus infinity beyond the last center
    std::vector<double> norm;         // |c|, scaled like all values
    double max_norm = 0;

private:
    bool build_direct(const Centers& centers, IndexLimits limits, int n_threads);
    void build_hybrid(const Centers& centers, int64_t head_limit, int n_threads);

    HugeBuffer<float> head_;
    std::vector<uint64_t> filled_;    // where direct: a bit per feature with anything in its head row,
    int64_t stride_of_filled_ = 0;    // and how wide these rows are
};

}  // namespace sparsecluster
