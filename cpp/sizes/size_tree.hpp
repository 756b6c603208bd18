// An assignment within size bounds as a basis of the network simplex method (Ahuja, Magnanti and Orlin 1993, chapter
// 11): a tree whose nodes are the clusters, below a pool of places. A cluster hangs on another by a row that it could
// hand up at no change of the cost + price, or on the pool if it may grow; so its place in the tree tells its price.
// Where every row is in the cluster of its lowest cost + price, clusters of positive price are full, and those of
// negative price are at the least size, no other assignment within the bounds costs less (the duality of the
// transportation problem).
//
// Steps come to an end, because no tree is met twice. Every cluster can hand a row up, so the tree is strongly feasible
// (Cunningham 1976): a step either moves rows, which lowers the cost, or lowers the prices below one cluster and nothing
// else. Prices are exact sums of costs in fixed point, so both hold as they are said, not up to rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "sizes/fixed_cost.hpp"
#include "sizes/size_bounds.hpp"

namespace sparsecluster {

// By which row a cluster hangs on the one above it; -1 for the pool. The row is in the lower of the two.
struct TreeLink {
    int64_t row = -1;
    double below = 0, above = 0;  // what the row costs in either
};

class SizeTree {
public:
    // What a row may gain is nothing below this share of the terms that make it up.
    static constexpr double kTie = 0x1p-40;

    // Labels are within the bounds, and change with the steps; so do costs, what each row costs where it is.
    SizeTree(SizeBounds bounds, CostUnit unit, int64_t n_clusters, int64_t n_rows, int32_t* labels, double* costs);

    int64_t n_clusters() const { return pool_; }
    int64_t pool() const { return pool_; }
    // As float64, each rounded once; the pool's, which is 0, comes last.
    const std::vector<double>& prices() const { return prices_; }
    std::vector<double> cluster_prices() const { return {prices_.begin(), prices_.end() - 1}; }
    bool may_grow(int64_t k) const { return sizes_[k] < bounds_.most; }
    // Whether all clusters are full, always. Then the first hangs on the pool, and nothing else does.
    static bool all_full(SizeBounds bounds, int64_t n_clusters, int64_t n_rows) {
        return bounds.most <= n_rows / n_clusters && bounds.most * n_clusters == n_rows;
    }
    bool all_full() const { return all_full_; }
    int64_t parent(int64_t k) const { return parents_[k]; }
    const TreeLink& link(int64_t k) const { return links_[k]; }

    // Hangs a cluster that hangs nowhere yet on another that does, or on the pool.
    void hang(int64_t k, int64_t parent, TreeLink link);

    // What a row would gain in a cluster where it costs so much; 0 where that is no more than rounding. What is more than
    // these limits is more than zero in fixed point, too.
    double gain(int64_t row, int64_t to, double cost) const {
        const double own = costs_[row], here = prices_[labels_[row]], there = prices_[to];
        const double gain = (own + here) - (cost + there);
        return gain > std::max(least_gain_, kTie * (own + std::abs(here) + cost + std::abs(there))) ? gain : 0.0;
    }
    // Whether a row would gain something by this cost + price.
    bool gains_below(int64_t row, double value) const {
        const double own = costs_[row], here = prices_[labels_[row]];
        return own + here - value > std::max(least_gain_, kTie * (own + std::abs(here)));
    }
    // A step by a row that would gain something there.
    void enter(int64_t row, int64_t to, double cost);
    // Steps by which clusters with room give a positive price up, and those above the least size a negative one;
    // whether there were any.
    bool enter_pool();
    // Prices by the links, where these were hung in any order.
    void set_prices();

private:
    bool above(int64_t ancestor, int64_t k) const {
        while (k != ancestor && k != pool_) k = parents_[k];
        return k == ancestor;
    }
    int64_t child_towards(int64_t ancestor, int64_t k) const {
        while (parents_[k] != ancestor) k = parents_[k];
        return k;
    }
    void unhang(int64_t k);
    void put_below(int64_t k, int64_t parent, TreeLink link);
    FixedCost price_by_link(int64_t k) const;
    void set_price(int64_t k, FixedCost price);
    void shift_prices(int64_t top, FixedCost by);
    void move(int64_t row, int64_t to, double cost) { labels_[row] = int32_t(to), costs_[row] = cost; }
    void hand_up(int64_t from, int64_t cut);
    void turn(int64_t from, int64_t cut);
    void leave_pool(int64_t k);
    int64_t fill_place(int64_t top, int64_t k);

    const SizeBounds bounds_;
    const CostUnit unit_;
    const double least_gain_;
    const int64_t pool_;
    const bool all_full_;
    int32_t* const labels_;
    double* const costs_;
    std::vector<int64_t> sizes_;
    std::vector<FixedCost> exact_prices_;
    std::vector<double> prices_;
    std::vector<int64_t> parents_, first_child_, next_, previous_;  // siblings are chained; -1 for none
    std::vector<TreeLink> links_;
    std::vector<int64_t> stack_;
};

}  // namespace sparsecluster
