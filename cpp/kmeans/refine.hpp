// First variation: moves single rows to the cluster where they lower the cost most, counting how both centers
// follow (Hartigan 1975; Dhillon, Guan and Kogan 2002 for cosines). Gets out of optima where Lloyd is stuck.
#pragma once

#include <cstdint>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "kmeans/assign.hpp"

namespace sparsecluster {

// One pass over all rows. The centers must be the means (with `cosine` their directions) of the labels; both
// change, and each move lowers the cost. Gives the number of moves.
int64_t first_variation(const Rows& rows, const double* weights, AssignOptions options, Centers& centers,
                        int32_t* labels);

}  // namespace sparsecluster
