#include "tree/lanes.hpp"

#include "core/clones.hpp"

namespace sparsecluster {

namespace {

typedef double Two __attribute__((vector_size(16)));
typedef double Four __attribute__((vector_size(32)));
typedef double Eight __attribute__((vector_size(64)));

constexpr int kAhead = 8;  // entries whose lanes are asked for before they are needed

template <class Vector, int G>
[[gnu::always_inline]] inline void products(const RowBlock& block, const double* table, int lanes, int from,
                                            const double* half, double* out) {
    constexpr int kWidth = int(sizeof(Vector) / sizeof(double));
    for (int64_t i = 0; i < block.n; ++i) {
        Vector sums[G] = {};
        const int64_t end = block.begin[i + 1];
        for (int64_t e = block.begin[i]; e < end; ++e) {
            // The entries of the next row follow: reading a little past this one's is no fault within the block.
            if (e + kAhead < block.begin[block.n])
                __builtin_prefetch(table + int64_t(block.features[e + kAhead]) * lanes + from);
            const double value = block.values[e];
            const double* const at = table + int64_t(block.features[e]) * lanes + from;
            for (int g = 0; g < G; ++g) {
                Vector center;
                __builtin_memcpy(&center, at + g * kWidth, sizeof(Vector));
                sums[g] += value * center;
            }
        }
        for (int g = 0; g < G; ++g) {
            Vector less;
            __builtin_memcpy(&less, half + from + g * kWidth, sizeof(Vector));
            sums[g] -= less;
            __builtin_memcpy(out + i * lanes + from + g * kWidth, &sums[g], sizeof(Vector));
        }
    }
}

}  // namespace

FOR_EACH_PROCESSOR
void lane_scores(const RowBlock& block, const double* table, int lanes, const double* half, double* out) {
    if (lanes == 2) return products<Two, 1>(block, table, lanes, 0, half, out);
    if (lanes == 4) return products<Four, 1>(block, table, lanes, 0, half, out);
    int from = 0;
    for (; lanes - from >= 32; from += 32) products<Eight, 4>(block, table, lanes, from, half, out);
    if (lanes - from == 24) products<Eight, 3>(block, table, lanes, from, half, out);
    if (lanes - from == 16) products<Eight, 2>(block, table, lanes, from, half, out);
    if (lanes - from == 8) products<Eight, 1>(block, table, lanes, from, half, out);
}

FOR_EACH_PROCESSOR
void lane_norms(const double* table, int64_t n_columns, int lanes, double* norms) {
    for (int64_t c = 0; c < n_columns; ++c)
        for (int lane = 0; lane < lanes; ++lane) norms[lane] += table[c * lanes + lane] * table[c * lanes + lane];
}

}  // namespace sparsecluster
