// Clusters by density (DBSCAN: Ester, Kriegel, Sander and Xu 1996).
#pragma once

#include <cstdint>
#include <vector>

#include "core/rows.hpp"
#include "neighbors/graphs.hpp"

namespace sparsecluster {

struct Density {
    std::vector<int32_t> labels;  // -1 for noise
    std::vector<uint8_t> core;
    bool graph_kept = true;       // whether one search was enough
};

// A row is core where the rows within `radius`, itself included, weigh at least `min_samples`. Clusters are connected
// core rows, numbered by their first row; a row that is not core belongs to the lowest numbered cluster that has a core
// row within the radius. Pairs are kept up to the memory limit; where they do not fit they are searched twice.
Density dbscan(const Rows& rows, double radius, double min_samples, const double* weights,
               const NeighborOptions& options);

}  // namespace sparsecluster
