// For each row the nearest cluster beside its own, by the mean squared distance to all rows of a cluster: |x - m|^2 plus
// the cluster's spread around its mean m. This is what silhouettes need, without a distance between two rows.
#pragma once

#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "kmeans/feature_sums.hpp"

namespace sparsecluster {

class NearestCluster {
public:
    // `spread` has a number per center that is added to its squared distances; an infinite one leaves the center out.
    // Both must outlive this object.
    NearestCluster(const Rows& rows, const Centers& centers, const double* spread);

    // Rows begin .. end, multiplied by `scales` (may be null). other[i - begin] is the least squared distance plus spread
    // to a center beside that of labels[i], and nearest[i - begin] that center, the first of equally near ones; -1 and
    // infinity where there is none. The result of a row does not depend on threads or ranges.
    void find(int64_t begin, int64_t end, const double* scales, const int32_t* labels, double* other,
              int32_t* nearest, int n_threads) const;

private:
    // Below this size centers are a table, whatever the memory limit: the order of sums must not depend on it.
    static constexpr int64_t kTableBytes = int64_t(32) << 20;

    const Rows& rows_;
    const Centers& centers_;
    const double* spread_;
    FeatureSums sums_;
};

}  // namespace sparsecluster
