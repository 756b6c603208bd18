// An assignment within size bounds while it is worked out: labels, and a price per cluster. Where every row is in the
// cluster of its lowest cost + price, clusters of positive price are full, and those of negative price are at the
// least size, no other assignment within the bounds costs less (the duality of the transportation problem).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sizes/candidates.hpp"
#include "sizes/cost_table.hpp"
#include "sizes/size_bounds.hpp"

namespace sparsecluster {

struct Plan {
    SizeBounds bounds;
    int32_t* labels;              // per row
    std::vector<double> prices;   // per cluster
    std::vector<int64_t> sizes;   // per cluster

    // The size that the price of a cluster asks for, if its rows have the labels that they prefer.
    int64_t wanted(int64_t k) const {
        if (prices[k] > 0) return bounds.most;
        if (prices[k] < 0) return bounds.least;
        return std::clamp(sizes[k], bounds.least, bounds.most);
    }
};

// Finds prices, and the labels that rows prefer under them, that come near the bounds: each pass sets the prices of all
// clusters with too many rows, or of all with too few, to where each has as many as it should, if the others stayed.
void approach(Candidates& candidates, Plan& plan);

// Makes the labels an assignment of lowest cost within the bounds, from prices and the labels that rows prefer under
// them: one row after the other goes along a shortest path (successive shortest paths; Ahuja, Magnanti and Orlin 1993,
// section 9.7) of the graph whose nodes are the clusters.
void settle_sizes(Candidates& candidates, Plan& plan);

// The same from prices alone, where all costs are in a table: those of a sample come first where many rows would have to
// move.
void settle_table(const CostView& table, Plan& plan, int n_threads);

}  // namespace sparsecluster
