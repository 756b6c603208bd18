// K-means of the rows of one node. A run seeds, then assigns and updates until it has settled; with bounded sizes the
// assignment is nearly the best there is within the bounds (sizes/balanced_assign).
//
// Bounded nodes are scored in float32 where that tells their rows apart, and in 16-bit numbers where they store most of their
// cells: the centers on the way are a means to an end.
// All others are scored in float64, where every row is with the nearest center. Centers and costs at the end are always
// those of float64 sums (node_centers).
#pragma once

#include <cstdint>
#include <vector>

#include "sizes/balanced_assign.hpp"
#include "tree/lanes.hpp"
#include "tree/node_centers.hpp"
#include "tree/node_points.hpp"
#include "tree/node_seeds.hpp"
#include "tree/node_sums.hpp"
#include "core/random.hpp"
#include "tree/quantized_rows.hpp"
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
        NodeSums<V, T> sums;
        HugeBuffer<T> scores;  // rows x lanes, where sizes are bounded
        BalancedAssigner<T> assigner;
    };

    Split split_once(const NodeTask& task);
    void load(const int32_t* ids, int64_t n);
    bool float_holds() const;
    Split run(uint64_t seed);
    void iterate_freely();
    void iterate_within_bounds();
    void leave_sample();
    void start_at(const std::vector<int64_t>& seeds);

    // Calls work(scoring) with the one of the precision in use.
    template <class Work>
    auto scored(const Work& work) {
        return precise_ ? work(precisely_) : work(roughly_);
    }
    template <class T>
    void score(const NodeBlock<V>& block, const LaneTable<T>& table, T* out) const;
    // One of so many blocks of rows; the labels of the others are undefined.
    void assign_freely(int64_t step = 1);
    // The same within the bounds of the sizes, which may be off by a little unless they are to be met exactly.
    void assign_within_bounds(bool exactly, int64_t step = 1);
    double score_scale() const;
    void refill_empty();
    double free_cost() const;    // of the labels with the centers that they were found with
    double bounded_cost() const; // of the labels with their own centers, after `update`

    // Moves the centers to their rows, or to those of one of so many blocks.
    void update(int64_t step = 1);
    void keep_centers();
    double shift2();
    Split finished();

    const Rows* all_rows_ = nullptr;
    const NodeTask* task_ = nullptr;
    const SplitOptions* options_ = nullptr;
    int n_threads_ = 1;
    std::vector<int32_t> sample_;     // rows of the matrix that centers are found with; empty for those of the node
    SizeBounds bounds_;               // of the children, for the rows that are loaded
    NodePoints<V> points_;
    NodeSeeds<V> seeds_;
    NodeCenters<V> found_;
    int k_ = 0, n_iter_ = 0;
    bool precise_ = false, quantized_ = false, converged_ = false;
    QuantizedRows quantized_rows_;        // what scores and sums are made of where `quantized_`
    Scoring<float> roughly_;
    Scoring<double> precisely_;
    std::vector<double> lengths_;         // per cluster: of the center; for directions of the sum
    std::vector<double> cluster_weight_;
    LaneTable<double> last_;          // centers of the iteration before, where shifts are asked for
    std::vector<int32_t> labels_, before_;
    std::vector<int32_t> some_labels_;  // of the rows of some blocks
    std::vector<double> own_;         // per row: the score with its own center, where sizes are free
};

}  // namespace sparsecluster
