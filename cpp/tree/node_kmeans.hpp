// K-means of the rows of one node. A run seeds, then assigns and updates until it has settled; with bounded sizes the
// assignment is the best there is within the bounds (sizes/balanced_assign).
//
// Bounded nodes are scored in float32 where that tells their rows apart: the centers on the way are a means to an end.
// All others are scored in float64, where every row is with the nearest center. Sums and costs are always float64.
#pragma once

#include <cstdint>
#include <vector>

#include "sizes/balanced_assign.hpp"
#include "tree/node_sums.hpp"
#include "tree/lanes.hpp"
#include "tree/node_rows.hpp"
#include "tree/random.hpp"
#include "tree/split.hpp"

namespace sparsecluster {

// Keeps its memory from node to node: one for each thread. V: the values of the rows.
template <class V>
class NodeKMeans {
public:
    Split split(const Rows& rows, const NodeTask& task, const SplitOptions& options, int n_threads);

private:
    // Centers and scores of one precision.
    template <class T>
    struct Scoring {
        LaneTable<T> centers;
        HugeBuffer<T> scores;  // rows x lanes, where sizes are bounded
        BalancedAssigner<T> assigner;
    };

    void load(const int32_t* ids, int64_t n);
    Split run(uint64_t seed);
    void iterate_freely();
    void iterate_within_bounds(int max_iter);
    void leave_sample();
    double weight(int64_t i) const { return weights_.empty() ? 1.0 : weights_[i]; }
    // Whether a row has a say where centers are, and so can be one to start from.
    bool counts(int64_t i) const { return weight(i) > 0 && !(options_->unit && rows_.norm2(i) == 0); }

    // Rows to start from, as many as asked for or as there are distinct ones.
    std::vector<int64_t> seeds(NodeRandom& random);
    std::vector<int64_t> seeds_by_distance(const std::vector<int64_t>& among, NodeRandom& random);
    std::vector<int64_t> seeds_at_random(NodeRandom& random) const;
    void start_at(const std::vector<int64_t>& seeds);

    // Calls work(scoring) with the one of the precision in use.
    template <class Work>
    auto scored(const Work& work) {
        return precise_ ? work(precisely_) : work(roughly_);
    }
    void assign_freely();
    // Sizes may be off by a little unless they are to be met exactly.
    void assign_within_bounds(bool exactly);
    double score_scale() const;
    void refill_empty();
    double free_cost() const;    // of the labels with the centers that they were found with
    double bounded_cost() const; // of the labels with their own centers, after `update`

    // Moves the centers to their rows.
    void update();
    void sum_all();
    void sum_moved();
    void set_centers();
    double shift2();

    Split finished();
    Center center_of(int c);
    std::vector<double> costs(const std::vector<int32_t>& number, const std::vector<Center>& centers) const;

    const Rows* all_rows_ = nullptr;
    const NodeTask* task_ = nullptr;
    const SplitOptions* options_ = nullptr;
    int n_threads_ = 1;
    std::vector<int32_t> sample_;     // rows of the matrix that centers are found with; empty for those of the node
    SizeBounds bounds_;               // of the children, for the rows that are loaded
    NodeRows<V> rows_;
    std::vector<double> weights_;     // per row; empty for ones
    double norms_ = 0;                // weighted sum of the squared norms
    int k_ = 0, n_iter_ = 0;
    bool precise_ = false, converged_ = false;
    Scoring<float> roughly_;
    Scoring<double> precisely_;
    NodeSums sums_;                // of the rows of each cluster
    std::vector<int32_t> summed_;     // the labels that the sums are of
    std::vector<LocalVector> lists_;  // the same sums, or the seeds; a center is that divided by its divisor
    std::vector<double> divisors_;
    LaneTable<double> last_;          // centers of the iteration before, where shifts are asked for
    std::vector<double> cluster_weight_;
    std::vector<int32_t> labels_, before_;
    std::vector<double> own_;         // per row: the score with its own center, where sizes are free
    std::vector<double> spread_;      // columns: one row, while others are compared with it
    ColumnBits occurring_;
    std::vector<int64_t> ends_;       // per cluster, and its rows, in a row
    std::vector<int32_t> members_;
};

}  // namespace sparsecluster
