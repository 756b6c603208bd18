#include "tree/lanes.hpp"

#include "core/clones.hpp"

namespace sparsecluster {

namespace {

typedef double Two __attribute__((vector_size(16)));
typedef double Four __attribute__((vector_size(32)));
typedef double Eight __attribute__((vector_size(64)));

constexpr int kAhead = 8;  // entries whose lanes are asked for before they are needed

template <class Vector, int G>
struct Sums {
    static constexpr int kWidth = int(sizeof(Vector) / sizeof(double));
    Vector parts[G] = {};

    [[gnu::always_inline]] void add(double value, const double* at) {
        for (int g = 0; g < G; ++g) {
            Vector center;
            __builtin_memcpy(&center, at + g * kWidth, sizeof(Vector));
            parts[g] += value * center;
        }
    }
    [[gnu::always_inline]] void write(const LaneScale& scale, int from, double* out) const {
        for (int g = 0; g < G; ++g) {
            Vector factor, half;
            __builtin_memcpy(&factor, scale.factors.data() + from + g * kWidth, sizeof(Vector));
            __builtin_memcpy(&half, scale.halves.data() + from + g * kWidth, sizeof(Vector));
            const Vector score = parts[g] * factor - half;
            __builtin_memcpy(out + from + g * kWidth, &score, sizeof(Vector));
        }
    }
};

// Two rows at a time: the sums of one do not wait for those of the other.
template <class Vector, int G>
[[gnu::always_inline]] inline void products(const NodeBlock& block, const double* table, int lanes, int from,
                                            const LaneScale& scale, double* out) {
    const int32_t* const features = block.features;
    const double* const values = block.values;
    const int64_t last = block.begin[block.n];
    auto at = [&](int64_t e) { return table + int64_t(features[e]) * lanes + from; };
    for (int64_t i = 0; i < block.n; i += 2) {
        Sums<Vector, G> one, other;
        const bool both = i + 1 < block.n;
        int64_t a = block.begin[i], b = block.begin[i + 1];
        const int64_t end_a = b, end_b = both ? block.begin[i + 2] : b;
        for (; a < end_a && b < end_b; ++a, ++b) {
            if (b + kAhead < last) __builtin_prefetch(at(a + kAhead)), __builtin_prefetch(at(b + kAhead));
            one.add(values[a], at(a));
            other.add(values[b], at(b));
        }
        for (; a < end_a; ++a) one.add(values[a], at(a));
        for (; b < end_b; ++b) other.add(values[b], at(b));
        one.write(scale, from, out + i * lanes);
        if (both) other.write(scale, from, out + (i + 1) * lanes);
    }
}

}  // namespace

FOR_EACH_PROCESSOR
void lane_scores(const NodeBlock& block, const double* table, int lanes, const LaneScale& scale, double* out) {
    if (lanes == 2) return products<Two, 1>(block, table, lanes, 0, scale, out);
    if (lanes == 4) return products<Four, 1>(block, table, lanes, 0, scale, out);
    int from = 0;
    for (; lanes - from >= 32; from += 32) products<Eight, 4>(block, table, lanes, from, scale, out);
    if (lanes - from == 24) products<Eight, 3>(block, table, lanes, from, scale, out);
    if (lanes - from == 16) products<Eight, 2>(block, table, lanes, from, scale, out);
    if (lanes - from == 8) products<Eight, 1>(block, table, lanes, from, scale, out);
}

FOR_EACH_PROCESSOR
void lane_divide(double* table, int64_t n_columns, int lanes, const double* divisors) {
    for (int64_t c = 0; c < n_columns; ++c)
        for (int lane = 0; lane < lanes; ++lane) table[c * lanes + lane] /= divisors[lane];
}

FOR_EACH_PROCESSOR
void lane_norms(const double* table, int64_t n_columns, int lanes, double* norms) {
    for (int64_t c = 0; c < n_columns; ++c)
        for (int lane = 0; lane < lanes; ++lane) norms[lane] += table[c * lanes + lane] * table[c * lanes + lane];
}

}  // namespace sparsecluster
