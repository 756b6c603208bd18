// New centers from labels. Sums are kept in fixed point, 64 bits and 64 finer ones, with a power-of-two step
// per feature that makes overflow impossible: integer addition is exact in any order, so rows can be added
// and taken away, by any thread and in any block, and the sums stay a function of the labels alone.
// Where a column or the weights span more than fixed point can hold, the clusters that changed are summed
// anew in float64, in row order: slower, and a function of the labels as well.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/features.hpp"
#include "core/groups.hpp"
#include "core/metric.hpp"
#include "core/rows.hpp"
#include "kmeans/projection.hpp"

namespace sparsecluster {

// A sum of many terms in fixed point: coarse + fine.
struct FixedSum {
    int64_t coarse = 0, fine = 0;

    bool zero() const { return coarse == 0 && fine == 0; }
    void add(const FixedSum& other) {
        coarse += other.coarse;
        fine += other.fine;
    }
};

// Many of them. Float32 values leave nothing for the fine parts as a rule, which are kept only where one is not zero.
class FixedSums {
public:
    size_t size() const { return coarse_.size(); }
    FixedSum operator[](size_t i) const { return {coarse_[i], fine_.empty() ? 0 : fine_[i]}; }
    void clear() {
        coarse_.clear();
        fine_.clear();
    }
    void push_back(const FixedSum& sum) {
        if (fine_.empty() && sum.fine != 0) fine_.resize(coarse_.size(), 0);
        if (sum.fine != 0 || !fine_.empty()) fine_.push_back(sum.fine);
        coarse_.push_back(sum.coarse);
    }
    // Those of another one from `begin` to `end`.
    void append(const FixedSums& other, size_t begin, size_t end) {
        if (fine_.empty() && !other.fine_.empty()) fine_.resize(coarse_.size(), 0);
        coarse_.insert(coarse_.end(), other.coarse_.begin() + begin, other.coarse_.begin() + end);
        if (other.fine_.empty())
            fine_.resize(fine_.empty() ? 0 : coarse_.size(), 0);
        else
            fine_.insert(fine_.end(), other.fine_.begin() + begin, other.fine_.begin() + end);
    }
    // A copy that takes no more room than it needs.
    void assign_tightly(const FixedSums& other) {
        tighten(coarse_, other.coarse_);
        tighten(fine_, other.fine_);
    }

    template <class T>
    static void tighten(std::vector<T>& to, const std::vector<T>& from) {
        if (to.capacity() > from.size() + from.size() / 8) std::vector<T>().swap(to);
        to.assign(from.begin(), from.end());
    }

private:
    std::vector<int64_t> coarse_, fine_;
};

// Powers of two by exponent, -1022 .. 1023.
struct PowersOfTwo {
    PowersOfTwo() {
        for (int e = -1022; e <= 1023; ++e) values[e + 1022] = std::ldexp(1.0, e);
    }
    double operator()(int exponent) const { return values[exponent + 1022]; }
    double values[2046];
};
inline const PowersOfTwo power_of_two;

// How terms of one kind become fixed point: multiplied by two to these exponents, which is exact.
struct FixedScale {
    int16_t coarse = 0, fine = 0;

    FixedScale() = default;
    // For `count` terms of magnitude up to `largest`.
    FixedScale(double largest, double count);
    // Whether terms as small as `smallest` keep all digits of a double.
    bool holds(double smallest) const;
    void add(FixedSum& sum, double term, int64_t sign) const;
    double value(const FixedSum& sum) const {
        return (double(sum.coarse) + double(sum.fine) * power_of_two(-fine)) * power_of_two(-coarse);
    }
};

struct UpdateStats {
    int64_t moved = 0;          // rows that changed cluster since the last update
    std::vector<double> shift;  // per center, how far it moved
    double cost = 0;            // weighted sum of squared distances of the rows to the new centers
};

class Sums {
public:
    // `weights` may be null; it must outlive this object, as must `columns`.
    Sums(const Rows& rows, const ColumnStats& columns, const double* weights, int64_t n_clusters,
         Metric metric, CenterLimit limit = {});

    // Accounts for the labels (-1: in no cluster) and moves the centers to where the means have them, within the limit.
    // A cluster without weight, or whose mean has no place, keeps its center.
    // The first `n_rows` rows take part: not fewer than in the last call.
    UpdateStats update(const int32_t* labels, int64_t n_rows, Centers& centers, int n_threads);

    int64_t size() const { return int64_t(clusters_.size()); }
    int64_t n_rows() const { return int64_t(labels_.size()); }  // that took part so far
    // Squared norms of the means.
    std::vector<double> mean_norm2() const;
    // What the cost is a difference from, of the rows that were seen so far (see metric.hpp).
    double scatter() const { return scatter_; }

private:
    struct Cluster {
        std::vector<int32_t> features;
        FixedSums sums;  // empty where clusters are summed anew
        FixedSum fixed_weight;
        double weight = 0;
        double mean_norm2 = 0;
        double explained = 0;  // what the center takes off the scatter
    };
    struct Scratch {
        std::vector<FixedSum> fixed;  // per feature, zero between clusters
        std::vector<int32_t> features;  // of the cluster that is being merged,
        FixedSums merged;               // and its sums
        std::vector<double> sums;     // the same where clusters are summed anew
        FeatureSet touched;
    };
    using Changes = Groups;  // by cluster; i: row i comes; ~i: row i goes

    void take_new_rows(int64_t n_rows);
    double weight_of(int64_t row) const { return weights_ ? weights_[row] : 1.0; }
    Changes take_changes(const int32_t* labels, int64_t begin, int64_t end, UpdateStats& stats);
    Changes members_of_changed(const int32_t* labels, const Changes& changes);
    // Asks for the rows that changed, where they come from a file.
    void will_need(const Changes& changes, int64_t begin, int64_t end) const;
    template <class View>
    void add_changes(const View& view, const Changes& changes, int64_t k, Scratch& scratch, bool poll);
    Center mean_of(const Cluster& cluster) const;
    void move_center(int64_t k, Center mean, Centers& centers, UpdateStats& stats);
    template <class View>
    Center sum_anew(const View& view, const Changes& members, int64_t k, Scratch& scratch, bool poll);
    // Squared distance to the mean of all rows.
    template <class V, class I>
    double squared_spread(const Row<V, I>& row) const;
    Center place(Center mean, Cluster& cluster) const;
    double cost() const;
    void give_back(int64_t moved, int64_t nnz) const;

    const Rows& rows_;
    const ColumnStats& columns_;
    const double* weights_;
    Metric metric_;
    CenterLimit limit_;
    double scatter_ = 0;
    bool fixed_point_ = true;
    double mean_norm2_ = 0;
    FixedScale weight_scale_;
    std::vector<FixedScale> scales_;  // per feature
    std::vector<int32_t> labels_;     // those that the sums stand for
    std::vector<Cluster> clusters_;
    std::vector<Scratch> scratches_;  // per thread
};

}  // namespace sparsecluster
