// New centers from labels. Sums are kept in fixed point, 64 bits and 64 finer ones, with a power-of-two step
// per feature that makes overflow impossible: integer addition is exact in any order, so rows can be added
// and taken away, by any thread and in any block, and the sums stay a function of the labels alone.
// Rows (`RowSums`) tell by a delta what a change of labels means for the sums; deltas of rows that are elsewhere add up;
// `ClusterSums` works them in and moves the centers. `Sums` is both, where all rows are here.
// Where a column or the weights span more than fixed point can hold, the clusters that changed are summed
// anew in float64, in row order: slower, a function of the labels as well, and only where all rows are here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/centers.hpp"
#include "core/column_stats.hpp"
#include "core/features.hpp"
#include "core/fixed.hpp"
#include "core/groups.hpp"
#include "core/metric.hpp"
#include "core/rows.hpp"
#include "kmeans/projection.hpp"

namespace sparsecluster {

struct UpdateStats {
    int64_t moved = 0;          // rows that changed cluster since the last update; as deltas tell, where these are worked in
    std::vector<double> shift;  // per center, how far it moved
    double cost = 0;            // weighted sum of squared distances of the rows to the new centers
};

// The steps of the sums.
struct SumScales {
    FixedScale weight;
    std::vector<FixedScale> features;
    bool fixed_point = true;  // whether fixed point holds all digits

    explicit SumScales(const ColumnStats& columns);
};

// What changes of labels add to the sums of the clusters, in arrays of somebody else.
struct SumDeltaView {
    int64_t moved = 0;
    std::span<const int64_t> begin;
    std::span<const int32_t> features;
    FixedSumsView sums;
    std::vector<FixedSum> weights;

    int64_t n_clusters() const { return int64_t(weights.size()); }
    // Of a cluster.
    std::span<const int32_t> features_of(int64_t k) const { return features.subspan(begin[k], begin[k + 1] - begin[k]); }
    FixedSumsView sums_of(int64_t k) const { return sums.between(begin[k], begin[k + 1]); }
};

// The same in arrays of its own.
struct SumDelta {
    int64_t moved = 0;               // rows that changed cluster
    std::vector<int64_t> begin;      // per cluster, into features and sums; one more than there are clusters
    std::vector<int32_t> features;   // of a cluster: ascending
    FixedSums sums;
    std::vector<FixedSum> weights;   // per cluster

    SumDeltaView view() const { return {moved, begin, features, sums.view(), weights}; }
};
// The delta of both.
SumDelta merged(const SumDeltaView& one, const SumDeltaView& other);

// Squared distance of a row to the mean of all rows.
class Spread {
public:
    explicit Spread(const ColumnStats& columns) : columns_(columns) {
        for (double value : columns.mean) mean_norm2_ += value * value;
    }
    template <class V, class I>
    double operator()(const Row<V, I>& row) const {
        double inside = 0, covered = 0;
        for (int64_t e = 0; e < row.size; ++e) {
            if (row.values[e] == 0) continue;
            const double mean = columns_.mean[row.features[e]], gap = double(row.values[e]) - mean;
            inside += gap * gap;
            covered += mean * mean;
        }
        return inside + std::max(0.0, mean_norm2_ - covered);
    }

private:
    const ColumnStats& columns_;
    double mean_norm2_ = 0;
};

// The sums of the clusters, and the centers that they make. `columns` must outlive this object.
class ClusterSums {
public:
    ClusterSums(const ColumnStats& columns, int64_t n_clusters, Metric metric, CenterLimit limit = {});

    int64_t size() const { return int64_t(clusters_.size()); }
    // Leaves out the last clusters, or adds empty ones.
    void resize(int64_t n_clusters) { clusters_.resize(n_clusters); }
    // Works a delta in and moves the centers to where the means have them, within the limit. A cluster without
    // weight, or whose mean has no place, keeps its center. `scatter`: what the cost is a difference from, of all rows
    // that take part (see metric.hpp). The delta may come in pieces: each has the clusters that follow those of the last.
    UpdateStats apply(std::span<const SumDeltaView> pieces, double scatter, Centers& centers, int n_threads);
    // Squared norms of the means.
    std::vector<double> mean_norm2() const;
    double cost(double scatter) const;

    // The same cluster by cluster; different clusters by any thread.
    struct Scratch {
        std::vector<int32_t> features;
        FixedSums sums;
        Center mean;
    };
    void add(int64_t k, std::span<const int32_t> features, const FixedSumsView& sums, const FixedSum& weight,
             Scratch& scratch);
    void move_center(int64_t k, Centers& centers, UpdateStats& stats, Scratch& scratch);
    // For sums that are not in fixed point. The mean, whose norm is known, is used up.
    void move_center(int64_t k, double weight, Center& mean, Centers& centers, UpdateStats& stats);

    const SumScales& scales() const { return scales_; }

private:
    struct Cluster {
        std::vector<int32_t> features;
        FixedSums sums;  // empty where clusters are summed anew
        FixedSum fixed_weight;
        double weight = 0;
        double mean_norm2 = 0;
        double explained = 0;  // what the center takes off the scatter
    };
    void find_mean(const Cluster& cluster, Center& mean) const;  // and its norm
    void place(Center& mean, Cluster& cluster) const;

    SumScales scales_;
    Spread spread_;
    Metric metric_;
    CenterLimit limit_;
    std::vector<Cluster> clusters_;
};

// Changes of the labels of rows. `weights` may be null; it must outlive this object, as must rows and columns.
class RowSums {
public:
    RowSums(const Rows& rows, const ColumnStats& columns, const double* weights, int64_t n_clusters, Metric metric);

    int64_t n_rows() const { return int64_t(labels_.size()); }  // that took part so far
    int64_t n_clusters() const { return n_clusters_; }
    // What these labels (-1: in no cluster) change, against those of the last call; at first no row is in a cluster.
    // In fixed point only. The first `n_rows` rows take part: not fewer than in the last call.
    SumDelta delta(const int32_t* labels, int64_t n_rows, const SumScales& scales, int n_threads);
    // Rows of clusters that are left out are in none.
    void resize(int64_t n_clusters);
    // What some rows add to what the cost is a difference from.
    ExactSum scatter_of(int64_t begin, int64_t end) const;

private:
    friend class Sums;
    // What was added up: sums by feature, ascending, and the weight.
    struct Total {
        std::vector<int32_t> features;
        FixedSums sums;
        FixedSum weight;
    };
    struct Scratch : Total {
        std::vector<int64_t> coarse, fine;  // of sums, per feature, zero between clusters; fine: empty until needed
        std::vector<double> real;           // the same where clusters are summed anew
        FeatureSet touched;
        ClusterSums::Scratch merging;
    };
    using Changes = Groups;  // by cluster; i: row i comes; ~i: row i goes

    void take_new_rows(int64_t n_rows);
    bool about_mean() const {
        return in_space(metric_, [](auto space) { return space.kScatterAboutMean; });
    }
    double weight_of(int64_t row) const { return weights_ ? weights_[row] : 1.0; }
    Changes take_changes(const int32_t* labels, int64_t begin, int64_t end);
    Changes members_of_changed(const int32_t* labels, const Changes& changes) const;
    // Asks for the rows that changed, where they come from a file and are few.
    void will_need(const Changes& changes, int64_t begin, int64_t end) const;
    // Calls work(view, begin, end) for chunks of the rows. Those of a file are read whole only where many rows changed.
    template <class Work>
    void in_chunks(const int32_t* labels, int64_t n_rows, const Work& work) const;
    // Calls with every cluster that changed, after its changes were added up in the scratch.
    template <class View, class Visit>
    void add_up(const View& view, const Changes& changes, const SumScales& scales, int n_threads, const Visit& visit);
    // Adds up the changes from `begin` to `end`.
    template <class View>
    void add_changes(const View& view, const Changes& changes, int64_t begin, int64_t end, const SumScales& scales,
                     Scratch& scratch, bool poll);
    // Adds up what was added up in portions.
    void add_totals(const Total* begin, const Total* end, Scratch& scratch);
    void begin_total(Scratch& scratch) const;
    void end_total(Scratch& scratch);  // takes the sums out by feature
    template <class View>
    std::pair<double, Center> sum_anew(const View& view, const Changes& members, int64_t k, Scratch& scratch,
                                       bool poll);

    const Rows& rows_;
    const ColumnStats& columns_;
    const double* weights_;
    int64_t n_clusters_;
    Metric metric_;
    Spread spread_;
    ExactSum scatter_;                // of rows that `Sums` took
    std::vector<int32_t> labels_;     // those that the sums stand for
    std::vector<Scratch> scratches_;  // per thread
};

// Both, where all rows are here.
class Sums {
public:
    Sums(const Rows& rows, const ColumnStats& columns, const double* weights, int64_t n_clusters, Metric metric,
         CenterLimit limit = {})
        : rows_(rows, columns, weights, n_clusters, metric),
          clusters_(columns, n_clusters, metric, limit),
          to_be_moved_(n_clusters) {}

    // Accounts for the labels (-1: in no cluster) and moves the centers.
    // The first `n_rows` rows take part: not fewer than in the last call.
    UpdateStats update(const int32_t* labels, int64_t n_rows, Centers& centers, int n_threads);

    // While the follower that this gives exists, labels are accounted for as passes go through streamed rows: an update then
    // reads only the rows whose labels became others after that. Null where there is nothing to gain.
    std::unique_ptr<ChunkFollower> follow(const int32_t* labels, int64_t n_rows, int n_threads);

    // For other centers, so many of them, of which the next update moves all. Sums are a function of the labels: what is
    // known stays, and the centers will be those of new sums, to the bit.
    void restart(int64_t n_clusters);

    int64_t size() const { return clusters_.size(); }
    int64_t n_rows() const { return rows_.n_rows(); }
    std::vector<double> mean_norm2() const { return clusters_.mean_norm2(); }
    // What the cost is a difference from, of the rows that took part so far.
    double scatter() const { return rows_.scatter_.value(); }
    ExactSum scatter_of(int64_t begin, int64_t end) const { return rows_.scatter_of(begin, end); }

private:
    // Works changes of labels into the sums; then, for each cluster: then(its number, scratch).
    template <class View, class Then>
    void add_changes(const View& view, const RowSums::Changes& changes, int n_threads, const Then& then);
    void sum_anew(const int32_t* labels, int64_t n_rows, Centers& centers, int n_threads, UpdateStats& stats);
    void give_back(int64_t moved, int64_t nnz) const;

    RowSums rows_;
    ClusterSums clusters_;
    std::vector<char> to_be_moved_;  // per cluster: whether the center may be off the mean
    std::vector<int32_t> updated_;   // labels of the last update, if some were accounted for since; else empty
};

}  // namespace sparsecluster
