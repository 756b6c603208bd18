// Rows of a node that its k-means starts from.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.hpp"
#include "tree/node_points.hpp"
#include "tree/quantized_rows.hpp"

namespace sparsecluster {

// Keeps its memory from node to node.
template <class V>
class NodeSeeds {
public:
    // So many rows, or as many as there are distinct ones; by k-means++ among some of the rows, or at random. With
    // `all` as many as asked for, whatever they are. Distances are those of the quantized rows where there are any.
    std::vector<int64_t> draw(const NodePoints<V>& points, const QuantizedRows* quantized, int n_seeds, bool plus_plus,
                              bool all, SeededRandom& random);

private:
    std::vector<int64_t> by_distance(const NodePoints<V>& points, const QuantizedRows* quantized, int n_seeds,
                                     const std::vector<int64_t>& among, SeededRandom& random);

    std::vector<double> spread_;  // columns: one row, while others are compared with it
};

}  // namespace sparsecluster
