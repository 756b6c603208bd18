// Compiled without contraction, as exact.cpp.
#include "sizes/bounded.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sparsecluster {

namespace {

// Of a list: what it has where memory allows, and what it needs.
constexpr int64_t kUsual = 16, kShortest = 4;
// Up to so many clusters have a table of all costs, where memory allows.
constexpr int64_t kFewClusters = 64;
// By what share a new assignment must cost less than the one before, so that a run comes to an end.
constexpr double kLess = 1e-12;

// A longer list leaves less to be looked for when prices change.
int64_t list_length(int64_t n_rows, int64_t n_clusters, int64_t limit) {
    const int64_t most = limit / (std::max<int64_t>(n_rows, 1) * int64_t(sizeof(Candidate)));
    return std::min(n_clusters, std::clamp(most, kShortest, kUsual));
}

}  // namespace

BoundedAssigner::BoundedAssigner(const Rows& rows, const double* weights, SizeBounds bounds, AssignOptions options,
                                 int64_t cost_limit, SizeBasis basis)
    : Assigner(rows, options),
      bounds_(bounds),
      cost_limit_(cost_limit),
      candidates_(rows, weights, options),
      basis_(std::move(basis)) {}

AssignStats BoundedAssigner::assign_rows(const Centers& centers, const std::vector<double>&, int32_t* labels) {
    const int64_t n_clusters = centers.size();
    const std::vector<int32_t> before(labels, labels + n_rows_);
    const SizeBasis basis_before = basis_;
    const bool known = within_bounds(labels, n_clusters);
    costs_.resize(n_rows_);
    AssignStats stats;
    stats.path = "within bounds";
    if (n_clusters <= kFewClusters && CostTable::bytes(n_rows_, n_clusters, rows_.n_features()) <= cost_limit_) {
        table_.fill(rows_, centers, options_.n_threads, [&](int64_t i) { return candidates_.factor(i); });
        SizeTree tree = plant(table_, known, labels);
        improve(tree, table_, labels, n_rows_);
        remember(tree);
        stats.distances = n_rows_ * n_clusters;
    } else {
        candidates_.start(centers, scale_, limits(), list_length(n_rows_, n_clusters, cost_limit_));
        by_lists(n_clusters, known, labels);
        stats.distances = candidates_.distances();
    }
    const double cost = std::accumulate(costs_.begin(), costs_.end(), 0.0);
    if (known && hangs_together(before.data(), basis_before, n_clusters) && !(cost < first_cost_ * (1 - kLess))) {
        std::copy(before.begin(), before.end(), labels);
        basis_ = basis_before;
        return stats;
    }
    for (int64_t i = 0; i < n_rows_; ++i) stats.moved += labels[i] != before[i];
    return stats;
}

void BoundedAssigner::by_lists(int64_t n_clusters, bool known, int32_t* labels) {
    std::vector<int64_t> all(n_rows_);
    std::iota(all.begin(), all.end(), 0);
    const bool priced = known && hangs_together(labels, basis_, n_clusters);
    if (!priced) candidates_.find(all, std::vector<double>(n_clusters, 0.0));
    SizeTree tree = plant(candidates_, known, labels);
    if (priced) candidates_.find(all, tree.cluster_prices());
    do improve(tree, candidates_, labels, n_rows_);
    while (look_beyond(tree, labels));
    remember(tree);
}

template <class Source>
SizeTree BoundedAssigner::plant(const Source& source, bool known, int32_t* labels) {
    const int64_t n_clusters = source.n_clusters();
    if (known)
        source.own_costs(labels, costs_.data());
    else
        FirstAssignment(source, bounds_, n_clusters, n_rows_, labels, costs_.data()).run();
    first_cost_ = std::accumulate(costs_.begin(), costs_.end(), 0.0);
    SizeTree tree(bounds_, n_clusters, n_rows_, labels, costs_.data());
    if (!known || !hangs_together(labels, basis_, n_clusters)) {
        grow_tree(tree, source, labels, costs_.data(), n_rows_);
        return tree;
    }
    for (int64_t k = 0; k < n_clusters; ++k) {
        const int64_t row = basis_.rows[k], parent = basis_.parents[k];
        TreeLink link{row, 0, 0};
        if (row >= 0) link.below = costs_[row], link.above = source.cost(row, int32_t(parent));
        tree.hang(k, parent, link);
    }
    tree.refresh_prices();
    return tree;
}

bool BoundedAssigner::look_beyond(const SizeTree& tree, const int32_t* labels) {
    const std::vector<double> prices = tree.cluster_prices(), rises = candidates_.rises(prices);
    std::vector<int64_t> unsure;
    for (int64_t i = 0; i < n_rows_; ++i)
        if (tree.gains_below(i, candidates_.beyond(i, rises))) unsure.push_back(i);
    if (unsure.empty()) return false;
    candidates_.find(unsure, prices);
    return std::any_of(unsure.begin(), unsure.end(), [&](int64_t i) {
        const SizeOffer offer = candidates_.best(i, labels[i], tree.prices());
        return offer.cluster >= 0 && tree.gain(i, offer.cluster, offer.cost) > 0;
    });
}

void BoundedAssigner::remember(const SizeTree& tree) {
    basis_ = {};
    for (int64_t k = 0; k < tree.n_clusters(); ++k) {
        basis_.parents.push_back(tree.parent(k));
        basis_.rows.push_back(tree.link(k).row);
    }
}

bool BoundedAssigner::within_bounds(const int32_t* labels, int64_t n_clusters) const {
    std::vector<int64_t> sizes(n_clusters);
    for (int64_t i = 0; i < n_rows_; ++i) {
        if (labels[i] < 0) return false;
        ++sizes[labels[i]];
    }
    return std::all_of(sizes.begin(), sizes.end(),
                       [&](int64_t size) { return bounds_.least <= size && size <= bounds_.most; });
}

bool BoundedAssigner::hangs_together(const int32_t* labels, const SizeBasis& basis, int64_t n_clusters) const {
    if (int64_t(basis.parents.size()) != n_clusters || int64_t(basis.rows.size()) != n_clusters) return false;
    std::vector<int64_t> sizes(n_clusters);
    for (int64_t i = 0; i < n_rows_; ++i) ++sizes[labels[i]];
    const bool all_full = SizeTree::all_full(bounds_, n_clusters, n_rows_);
    for (int64_t k = 0; k < n_clusters; ++k) {
        const int64_t parent = basis.parents[k], row = basis.rows[k];
        if (parent < 0 || parent > n_clusters || row < -1 || row >= n_rows_) return false;
        if ((parent == n_clusters) != (row < 0) || (row >= 0 && labels[row] != k)) return false;
        if (row < 0 && (all_full ? k != 0 : sizes[k] >= bounds_.most)) return false;
    }
    for (int64_t k = 0; k < n_clusters; ++k) {
        int64_t steps = 0;
        for (int64_t at = k; at != n_clusters; at = basis.parents[at])
            if (++steps > n_clusters) return false;
    }
    return true;
}

}  // namespace sparsecluster
