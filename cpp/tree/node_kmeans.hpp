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

class NodeKMeans {
public:
    NodeKMeans(const Rows& rows, const NodeTask& task, const SplitOptions& options, ColumnNumbers& numbers,
               int n_threads);
    Split best_run();

private:
    Split run(uint64_t seed);
    double weight(int64_t i) const { return weights_.empty() ? 1.0 : weights_[i]; }
    // Whether a row has a say where centers are, and so can be one to start from.
    bool counts(int64_t i) const { return weight(i) > 0 && !(options_.unit && rows_.norm2(i) == 0); }

    // Rows to start from, as many as asked for or as there are distinct ones.
    std::vector<int64_t> seeds(NodeRandom& random) const;
    std::vector<int64_t> seeds_by_distance(const std::vector<int64_t>& among, NodeRandom& random) const;
    std::vector<int64_t> seeds_at_random(NodeRandom& random) const;
    void start_at(const std::vector<int64_t>& seeds);

    void assign_freely();
    void assign_within_bounds();
    void refill_empty();
    double cost() const;
    // Moves the centers to their rows; answers the sum of the squared shifts.
    double update();
    void add_rows(int from_lane, int to_lane);
    void set_halves();

    Split finished(int n_iter, bool converged);
    std::vector<double> distances2(const std::vector<Center>& centers) const;

    const NodeTask& task_;
    const SplitOptions& options_;
    const int n_threads_;
    NodeRows rows_;
    std::vector<double> weights_;  // per row; empty for ones
    int k_ = 0, lanes_ = 0;
    LaneTable centers_, sums_;
    std::vector<double> halves_;        // per lane: half the squared norm, where that differs
    std::vector<double> cluster_weight_;
    std::vector<int32_t> labels_;
    std::vector<double> own_;           // per row: the score with its own center
    std::vector<double> scores_;        // rows x lanes, where sizes are bounded
    BoundedAssigner assigner_;
};

}  // namespace sparsecluster
