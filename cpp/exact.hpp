// Float64 arithmetic in a fixed order: what the float32 kernels leave in doubt is decided here, so every
// algorithm, thread count and SIMD level gives the same labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "centers.hpp"
#include "csr.hpp"

namespace sparsecluster {

// x . c, the common features in ascending order. Searches where the center is much longer than the row.
template <class V, class I>
double dot(const Row<V, I>& row, const Center& center) {
    const int32_t* at = center.features.data();
    const int32_t* const begin = at;
    const int32_t* const end = at + center.size();
    const bool search = center.size() > 16 * row.size;
    double sum = 0;
    for (int64_t e = 0; e < row.size && at < end; ++e) {
        const auto feature = int32_t(row.features[e]);
        if (search)
            at = std::lower_bound(at, end, feature);
        else
            while (at < end && *at < feature) ++at;
        if (at < end && *at == feature) sum += double(row.values[e]) * center.values[at - begin];
    }
    return sum;
}

// The nearest of the candidates (ascending indices): by expanded float64 distances where these differ by
// more than their rounding, else by the difference itself, feature by feature. Equal distances, up to a
// relative 1e-12, go to the lowest index.
template <class V, class I>
int32_t settle(const Row<V, I>& row, double row_norm2, const Centers& centers,
               std::vector<int32_t>& candidates);

// Squared distance of each listed row to its own center, exact to rounding and never negative.
// `ids` may be null for all rows; out[i] belongs to ids[i].
void own_distances(const Rows& rows, const Centers& centers, const int32_t* labels, const int64_t* ids,
                   int64_t n_ids, double* out, int n_threads);

// Distances (not squared) of all rows to all centers; Out is float or double, n_rows x n_centers.
template <class Out>
void all_distances(const Rows& rows, const Centers& centers, Out* out, int n_threads);

}  // namespace sparsecluster
