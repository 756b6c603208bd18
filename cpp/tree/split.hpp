// Splits nodes of a tree: k-means of the rows of each, with bounds on the sizes of its children or without.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "sizes/balanced_assign.hpp"

namespace sparsecluster {

// Whether children have sizes within the bounds, and there are as many as asked for: never, only where there would be one
// child or sizes out of bounds without, or always.
enum class Bounding { none, if_needed, always };

struct NodeTask {
    const int32_t* rows = nullptr;
    int64_t n_rows = 0;
    int n_children = 2;
    Bounding bounding = Bounding::none;
    SizeBounds bounds;
    uint64_t seed = 0;
    bool keep_total = false;

    bool bounded() const { return bounding == Bounding::always; }
};

struct SplitOptions {
    bool unit = false;       // rows and centers have unit length: a center is the direction of its sum
    bool plus_plus = true;   // seeds by k-means++, else rows at random
    int n_init = 1;          // runs per node, of which the one of the lowest cost counts
    int max_iter = 20;
    double cost_tol = 0;     // stop when an iteration lowers the cost by no more than this share of it
    double shift_tol = -1;   // stop when the squared shifts of the centers add up to no more than this
    const double* weights = nullptr;
    int n_threads = 1;
};

// Children that got no rows are left out: there are fewer where the node has fewer distinct rows.
struct Split {
    std::vector<int32_t> labels;   // per row of the node: its child
    std::vector<Center> centers;   // per child, in the columns of the matrix
    std::vector<double> costs;     // per child: weighted sum of squared distances to the center
    std::vector<double> total;     // per column of the matrix: the weighted sum of all rows, where it was to be kept
    int n_iter = 0;
    bool converged = false;
};

// Nodes split side by side. All share the threads: large ones one after the other, small ones one per thread. What
// becomes of a node depends on its rows and its seed alone. Keeps its memory from call to call.
class NodeSplitter {
public:
    NodeSplitter(const Rows& rows, const SplitOptions& options);
    ~NodeSplitter();
    // Calls done(node, split) for each, from any thread. Best within a TeamScope.
    void split(const std::vector<NodeTask>& nodes, const std::function<void(int64_t, Split)>& done);

    std::function<void(int64_t)> on_rows;  // called with the number of rows of the nodes done; may be empty

private:
    struct Workers;
    const Rows& rows_;
    const SplitOptions options_;
    std::unique_ptr<Workers> workers_;
};

std::vector<Split> split_nodes(const Rows& rows, const std::vector<NodeTask>& nodes, const SplitOptions& options,
                               const std::function<void(int64_t)>& on_rows = nullptr);

}  // namespace sparsecluster
