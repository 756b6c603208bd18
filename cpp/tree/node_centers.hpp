// The centers of the clusters of a node and what they cost, in float64, each summed in the order of its rows.
#pragma once

#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/huge.hpp"
#include "tree/column_marks.hpp"
#include "tree/node_points.hpp"

namespace sparsecluster {

// Keeps its memory from node to node.
template <class V>
class NodeCenters {
public:
    // Of all clusters, in the columns of the node. A cluster whose rows add up to nothing keeps that sum.
    void find(const NodePoints<V>& points, const std::vector<int32_t>& labels, int k, bool keep_sums);
    // Per column of the matrix: the sums that were kept, added up cluster by cluster.
    std::vector<double> total(const NodePoints<V>& points) const;
    // Per cluster, where centers are those of these labels and the sums keep the digits; else empty.
    std::vector<double> costs_from_sums(const NodePoints<V>& points, const std::vector<int32_t>& labels) const;
    // Row by row, whatever the labels.
    std::vector<double> costs_of_rows(const NodePoints<V>& points, const std::vector<int32_t>& labels) const;

    std::vector<Center> centers;
    std::vector<double> weights;  // per cluster
    std::vector<double> norms2;   // per cluster: of the sum

private:
    struct Scratch {
        std::vector<double> totals;  // columns: all zero between clusters
        ColumnMarks occurring;
    };
    void find_one(const NodePoints<V>& points, int c, Scratch& own);

    std::vector<int64_t> ends_;      // per cluster, and its rows, in a row
    std::vector<int32_t> members_;
    std::vector<std::vector<double>> sums_;  // per cluster: of its rows, in the columns of its center; empty unless kept
    std::vector<Scratch> scratch_;           // per thread
};

}  // namespace sparsecluster
