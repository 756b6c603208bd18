// The centers by feature, for screening: features that many centers share are SIMD rows of float32 ("head", laid out tile by
// tile), the others lists of (center, value) ("tail"). Memory follows the non-zeros of the centers, not centers x features;
// only up to 128 centers may get a row for every feature ("direct"), of float32 or of 16-bit numbers, which spares looking
// features up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
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

    bool operator==(const Tile&) const = default;
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
    // A row for every feature may be of 16-bit numbers, multiples of one step, unless centers have negative values. Their
    // rounding is part of the error of a score.
    bool quantized = false;
};

// Bytes for rows for every feature, which pay when the entries to be scanned are many against them. All of them are made for
// one scan;
inline constexpr int64_t kMostDirect = int64_t(96) << 20;
inline int64_t direct_limit(int64_t nnz) { return std::min(8 * nnz, kMostDirect); }
// where one index after the other is made in the same memory, only those that have entries are made anew.
inline int64_t repeated_direct_limit(int64_t nnz) { return std::min(24 * nnz, kMostDirect); }

// Whether floats can be multiplied by this: powers of two within these bounds have no need of float64.
inline bool scales_in_float(double scale) { return scale > 0x1p-100 && scale < 0x1p100; }

// The scale for an index of these centers that scans these rows. Centers that start far away need room too.
double common_scale(const Rows& rows, const Centers& centers);

// The step that the values of these centers, scaled, are rounded to multiples of as 16-bit numbers. 0 where that cannot be:
// values are negative, or so small or large that floats would lose digits on the way.
double quantization_step(const Centers& centers, std::span<const int32_t> ids, double scale, int n_threads);

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
        return head_.capacity() * int64_t(sizeof(float)) + quantized_.capacity() * int64_t(sizeof(uint16_t)) +
               int64_t(place.capacity() * sizeof(FeaturePlace)) + int64_t(tail.capacity() * sizeof(TailEntry));
    }

    const float* tile_rows(const Tile& tile) const { return head_.get() + tile.offset; }
    const uint16_t* quantized_rows(const Tile& tile) const { return quantized_.get() + tile.offset; }
    // Numbers per feature in a tile of a direct index.
    int64_t width_of(const Tile& tile) const { return std::min(row_width_, int64_t(tile.vectors) * simd->lanes); }

    const Kernels* simd = nullptr;
    double scale = 1;
    std::vector<int32_t> ids;
    int64_t n_centers = 0;
    int64_t stride = 0;               // n_centers rounded up to whole vectors
    int64_t n_head = 0;
    bool direct = false;              // every feature has a head row, at its own number
    double step = 0;                  // of 16-bit numbers that the head rows are made of; 0 where they are floats
    std::vector<FeaturePlace> place;  // per feature, unless direct
    std::vector<TailEntry> tail;      // within a feature by ascending center
    std::vector<Tile> tiles;
    std::vector<float> start;         // -|c|^2 / 2; minus infinity beyond the last center
    std::vector<double> norm;         // |c|, scaled like all values
    double max_norm = 0;

private:
    bool build_direct(const Centers& centers, IndexLimits limits, int n_threads);
    void build_hybrid(const Centers& centers, int64_t head_limit, int n_threads);

    template <class T>
    void fill_direct(HugeBuffer<T>& table, const Centers& centers, bool known, std::vector<Tile> wanted,
                     int64_t row_width, int n_threads);
    template <class T>
    int64_t fill_column(T* column, int64_t width, const Center& center, int64_t from, int64_t end_feature);
    template <class T>
    void clear_filled(HugeBuffer<T>& table, int64_t first_word, int64_t last_word);
    template <class T>
    void make_room(HugeBuffer<T>& table, int64_t n_words, int n_threads);

    HugeBuffer<float> head_;
    HugeBuffer<uint16_t> quantized_;  // in its place where direct, and where these will do
    // Where direct: numbers per feature, all tiles together; part of a vector where centers are few.
    int64_t row_width_ = 0;
    // So many of the numbers are zeros, but for the rows of features that have a bit.
    int64_t n_zeros_ = 0;
    std::vector<uint64_t> filled_;
};

}  // namespace sparsecluster
