// The kernels, written once with vector extensions and compiled once per SIMD level by
// kernels_{base,wide,avx2,avx512}.cpp, which set LEVEL, LANES, TILE_VECTORS and STORED_VECTORS. Only plain language features
// are used here: an inline library function compiled for AVX-512 could be the copy the linker keeps. (Intrinsics are
// always inlined.)
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sparsecluster::LEVEL {
namespace {

typedef float Vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Mask __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

inline Vec splat(float value) { return value - Vec{}; }
inline const Vec& at(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline Vec& at(float* p) { return *reinterpret_cast<Vec*>(p); }

template <int N>
void tile_rows(const float* tile, const HeadEntry* entries, const int64_t* row_begin, int64_t n_rows,
               float* scores, int64_t stride) {
    constexpr int64_t width = N * LANES;
    for (int64_t r = 0; r < n_rows; ++r) {
        float* out = scores + r * stride;
        const HeadEntry* entry = entries + row_begin[r];
        const HeadEntry* const end = entries + row_begin[r + 1];
        while (entry < end) {
            const HeadEntry* const stop = end - entry > kChunk ? entry + kChunk : end;
            Vec sum[N] = {};
            for (; entry < stop; ++entry) {
                const float* ahead = tile + entry[kPrefetchAhead].slot * width;
#pragma GCC unroll 8
                for (int64_t line = 0; line < width; line += 16) __builtin_prefetch(ahead + line);
                const Vec x = splat(entry->value);
                const float* center = tile + entry->slot * width;
#pragma GCC unroll 16
                for (int v = 0; v < N; ++v) sum[v] += x * at(center + v * LANES);
            }
#pragma GCC unroll 16
            for (int v = 0; v < N; ++v) at(out + v * LANES) += sum[v];
        }
    }
}

template <int N>
void read_rows(const float* tile, const HeadEntry* entries, const int64_t* row_begin, int64_t n_rows,
               float* scores, int64_t stride) {
    constexpr int64_t width = N * LANES;
    for (int64_t r = 0; r < n_rows; ++r) {
        Mask bits[N] = {};
        for (int64_t e = row_begin[r]; e < row_begin[r + 1]; ++e) {
            const float* ahead = tile + entries[e + kPrefetchAhead].slot * width;
#pragma GCC unroll 8
            for (int64_t line = 0; line < width; line += 16) __builtin_prefetch(ahead + line);
            const float* center = tile + entries[e].slot * width;
#pragma GCC unroll 16
            for (int v = 0; v < N; ++v) bits[v] |= *reinterpret_cast<const Mask*>(center + v * LANES);
        }
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) *reinterpret_cast<Mask*>(scores + r * stride + v * LANES) |= bits[v];
    }
}

// Entries in turns to several sums, where one would wait for itself.
template <int N>
constexpr int kTurns = N == 1 ? 4 : N == 2 ? 2 : 1;

// So many numbers, which are part of a vector or all of it: floats, or 16-bit numbers that become floats. (Each is written
// out, because GCC converts vectors of known types only, and needs twice as many steps for the longest.)
template <int L>
struct Floats;
template <>
struct Floats<4> {
    typedef float V __attribute__((vector_size(16), aligned(4), may_alias));
    typedef int32_t Whole __attribute__((vector_size(16)));
    typedef uint16_t Quantized __attribute__((vector_size(8), aligned(2), may_alias));
    static V load(const float* p) { return *reinterpret_cast<const V*>(p); }
    static V load(const uint16_t* p) {
#if defined(__AVX2__)
        const auto whole = Whole(_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
        const Whole whole = __builtin_convertvector(*reinterpret_cast<const Quantized*>(p), Whole);
#endif
        return __builtin_convertvector(whole, V);
    }
};
template <>
struct Floats<8> {
    typedef float V __attribute__((vector_size(32), aligned(4), may_alias));
    typedef int32_t Whole __attribute__((vector_size(32)));
    typedef uint16_t Quantized __attribute__((vector_size(16), aligned(2), may_alias));
    static V load(const float* p) { return *reinterpret_cast<const V*>(p); }
    static V load(const uint16_t* p) {
#if defined(__AVX2__)
        const auto whole = Whole(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
        const Whole whole = __builtin_convertvector(*reinterpret_cast<const Quantized*>(p), Whole);
#endif
        return __builtin_convertvector(whole, V);
    }
};
template <>
struct Floats<16> {
    typedef float V __attribute__((vector_size(64), aligned(4), may_alias));
    typedef int32_t Whole __attribute__((vector_size(64)));
    typedef uint16_t Quantized __attribute__((vector_size(32), aligned(2), may_alias));
    static V load(const float* p) { return *reinterpret_cast<const V*>(p); }
    static V load(const uint16_t* p) {
#if defined(__AVX512F__)
        const auto whole = Whole(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#else
        const Whole whole = __builtin_convertvector(*reinterpret_cast<const Quantized*>(p), Whole);
#endif
        return __builtin_convertvector(whole, V);
    }
};

// Adds the entries of a row from `begin` to `end`, and asks for the centers of the features from `ahead` on meanwhile. The
// tile has N vectors of L numbers per feature.
template <int L, int N, class T>
inline void add_stored(const T* tile, const StoredRow& row, int64_t begin, int64_t end, float scale,
                       const int32_t* ahead, typename Floats<L>::V (&sum)[kTurns<N>][N]) {
    using V = typename Floats<L>::V;
    constexpr int64_t width = N * L, line_size = 64 / sizeof(T);
    auto add = [&](int64_t e, int turn) {
        const T* const later = tile + ahead[e - begin] * width;
#pragma GCC unroll 16
        for (int64_t line = 0; line < width; line += line_size) __builtin_prefetch(later + line);
        const V x = row.values[e] * scale - V{};
        const T* const center = tile + row.features[e] * width;
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) sum[turn][v] += x * Floats<L>::load(center + v * L);
    };
    int64_t e = begin;
    for (; e + kTurns<N> <= end; e += kTurns<N>)
#pragma GCC unroll 4
        for (int turn = 0; turn < kTurns<N>; ++turn) add(e + turn, turn);
    for (; e < end; ++e) add(e, 0);
}

template <int L, int N, class T>
void stored_rows(const T* tile, const StoredRow* rows, int64_t n_rows, float scale, const float* start,
                 float* scores, int64_t stride) {
    using V = typename Floats<L>::V;
    auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };
    for (int64_t r = 0; r < n_rows; ++r) {
        const StoredRow row = rows[r];
        // With the last entries what the next row begins with is asked for, if that is as long.
        const StoredRow next = r + 1 < n_rows ? rows[r + 1] : row;
        const int64_t own_end = row.size > kStoredAhead ? row.size - kStoredAhead : 0;
        const int64_t next_end = own_end + least(row.size - own_end, next.size);
        float* const out = scores + r * stride;
        if constexpr (L < LANES) at(out) = at(start);
        V score[N];
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) score[v] = Floats<L>::load(start + v * L);
        for (int64_t begin = 0; begin < row.size;) {
            const int64_t end = least(row.size, begin + kChunk);
            V sum[kTurns<N>][N] = {};
            if (begin < own_end) {
                const int64_t until = least(end, own_end);
                add_stored<L, N>(tile, row, begin, until, scale, row.features + begin + kStoredAhead, sum);
                begin = until;
            }
            if (begin < least(end, next_end)) {
                const int64_t until = least(end, next_end);
                add_stored<L, N>(tile, row, begin, until, scale, next.features + (begin - own_end), sum);
                begin = until;
            }
            if (begin < end) add_stored<L, N>(tile, row, begin, end, scale, row.features + begin, sum);
            begin = end;
#pragma GCC unroll 4
            for (int turn = 1; turn < kTurns<N>; ++turn)
                for (int v = 0; v < N; ++v) sum[0][v] += sum[turn][v];
#pragma GCC unroll 16
            for (int v = 0; v < N; ++v) score[v] += sum[0][v];
        }
#pragma GCC unroll 16
        for (int v = 0; v < N; ++v) *reinterpret_cast<V*>(out + v * L) = score[v];
    }
}

template <int N, class T>
void pick_stored(int64_t width, const T* tile, const StoredRow* rows, int64_t n_rows, float scale,
                 const float* start, float* scores, int64_t stride) {
    constexpr int kQuarter = LANES > 4 ? 4 : LANES, kHalf = LANES > 8 ? 8 : LANES;
    if (width == kQuarter && kQuarter < LANES)
        stored_rows<kQuarter, 1>(tile, rows, n_rows, scale, start, scores, stride);
    else if (width == kHalf && kHalf < LANES)
        stored_rows<kHalf, 1>(tile, rows, n_rows, scale, start, scores, stride);
    else if (width == N * LANES)
        stored_rows<LANES, N>(tile, rows, n_rows, scale, start, scores, stride);
    else if constexpr (N > 1)
        pick_stored<N - 1>(width, tile, rows, n_rows, scale, start, scores, stride);
}

// tile_rows, or read_rows, for so many vectors.
template <int N, bool kAdd>
void pick_tile(int vectors, const float* tile, const HeadEntry* entries, const int64_t* row_begin,
               int64_t n_rows, float* scores, int64_t stride) {
    if (vectors == N) {
        if constexpr (kAdd)
            tile_rows<N>(tile, entries, row_begin, n_rows, scores, stride);
        else
            read_rows<N>(tile, entries, row_begin, n_rows, scores, stride);
    } else if constexpr (N > 1) {
        pick_tile<N - 1, kAdd>(vectors, tile, entries, row_begin, n_rows, scores, stride);
    }
}

inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
inline Vec smaller(Vec a, Vec b) { return a > b ? b : a; }

inline Top2 top2_of(const float* scores, int64_t n) {
    Vec best = at(scores), second = splat(-__builtin_inff());
    Mask where = {};
    for (int64_t j = LANES; j < n; j += LANES) {
        const Vec score = at(scores + j);
        const Mask wins = score > best;
        where = wins ? (Mask{} + int32_t(j)) : where;
        second = larger(second, smaller(score, best));
        best = larger(best, score);
    }
    Mask lane = {};
    for (int j = 0; j < LANES; ++j) lane[j] = j;
    where += lane;
    // The other half, the other quarter, ... of the lanes beside each one.
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2) {
        const Mask from = lane ^ half;
        const Vec other = __builtin_shuffle(best, from), other_second = __builtin_shuffle(second, from);
        const Mask other_where = __builtin_shuffle(where, from);
        second = larger(larger(second, other_second), smaller(best, other));
        where = other > best ? other_where : where;
        best = larger(best, other);
    }
    return {best[0], second[0], where[0]};
}

Top2 top2(const float* scores, int64_t n) { return top2_of(scores, n); }

void top2_of_rows(const float* scores, int64_t n, int64_t n_rows, Top2* tops) {
    for (int64_t r = 0; r < n_rows; ++r) tops[r] = top2_of(scores + r * n, n);
}

void best_of_rows(const float* scores, int64_t n, int64_t n_rows, Top2* tops) {
    Mask lane = {};
    for (int j = 0; j < LANES; ++j) lane[j] = j;
    for (int64_t r = 0; r < n_rows; ++r) {
        Vec best = at(scores + r * n);
        for (int64_t j = LANES; j < n; j += LANES) best = larger(best, at(scores + r * n + j));
#pragma GCC unroll 4
        for (int half = LANES / 2; half > 0; half /= 2) best = larger(best, __builtin_shuffle(best, lane ^ half));
        tops[r] = {best[0], 0, -1};
    }
}

// A bit for each lane that is set, which compilers do not make one instruction of by themselves.
inline uint32_t bits_of(Mask set) {
#if LANES == 16 && defined(__AVX512F__)
    return _mm512_test_epi32_mask(__m512i(set), __m512i(set));
#elif LANES == 8 && defined(__AVX2__)
    return uint32_t(_mm256_movemask_ps(__m256(set)));
#elif LANES == 4 && defined(__SSE2__)
    return uint32_t(_mm_movemask_ps(__m128(set)));
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; ++lane) bits |= uint32_t(set[lane] != 0) << lane;
    return bits;
#endif
}

inline uint32_t bits_at_least(Vec value, Vec least) {
#if LANES == 16 && defined(__AVX512F__)
    return _mm512_cmp_ps_mask(__m512(value), __m512(least), _CMP_GE_OQ);
#else
    return bits_of(value >= least);
#endif
}

// Appends base + lane for the lanes whose bit is set.
inline int64_t append(uint32_t bits, int64_t base, int32_t* out, int64_t count) {
    for (; bits; bits &= bits - 1) out[count++] = int32_t(base + __builtin_ctz(bits));
    return count;
}

int64_t relax_bounds(float* bounds, const float* limits, int64_t n, float shift, int32_t* below) {
    constexpr float kDown = 1.0f - 0x1p-22f;
    int64_t n_below = 0, i = 0;
    for (; i + LANES <= n; i += LANES) {
        const Vec bound = larger(at(bounds + i) - splat(shift), Vec{}) * splat(kDown);
        at(bounds + i) = bound;
        n_below = append(bits_at_least(at(limits + i), bound), i, below, n_below);
    }
    for (; i < n; ++i) {
        const float reduced = bounds[i] - shift;
        bounds[i] = (reduced > 0 ? reduced : 0) * kDown;
        if (bounds[i] <= limits[i]) below[n_below++] = int32_t(i);
    }
    return n_below;
}

typedef uint32_t Words __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

// 4 N vectors of the sums of each row: the lanes of one of them are the bytes of equal place in the words of a vector.
template <int N>
void byte_rows(const uint8_t* table, int64_t width, const HeadEntry* entries, const int64_t* row_begin,
               int64_t n_rows, float* sums, int64_t stride) {
    for (int64_t r = 0; r < n_rows; ++r) {
        Vec sum[4 * N] = {};
        for (const HeadEntry* entry = entries + row_begin[r]; entry < entries + row_begin[r + 1]; ++entry) {
            const uint8_t* const ahead = table + entry[kPrefetchAhead].slot * width;
#pragma GCC unroll 8
            for (int64_t line = 0; line < 4 * N * LANES; line += 64) __builtin_prefetch(ahead + line);
            const Vec x = splat(entry->value);
            const uint8_t* const bytes = table + entry->slot * width;
#pragma GCC unroll 4
            for (int v = 0; v < N; ++v) {
                const Words words = *reinterpret_cast<const Words*>(bytes + v * 4 * LANES);
#pragma GCC unroll 4
                for (int k = 0; k < 4; ++k) {
                    const Words some = k < 3 ? (words >> (8 * k)) & 255 : words >> 24;
                    sum[4 * v + k] += x * __builtin_convertvector(reinterpret_cast<const Mask&>(some), Vec);
                }
            }
        }
#pragma GCC unroll 16
        for (int v = 0; v < 4 * N; ++v) at(sums + r * stride + v * LANES) = sum[v];
    }
}

void sum_bytes(const uint8_t* table, int64_t width, const HeadEntry* entries, const int64_t* row_begin,
               int64_t n_rows, int64_t n, float* sums) {
    constexpr int64_t kStep = 4 * LANES;
    int64_t j = 0;
    for (; j + 2 * kStep <= n; j += 2 * kStep)
        byte_rows<2>(table + j, width, entries, row_begin, n_rows, sums + j, n);
    for (; j < n; j += kStep) byte_rows<1>(table + j, width, entries, row_begin, n_rows, sums + j, n);
}

int64_t collect_reaching(const float* sums, float factor, const float* offsets, int64_t n, float least,
                         int32_t* reaching, float* below) {
    int64_t n_reaching = 0;
    Vec most = splat(*below);
    for (int64_t i = 0; i < n; i += LANES) {
        const Vec bound = at(sums + i) * splat(factor) + at(offsets + i);
        const Mask under = bound < splat(least);
        most = larger(most, under ? bound : most);
        n_reaching = append(bits_of(~under), i, reaching, n_reaching);
    }
    for (int lane = 0; lane < LANES; ++lane) *below = most[lane] > *below ? most[lane] : *below;
    return n_reaching;
}

void weighted_sum(float* sums, const float* const* columns, const float* factors, int n_columns, int64_t n) {
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        Vec sum[4] = {};
        for (int c = 0; c < n_columns; ++c)
#pragma GCC unroll 4
            for (int v = 0; v < 4; ++v) sum[v] += splat(factors[c]) * at(columns[c] + i + v * LANES);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) at(sums + i + v * LANES) = sum[v];
    }
    for (; i < n; ++i) {
        float sum = 0;
        for (int c = 0; c < n_columns; ++c) sum += factors[c] * columns[c][i];
        sums[i] = sum;
    }
}

int64_t collect_above(const float* sums, const float* norms, const float* offsets, int64_t n, float slack,
                      float least, int32_t* above) {
    int64_t n_above = 0, i = 0;
    // Few are above: looks at several vectors at once before at each.
    constexpr int kTogether = 4;
    for (; i + kTogether * LANES <= n; i += kTogether * LANES) {
        uint32_t bits[kTogether], any = 0;
#pragma GCC unroll 4
        for (int v = 0; v < kTogether; ++v) {
            const int64_t j = i + v * LANES;
            bits[v] = bits_at_least(at(sums + j) + splat(slack) * at(norms + j) - at(offsets + j), splat(least));
            any |= bits[v];
        }
        if (!any) continue;
        for (int v = 0; v < kTogether; ++v) n_above = append(bits[v], i + v * LANES, above, n_above);
    }
    for (; i < n; ++i)
        if (sums[i] + slack * norms[i] - offsets[i] >= least) above[n_above++] = int32_t(i);
    return n_above;
}

// Of words of two 16-bit numbers: the sum of the two products.
inline Mask madd(Mask a, Mask b) {
#if defined(__AVX512BW__) && LANES == 16
    return Mask(_mm512_madd_epi16(__m512i(a), __m512i(b)));
#elif defined(__AVX2__) && LANES == 8
    return Mask(_mm256_madd_epi16(__m256i(a), __m256i(b)));
#elif defined(__SSE2__) && LANES == 4
    return Mask(_mm_madd_epi16(__m128i(a), __m128i(b)));
#else
    // The lower halves are shifted up and back, which keeps their signs.
    return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

// Several rows at a time share what is read of the table.
template <int kRows>
void pair_rows(const int16_t* rows, int64_t stride, int64_t n_pairs, const int16_t* table, int64_t lanes, int32_t* sums) {
    constexpr int kVectors = kProductLanes / LANES;
    typedef int32_t Word __attribute__((aligned(2), may_alias));
    for (int64_t from = 0; from < lanes; from += kProductLanes) {
        Mask sum[kRows][kVectors] = {};
        for (int64_t p = 0; p < n_pairs; ++p) {
            const int16_t* const of_pair = table + (p * lanes + from) * 2;
            Mask centers[kVectors];
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v)
                centers[v] = *reinterpret_cast<const Mask*>(of_pair + v * LANES * 2);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
                const Mask pair = *reinterpret_cast<const Word*>(rows + r * stride + p * 2) - Mask{};
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v) sum[r][v] += madd(pair, centers[v]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v)
                *reinterpret_cast<Mask*>(sums + r * lanes + from + v * LANES) = sum[r][v];
    }
}

void pair_products(const int16_t* rows, int64_t stride, int64_t n_rows, int64_t n_pairs, const int16_t* table,
                   int64_t lanes, int32_t* sums) {
    constexpr int kRows = LANES / 2;  // so that sums of eight vectors stay in registers
    int64_t r = 0;
    for (; r + kRows <= n_rows; r += kRows)
        pair_rows<kRows>(rows + r * stride, stride, n_pairs, table, lanes, sums + r * lanes);
    for (; r < n_rows; ++r) pair_rows<1>(rows + r * stride, stride, n_pairs, table, lanes, sums + r * lanes);
}

}  // namespace

extern const Kernels table;
const Kernels table = {LEVEL_NAME,
                       LANES,
                       TILE_VECTORS,
                       STORED_VECTORS,
                       pick_tile<TILE_VECTORS, true>,
                       pick_tile<TILE_VECTORS, false>,
                       pick_stored<STORED_VECTORS, float>,
                       pick_stored<STORED_VECTORS, uint16_t>,
                       top2,
                       top2_of_rows,
                       best_of_rows,
                       relax_bounds,
                       sum_bytes,
                       collect_reaching,
                       weighted_sum,
                       collect_above,
                       pair_products};

}  // namespace sparsecluster::LEVEL
