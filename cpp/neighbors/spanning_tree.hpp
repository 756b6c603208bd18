// The minimum spanning tree of all rows by mutual reachability (Campello, Moulavi and Sander 2013), which with core
// distances of zero is that of the distances themselves: single linkage.
#pragma once

#include <cstdint>
#include <vector>

#include "core/rows.hpp"
#include "neighbors/graphs.hpp"

namespace sparsecluster {

// Edges by ascending weight.
struct SpanningTree {
    std::vector<int32_t> from, to;  // from < to
    std::vector<double> weights;
    int64_t n_rounds = 0;
};

// Weights are max(distance, core distance of either row); equal ones are ordered by distance, then by the rows. `near`
// has the k nearest rows of each one, as nearest_rows() finds them: where the search begins.
SpanningTree spanning_tree(const Rows& rows, const Nearest& near, int64_t k, const double* core_distances,
                           const NeighborOptions& options);

}  // namespace sparsecluster
