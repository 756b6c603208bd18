#include "tree/lanes.hpp"

#include "core/clones.hpp"

namespace sparsecluster {

namespace {

constexpr int kAhead = 8;                           // entries whose lanes are asked for before they are needed
constexpr int64_t kNear = int64_t(1) << 18;         // bytes of a table that is close by anyway

template <class T, int Bytes>
using Vector __attribute__((vector_size(Bytes))) = T;

template <class T, int Bytes, int G>
struct LaneSums {
    static constexpr int kWidth = Bytes / int(sizeof(T));
    Vector<T, Bytes> parts[G] = {};

    [[gnu::always_inline]] void add(T value, const T* at) {
        for (int g = 0; g < G; ++g) {
            Vector<T, Bytes> center;
            __builtin_memcpy(&center, at + g * kWidth, Bytes);
            parts[g] += value * center;
        }
    }
    [[gnu::always_inline]] void write(const T* scales, const T* halves, T* out) const {
        for (int g = 0; g < G; ++g) {
            Vector<T, Bytes> scale, half;
            __builtin_memcpy(&scale, scales + g * kWidth, Bytes);
            __builtin_memcpy(&half, halves + g * kWidth, Bytes);
            const Vector<T, Bytes> score = parts[g] * scale - half;
            __builtin_memcpy(out + g * kWidth, &score, Bytes);
        }
    }
    [[gnu::always_inline]] void join(const LaneSums& other) {
        for (int g = 0; g < G; ++g) parts[g] += other.parts[g];
    }
};

// Two rows at a time, and in float32 two sums of each: none waits for the others.
template <bool Far, int Bytes, int G, class V, class T>
[[gnu::always_inline]] inline void products(const NodeBlock<V>& block, const LaneTable<T>& table, int from, T* out) {
    constexpr bool kTwo = sizeof(T) == 4;
    using Sum = LaneSums<T, Bytes, G>;
    const int lanes = table.lanes();
    const int32_t* const features = block.features;
    const V* const values = block.values;
    const T* const centers = table.column(0) + from;
    const T* const scales = table.scales.data() + from;
    const T* const halves = table.halves.data() + from;
    const int64_t last = block.begin[block.n];
    auto at = [&](int64_t e) __attribute__((always_inline)) { return centers + int64_t(features[e]) * lanes; };
    auto add = [&](Sum& even, Sum& odd, int64_t e) __attribute__((always_inline)) {
        even.add(T(values[e]), at(e));
        (kTwo ? odd : even).add(T(values[e + 1]), at(e + 1));
    };
    auto ask = [&](int64_t e) __attribute__((always_inline)) {
        if (Far && e + kAhead + 1 < last) __builtin_prefetch(at(e + kAhead)), __builtin_prefetch(at(e + kAhead + 1));
    };
    for (int64_t i = 0; i < block.n; i += 2) {
        Sum one, one_odd, other, other_odd;
        const bool both = i + 1 < block.n;
        int64_t a = block.begin[i], b = block.begin[i + 1];
        const int64_t end_a = b, end_b = both ? block.begin[i + 2] : b;
        for (; a + 2 <= end_a && b + 2 <= end_b; a += 2, b += 2) {
            ask(a), ask(b);
            add(one, one_odd, a);
            add(other, other_odd, b);
        }
        for (; a + 2 <= end_a; a += 2) add(one, one_odd, a);
        for (; b + 2 <= end_b; b += 2) add(other, other_odd, b);
        if (a < end_a) one.add(T(values[a]), at(a));
        if (b < end_b) other.add(T(values[b]), at(b));
        if (kTwo) one.join(one_odd), other.join(other_odd);
        one.write(scales, halves, out + i * lanes + from);
        if (both) other.write(scales, halves, out + (i + 1) * lanes + from);
    }
}

// Lanes in parts whose sums stay in registers: of two rows, two sums each.
template <bool Far, int Bytes, class V, class T>
[[gnu::always_inline]] inline void scores_of(const NodeBlock<V>& block, const LaneTable<T>& table, T* out) {
    constexpr int kWidth = Bytes / int(sizeof(T));
    const int lanes = table.lanes();
    if (lanes * int(sizeof(T)) == 16) return products<Far, 16, 1>(block, table, 0, out);
    if (lanes * int(sizeof(T)) == 32 && Bytes >= 32) return products<Far, 32, 1>(block, table, 0, out);
    int from = 0;
    if constexpr (Bytes == 64) {
        for (; lanes - from >= 4 * kWidth; from += 4 * kWidth) products<Far, Bytes, 4>(block, table, from, out);
        if (lanes - from >= 3 * kWidth) products<Far, Bytes, 3>(block, table, from, out), from += 3 * kWidth;
    }
    for (; lanes - from >= 2 * kWidth; from += 2 * kWidth) products<Far, Bytes, 2>(block, table, from, out);
    if (lanes - from >= kWidth) products<Far, Bytes, 1>(block, table, from, out);
}

template <int Bytes, class V, class T>
[[gnu::always_inline]] inline void scores_near_or_far(const NodeBlock<V>& block, const LaneTable<T>& table, T* out) {
    if (table.size() * int64_t(sizeof(T)) > kNear)
        scores_of<true, Bytes>(block, table, out);
    else
        scores_of<false, Bytes>(block, table, out);
}

template <class V, class T>
[[gnu::always_inline]] inline void add_rows(const NodeBlock<V>& block, const int32_t* labels, const double* times,
                                            LaneTable<T>& table) {
    const int64_t lanes = table.lanes(), last = block.begin[block.n];
    const int32_t* const features = block.features;
    const V* const values = block.values;
    const bool far = table.size() * int64_t(sizeof(T)) > kNear;
    for (int64_t i = 0; i < block.n; ++i) {
        T* const sums = table.column(0) + labels[i];
        const T weight = times ? T(times[i]) : T(1);
        const int64_t begin = block.begin[i], end = block.begin[i + 1];
        if (far)
            for (int64_t e = end; e < std::min(last, end + (end - begin)); ++e)
                __builtin_prefetch(table.column(0) + features[e] * lanes + labels[i + 1 < block.n ? i + 1 : i], 1);
        for (int64_t e = begin; e < end; ++e) sums[features[e] * lanes] += weight * T(values[e]);
    }
}

// Squares of a few columns are added up in T, then in double.
template <class T>
[[gnu::always_inline]] inline void norms2_of(const LaneTable<T>& table, double* out) {
    constexpr int64_t kColumns = 64;
    constexpr int kWidth = int(16 / sizeof(T));
    const int lanes = table.lanes();
    std::fill_n(out, lanes, 0.0);
    for (int64_t first = 0; first < table.n_columns(); first += kColumns) {
        const int64_t end = std::min(table.n_columns(), first + kColumns);
        for (int from = 0; from < lanes; from += kWidth) {
            T sums[kWidth] = {};
            for (int64_t c = first; c < end; ++c) {
                const T* const at = table.column(c) + from;
                for (int lane = 0; lane < kWidth; ++lane) sums[lane] += at[lane] * at[lane];
            }
            for (int lane = 0; lane < kWidth; ++lane) out[from + lane] += double(sums[lane]);
        }
    }
}

template <class T>
[[gnu::always_inline]] inline void join_columns(const LaneTable<T>& table, int64_t first, int64_t end,
                                                LaneTable<T>& into) {
    const T* const from = table.column(first);
    T* const to = into.column(first);
    const int64_t n = (end - first) * table.lanes();
    for (int64_t at = 0; at < n; ++at) to[at] += from[at];
}

// Products of a number per row and one per lane: the difference of two lanes has the order of the former.
template <class T>
[[gnu::always_inline]] inline void jitter(int64_t first, int64_t n, int lanes, T most, T* scores) {
    for (int64_t i = 0; i < n; ++i) {
        uint32_t mixed = uint32_t(first + i) * 0x9E3779B1u;
        mixed = (mixed ^ (mixed >> 15)) * 0x2C1B3C6Du;
        mixed = (mixed ^ (mixed >> 12)) * 0x297A2D39u;
        const T step = most * T(int32_t(mixed) >> 8) * T(0x1p-23) / T(lanes);
        T* const row = scores + i * lanes;
        for (int c = 0; c < lanes; ++c) row[c] += step * T(c + 1);
    }
}

}  // namespace

void lane_scores(const NodeBlock<float>& block, const LaneTable<float>& table, float* out) {
    WITH_WIDEST_VECTORS(scores_near_or_far<kBytes>(block, table, out));
}
void lane_scores(const NodeBlock<double>& block, const LaneTable<float>& table, float* out) {
    WITH_WIDEST_VECTORS(scores_near_or_far<kBytes>(block, table, out));
}
void lane_scores(const NodeBlock<float>& block, const LaneTable<double>& table, double* out) {
    WITH_WIDEST_VECTORS(scores_near_or_far<kBytes>(block, table, out));
}
void lane_scores(const NodeBlock<double>& block, const LaneTable<double>& table, double* out) {
    WITH_WIDEST_VECTORS(scores_near_or_far<kBytes>(block, table, out));
}

FOR_EACH_PROCESSOR
void lane_add(const NodeBlock<float>& block, const int32_t* labels, const double* times, LaneTable<float>& table) {
    add_rows(block, labels, times, table);
}
FOR_EACH_PROCESSOR
void lane_add(const NodeBlock<double>& block, const int32_t* labels, const double* times, LaneTable<float>& table) {
    add_rows(block, labels, times, table);
}
FOR_EACH_PROCESSOR
void lane_add(const NodeBlock<float>& block, const int32_t* labels, const double* times, LaneTable<double>& table) {
    add_rows(block, labels, times, table);
}
FOR_EACH_PROCESSOR
void lane_add(const NodeBlock<double>& block, const int32_t* labels, const double* times, LaneTable<double>& table) {
    add_rows(block, labels, times, table);
}

FOR_EACH_PROCESSOR
void lane_norms2(const LaneTable<float>& table, double* out) { norms2_of(table, out); }
FOR_EACH_PROCESSOR
void lane_norms2(const LaneTable<double>& table, double* out) { norms2_of(table, out); }

FOR_EACH_PROCESSOR
void lane_join(const LaneTable<float>& table, int64_t first, int64_t end, LaneTable<float>& into) {
    join_columns(table, first, end, into);
}
FOR_EACH_PROCESSOR
void lane_join(const LaneTable<double>& table, int64_t first, int64_t end, LaneTable<double>& into) {
    join_columns(table, first, end, into);
}

FOR_EACH_PROCESSOR
void lane_jitter(int64_t first, int64_t n, int lanes, float most, float* scores) {
    jitter(first, n, lanes, most, scores);
}
FOR_EACH_PROCESSOR
void lane_jitter(int64_t first, int64_t n, int lanes, double most, double* scores) {
    jitter(first, n, lanes, most, scores);
}

}  // namespace sparsecluster
