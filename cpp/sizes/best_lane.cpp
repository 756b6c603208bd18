#include "sizes/best_lane.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/clones.hpp"

namespace sparsecluster {

namespace {

constexpr int kManyVectors = 4;  // of a row, from which on wide ones are faster than narrow ones

template <class T>
[[gnu::always_inline]] inline void one_by_one(const T* row, int stride, const T* prices, int32_t* label, T* best) {
    int at = 0;
    T largest = row[0] - prices[0];
    for (int c = 1; c < stride; ++c)
        if (const T here = row[c] - prices[c]; here > largest) largest = here, at = c;
    *label = at;
    *best = largest;
}

template <class T, int Width>
struct Lanes {
    typedef T Vector __attribute__((vector_size(Width * sizeof(T))));
};

// The largest or lowest of all lanes, half by half.
template <bool Largest, class T, int Width>
[[gnu::always_inline]] inline T reduced(const typename Lanes<T, Width>::Vector& all) {
    if constexpr (Width == 2) {
        return (Largest ? all[0] > all[1] : all[0] < all[1]) ? all[0] : all[1];
    } else {
        using Half = typename Lanes<T, Width / 2>::Vector;
        Half low, high;
        __builtin_memcpy(&low, &all, sizeof(Half));
        __builtin_memcpy(&high, reinterpret_cast<const char*>(&all) + sizeof(Half), sizeof(Half));
        const Half better = (Largest ? low > high : low < high) ? low : high;
        return reduced<Largest, T, Width / 2>(better);
    }
}

// Lane by lane, then the lowest of the lanes that have the largest.
template <class T, int Width>
[[gnu::always_inline]] inline void side_by_side(const T* row, int stride, const T* prices, int32_t* label, T* best) {
    using Whole = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    using Values = typename Lanes<T, Width>::Vector;
    using Numbers = typename Lanes<Whole, Width>::Vector;
    Values largest, price;
    Numbers lane, at{};
    for (int c = 0; c < Width; ++c) lane[c] = c;
    __builtin_memcpy(&largest, row, sizeof(Values));
    __builtin_memcpy(&price, prices, sizeof(Values));
    largest -= price;
    for (int from = Width; from < stride; from += Width) {
        Values here;
        __builtin_memcpy(&here, row + from, sizeof(Values));
        __builtin_memcpy(&price, prices + from, sizeof(Values));
        here -= price;
        const Numbers better = here > largest;
        largest = better ? here : largest;
        at = better ? Numbers{} + Whole(from) : at;
    }
    const T most = reduced<true, T, Width>(largest);
    const Numbers equal = largest == Values{} + most;
    at = equal ? at + lane : Numbers{} + Whole(INT32_MAX);
    const Whole found = reduced<false, Whole, Width>(at);
    *label = found < stride ? int32_t(found) : 0;  // of what is not a number none is the largest
    *best = most;
}

// The lanes of two vectors in turns: of their lower or their upper halves.
template <bool Upper, class Vector, size_t... I>
[[gnu::always_inline]] inline void in_turns(const Vector& one, const Vector& other, std::index_sequence<I...>, Vector& out) {
    constexpr size_t kWidth = sizeof...(I);
    out = __builtin_shufflevector(one, other, int((Upper ? kWidth / 2 : 0) + I / 2 + (I % 2 ? kWidth : 0))...);
}

// As many rows as a vector has lanes: a vector per cluster, so that each row is in a lane of its own and no lanes are to be put
// together. Taking all rows in turns rotates the bits of a place, so that after as many times as a column has bits rows are columns.
template <class T, int Width>
[[gnu::always_inline]] inline void rows_in_lanes(const T* const* rows, int stride, const T* prices, int32_t* labels, T* best) {
    using Whole = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    using Values = typename Lanes<T, Width>::Vector;
    using Numbers = typename Lanes<Whole, Width>::Vector;
    constexpr auto kAll = std::make_index_sequence<Width>();
    Values largest{};
    Numbers at{};
    for (int from = 0; from < stride; from += Width) {
        Values lanes[Width];
#pragma GCC unroll 16
        for (int r = 0; r < Width; ++r) __builtin_memcpy(&lanes[r], rows[r] + from, sizeof(Values));
#pragma GCC unroll 4
        for (int turn = 1; turn < Width; turn *= 2) {
            Values before[Width];
#pragma GCC unroll 16
            for (int r = 0; r < Width; ++r) before[r] = lanes[r];
#pragma GCC unroll 8
            for (int r = 0; r < Width / 2; ++r) {
                in_turns<false>(before[r], before[r + Width / 2], kAll, lanes[2 * r]);
                in_turns<true>(before[r], before[r + Width / 2], kAll, lanes[2 * r + 1]);
            }
        }
        if (from == 0) largest = lanes[0] - prices[0];
#pragma GCC unroll 16
        for (int c = 0; c < Width; ++c) {
            const Values here = lanes[c] - prices[from + c];
            const Numbers better = here > largest;
            largest = better ? here : largest;
            at = better ? Numbers{} + Whole(from + c) : at;
        }
    }
    __builtin_memcpy(best, &largest, sizeof(Values));
    for (int r = 0; r < Width; ++r) labels[r] = int32_t(at[r]);
}

template <int Bytes, class T>
[[gnu::always_inline]] inline void all_rows(const T* scores, const int64_t* rows, int64_t n, int stride,
                                            const T* prices, int32_t* labels, T* best) {
    // To put lanes together takes longer the wider they are.
    constexpr int kWide = Bytes / int(sizeof(T)), kNarrow = int(16 / sizeof(T));
    int64_t first = 0;
    auto row = [&](int64_t j) __attribute__((always_inline)) { return scores + (rows ? rows[j] : j) * stride; };
    auto each = [&](auto work) __attribute__((always_inline)) {
        for (int64_t j = first; j < n; ++j) work(row(j), j);
    };
    auto together = [&]<int Width>(std::integral_constant<int, Width>) __attribute__((always_inline)) {
        if (stride % Width != 0 || stride >= kManyVectors * kWide) return;
        for (; first + Width <= n; first += Width) {
            const T* at[Width];
            for (int r = 0; r < Width; ++r) at[r] = row(first + r);
            rows_in_lanes<T, Width>(at, stride, prices, labels + first, best + first);
        }
    };
    together(std::integral_constant<int, kWide>());
    if constexpr (kWide > 2 * kNarrow) together(std::integral_constant<int, kWide / 2>());
    if constexpr (kWide > kNarrow) together(std::integral_constant<int, kNarrow>());
    if (stride % kWide == 0 && stride >= kManyVectors * kWide)
        each([&](const T* row, int64_t j) __attribute__((always_inline)) {
            side_by_side<T, kWide>(row, stride, prices, labels + j, best + j);
        });
    else if (stride % kNarrow == 0)
        each([&](const T* row, int64_t j) __attribute__((always_inline)) {
            side_by_side<T, kNarrow>(row, stride, prices, labels + j, best + j);
        });
    else
        each([&](const T* row, int64_t j) __attribute__((always_inline)) {
            one_by_one(row, stride, prices, labels + j, best + j);
        });
}

}  // namespace

void best_lanes(const float* scores, const int64_t* rows, int64_t n, int stride, const float* prices, int32_t* labels,
                float* best) {
    WITH_WIDEST_VECTORS(all_rows<kBytes>(scores, rows, n, stride, prices, labels, best));
}
void best_lanes(const double* scores, const int64_t* rows, int64_t n, int stride, const double* prices, int32_t* labels,
                double* best) {
    WITH_WIDEST_VECTORS(all_rows<kBytes>(scores, rows, n, stride, prices, labels, best));
}

}  // namespace sparsecluster
