// Takes rows down a tree: from the root to the nearest of the children, or to the nearest few of a level.
#pragma once

#include <cstdint>
#include <vector>

#include "core/rows.hpp"

namespace sparsecluster {

// Nodes by level, the root first; the children of a node follow each other.
struct TreeView {
    int64_t n_nodes = 0;
    const int32_t* first_child = nullptr;
    const int32_t* n_children = nullptr;  // 0 for a leaf
    // The center of each node, in CSR; ascending columns within the matrix.
    const int64_t* indptr = nullptr;
    const int32_t* columns = nullptr;
    const double* values = nullptr;
    bool unit = false;
};

// The leaf of each row, by its node. `beam` nodes of a level are followed, those of the nearest centers; of the leaves
// that are reached the nearest counts. Ties go to the lowest node.
std::vector<int32_t> route(const Rows& rows, const TreeView& tree, int beam, int n_threads);

}  // namespace sparsecluster
