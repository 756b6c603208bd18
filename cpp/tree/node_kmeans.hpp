// K-means of the rows of one node. A run seeds, then assigns and updates until it has settled; with bounded sizes the
// assignment is the best there is within the bounds (sizes/balanced_assign).
#pragma once

#include <cstdint>
#include <vector>

#include "tree/lanes.hpp"
#include "tree/node_rows.hpp"
#include "tree/random.hpp"
#include "tree/split.hpp"

namespace sparsecluster {

// Keeps its memory from node to node: one for each thread.
class NodeKMeans {
public:
    Split split(const Rows& rows, const NodeTask& task, const SplitOptions& options, int n_threads);

private:
    Split run(uint64_t seed);
    double weight(int64_t i) const { return weights_.empty() ? 1.0 : weights_[i]; }
    // Whether a row has a say where centers are, and so can be one to start from.
    bool counts(int64_t i) const { return weight(i) > 0 && !(options_->unit && rows_.norm2(i) == 0); }

    // Rows to start from, as many as asked for or as there are distinct ones.
    std::vector<int64_t> seeds(NodeRandom& random);
    std::vector<int64_t> seeds_by_distance(const std::vector<int64_t>& among, NodeRandom& random);
    std::vector<int64_t> seeds_at_random(NodeRandom& random) const;
    void start_at(const std::vector<int64_t>& seeds);

    void assign_freely();
    // Sizes may be off by a little unless they are to be met exactly.
    void assign_within_bounds(bool exactly);
    void refill_empty();
    double cost() const;

    // Moves the centers to their rows; answers the sum of the squared shifts, where that is asked for.
    double update();
    void sum_all();
    void sum_moved();
    void set_scale();
    double shift2();
    // The same centers, with sums in the order of the rows, and divided.
    void finish_centers();

    Split finished(int n_iter, bool converged);
    std::vector<double> distances2(const std::vector<Center>& centers, const std::vector<int32_t>& number) const;

    const NodeTask* task_ = nullptr;
    const SplitOptions* options_ = nullptr;
    int n_threads_ = 1;
    ColumnNumbers numbers_;
    NodeRows rows_;
    std::vector<double> weights_;  // per row; empty for ones
    int k_ = 0, lanes_ = 0;
    LaneTable sums_;                  // of the rows of each cluster; a center is that times its factor
    LaneScale scale_;
    std::vector<int32_t> summed_;     // the labels that the sums are of
    LaneTable last_;                  // centers of the iteration before, where shifts are asked for
    std::vector<double> cluster_weight_;
    std::vector<int32_t> labels_, before_;
    std::vector<double> own_;         // per row: the score with its own center
    std::vector<double> scores_;      // rows x lanes, where sizes are bounded
    std::vector<double> spread_;      // columns: one row, while others are compared with it
    BalancedAssigner assigner_;
};

}  // namespace sparsecluster
