// For each row the nearest cluster beside its own, by the mean squared distance to all rows of a cluster: |x - m|^2 plus
// the cluster's spread around its mean m. This is what silhouettes need, without a distance between two rows.
#pragma once

#include <cstdint>

#include "core/centers.hpp"
#include "core/exact.hpp"
#include "core/rows.hpp"
#include "index/center_index.hpp"

namespace sparsecluster {

// The squared distance, in float64, by which clusters are told apart that float32 leaves in doubt.
template <class V, class I>
double deciding_distance2(const Row<V, I>& row, double norm2, const Center& center, double scale = 1.0) {
    const double norms = scale * scale * norm2 + center.norm2;
    const double expanded = norms - 2 * scale * dot(row, center);
    const bool lost = expanded < 0x1p-10 * norms;
    return lost ? direct_distance2(row, as_row(center), scale) : expanded;
}

class NearestCluster {
public:
    // `spread` has a number per center that is added to its squared distances; an infinite one leaves the center out.
    // Rows, centers and spread must outlive this object. SIMD rows of centers take at most `head_limit` bytes.
    NearestCluster(const Rows& rows, const Centers& centers, const double* spread, int64_t head_limit, int n_threads);

    // Rows begin .. end, multiplied by `scales` (may be null). nearest[i - begin] is the center beside that of labels[i]
    // of the least squared distance plus spread, the first of equal ones; -1 where there is none.
    void find(int64_t begin, int64_t end, const double* scales, const int32_t* labels, int32_t* nearest,
              int n_threads) const;

private:
    const Rows& rows_;
    const Centers& centers_;
    const double* spread_;
    CenterIndex index_;
};

}  // namespace sparsecluster
