// A tree from the root down. All rows stand in one order in which every node is a range: a split puts the rows of each
// child together, in their order, and in the end rows stand leaf by leaf, from left to right.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/centers.hpp"
#include "core/huge.hpp"
#include "tree/split.hpp"

namespace sparsecluster {

class TreeGrower {
public:
    TreeGrower(const Rows& rows, const SplitOptions& options);

    // A node that is to be split: so many rows from there on.
    struct Node {
        int64_t first = 0, n_rows = 0;
        int n_children = 2;
        SizeBounds bounds;
        uint64_t seed = 0;
    };
    // What became of some nodes; children node after node.
    struct Children {
        std::vector<int32_t> n_children, n_iter;  // per node
        std::vector<int64_t> sizes;
        std::vector<double> costs;
    };
    // The first call has the root alone.
    Children split(const std::vector<Node>& nodes, Bounding bounding, const std::function<void(int64_t)>& on_rows);

    const std::vector<int32_t>& order() const { return order_; }
    double root_cost();

    // Of all nodes in the order in which they came, the root first, as the arrays of a CSR matrix. Once: they are gone
    // afterwards.
    struct Csr {
        std::vector<int64_t> indptr;
        HugeBuffer<int32_t> columns;
        HugeBuffer<double> values;
    };
    Csr take_centers();

private:
    std::vector<double> sum_rows() const;
    void set_root(const std::vector<double>& total);
    void need_root();

    const Rows& rows_;
    const SplitOptions options_;
    NodeSplitter splitter_;
    std::vector<int32_t> order_;
    std::vector<Center> centers_;
    double root_cost_ = 0;
};

}  // namespace sparsecluster
