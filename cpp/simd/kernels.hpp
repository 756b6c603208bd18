// The few loops that are worth a version per SIMD level, behind a table of function pointers.
// They work in float32, on float32 or smaller numbers, and only screen: whatever they leave in doubt is settled in float64
// (exact.hpp).
#pragma once

#include <cstdint>

namespace sparsecluster {

// An entry of a packed row: which head row of the center index it multiplies, and by what.
struct HeadEntry {
    uint32_t slot;
    float value;
};

// The tile kernel reads this many entries past the last one, to prefetch.
constexpr int64_t kPrefetchAhead = 8;
// So many entries before a stored row is added, its centers are asked for.
constexpr int64_t kStoredAhead = 24;
// Partial sums are folded into the scores every so many entries, which bounds the rounding error.
constexpr int64_t kChunk = 128;

// Products of 16-bit numbers have a multiple of so many columns.
constexpr int kProductLanes = 16;

// A row as it stands in CSR.
struct StoredRow {
    const int32_t* features;
    const float* values;
    int64_t size;
};

struct Top2 {
    float best;
    float second;
    int32_t index;  // of the best
};

struct Kernels {
    const char* name;
    int lanes;         // floats in a vector
    int tile_vectors;  // vectors in a full tile, so that the sums of a tile stay in registers
    int stored_vectors;  // the same for score_stored, which needs few registers beside

    // scores[r][0 .. vectors*lanes) += sum over the entries e of row r of e.value * tile[e.slot][...]
    void (*add_tile)(int vectors, const float* tile, const HeadEntry* entries, const int64_t* row_begin,
                     int64_t n_rows, float* scores, int64_t stride);
    // Reads what add_tile reads, in the same order, and does nothing with it: the limit of the memory.
    void (*read_tile)(int vectors, const float* tile, const HeadEntry* entries, const int64_t* row_begin,
                      int64_t n_rows, float* scores, int64_t stride);
    // scores[r][...] = start[...] + what add_tile would add, for rows as they stand in CSR: slot = feature, value =
    // values[e] * scale. The tile has `width` floats per feature: whole vectors, or the first 4 or 8 of a vector.
    void (*score_stored)(int64_t width, const float* tile, const StoredRow* rows, int64_t n_rows, float scale,
                         const float* start, float* scores, int64_t stride);
    // The same with 16-bit numbers in the tile.
    void (*score_quantized)(int64_t width, const uint16_t* tile, const StoredRow* rows, int64_t n_rows, float scale,
                         const float* start, float* scores, int64_t stride);
    // Largest and second largest of n scores; n is a multiple of the lanes.
    Top2 (*top2)(const float* scores, int64_t n);
    // The same of each of some rows of n scores,
    void (*top2_of_rows)(const float* scores, int64_t n, int64_t n_rows, Top2* tops);
    // and the largest alone.
    void (*best_of_rows)(const float* scores, int64_t n, int64_t n_rows, Top2* tops);
    // bounds[i] = max(bounds[i] - shift, 0), rounded down; writes the i with bounds[i] <= limits[i].
    int64_t (*relax_bounds)(float* bounds, const float* limits, int64_t n, float shift, int32_t* below);

    // sums[r][c] = sum over the entries e of row r of e.value * the byte for column c of table[e.slot], with `width`
    // bytes per slot and n, a multiple of 64, floats per row of sums. Words of four bytes are taken apart lane by lane:
    // of each 4 * lanes columns, byte b of word w is for column b * lanes + w.
    void (*sum_bytes)(const uint8_t* table, int64_t width, const HeadEntry* entries, const int64_t* row_begin,
                      int64_t n_rows, int64_t n, float* sums);
    // Writes the i with bounds[i] = sums[i] * factor + offsets[i] >= least, or not a number; `below` becomes the
    // largest of the other bounds, if larger. n is a multiple of 16.
    int64_t (*collect_reaching)(const float* sums, float factor, const float* offsets, int64_t n, float least,
                                int32_t* reaching, float* below);

    // sums[i] = sum over c of factors[c] * columns[c][i].
    void (*weighted_sum)(float* sums, const float* const* columns, const float* factors, int n_columns,
                         int64_t n);
    // Writes the i with sums[i] + slack * norms[i] - offsets[i] >= least.
    int64_t (*collect_above)(const float* sums, const float* norms, const float* offsets, int64_t n,
                             float slack, float least, int32_t* above);

    // sums[r][c] = sum over pairs p of rows[r][2 p] * table[p][c][0] + rows[r][2 p + 1] * table[p][c][1], with `lanes`, a
    // multiple of kProductLanes, columns c. Whole numbers, which must not overflow: the same at every level.
    void (*pair_products)(const int16_t* rows, int64_t stride, int64_t n_rows, int64_t n_pairs, const int16_t* table,
                          int64_t lanes, int32_t* sums);
};

// The table for this CPU, or for the level named by the environment variable SPARSECLUSTER_SIMD
// (base, avx2, avx512; and wide, for tests, which is never chosen by itself). Throws std::runtime_error for a level that the CPU or the build lacks.
const Kernels& kernels();

namespace base { extern const Kernels table; }
namespace wide { extern const Kernels table; }
#ifdef SPARSECLUSTER_X86
namespace avx2 { extern const Kernels table; }
namespace avx512 { extern const Kernels table; }
#endif

}  // namespace sparsecluster
