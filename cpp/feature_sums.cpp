// Compiled without contraction, as exact.cpp: the products come to the same bits at every width of vectors.
#include "feature_sums.hpp"

#include "clones.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kLine = 8;  // doubles in a line of the cache

// So many sums stay in registers while all rows are added; gives where to go on.
template <int64_t kTile>
inline __attribute__((always_inline)) int64_t add_tiles(const double* const* rows, const double* values,
                                                        int64_t n_rows, int64_t k, int64_t n, double* sums) {
    for (; k + kTile <= n; k += kTile) {
        double tile[kTile];
        for (int64_t j = 0; j < kTile; ++j) tile[j] = sums[k + j];
        for (int64_t r = 0; r < n_rows; ++r) {
            for (int64_t j = 0; j < kTile; j += kLine) __builtin_prefetch(rows[r + FeatureSums::kAhead] + k + j);
            for (int64_t j = 0; j < kTile; ++j) tile[j] += values[r] * rows[r][k + j];
        }
        for (int64_t j = 0; j < kTile; ++j) sums[k + j] = tile[j];
    }
    return k;
}

}  // namespace

FOR_EACH_PROCESSOR
void FeatureSums::add_rows(const double* const* rows, const double* values, int64_t n_rows, int64_t n,
                           double* sums) {
    int64_t k = add_tiles<32>(rows, values, n_rows, 0, n, sums);
    k = add_tiles<8>(rows, values, n_rows, k, n, sums);
    add_tiles<4>(rows, values, n_rows, k, n, sums);
}

}  // namespace sparsecluster
