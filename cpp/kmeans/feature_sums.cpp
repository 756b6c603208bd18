// Compiled without contraction, as exact.cpp: the products come to the same bits at every width of vectors.
#include "kmeans/feature_sums.hpp"

#include "core/clones.hpp"

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
    const int64_t k = add_tiles<32>(rows, values, n_rows, 0, n, sums);
    switch ((n - k) / 4) {
        case 1: add_tiles<4>(rows, values, n_rows, k, n, sums); break;
        case 2: add_tiles<8>(rows, values, n_rows, k, n, sums); break;
        case 3: add_tiles<12>(rows, values, n_rows, k, n, sums); break;
        case 4: add_tiles<16>(rows, values, n_rows, k, n, sums); break;
        case 5: add_tiles<20>(rows, values, n_rows, k, n, sums); break;
        case 6: add_tiles<24>(rows, values, n_rows, k, n, sums); break;
        case 7: add_tiles<28>(rows, values, n_rows, k, n, sums); break;
    }
}

void FeatureSums::widen(int64_t n_features) {
    const int64_t bytes = n_features * padded(n_clusters_) * int64_t(sizeof(double));
    if (as_table_ && bytes <= table_limit_) {
        table_.resize(n_features * padded(n_clusters_), 0.0);
        n_features_ = n_features;
        return;
    }
    place_.resize(n_features, kNowhere);
    const int64_t before = n_features_;
    n_features_ = n_features;
    if (!as_table_) return;
    // The table has become too large for one.
    const std::vector<double> table = std::move(table_);
    table_ = {};
    as_table_ = false;
    for (int64_t f = 0; f < before; ++f)
        for (int64_t k = 0; k < n_clusters_; ++k)
            if (const double sum = table[f * padded(n_clusters_) + k]; sum != 0) set(f, int32_t(k), sum);
}

}  // namespace sparsecluster
