// Compiled without contraction, as exact.cpp.
#include "sizes/bounded.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sparsecluster {

namespace {

// Of a list: what it has where memory allows, and what it needs.
constexpr int64_t kUsual = 16, kShortest = 4;
// Rows of the smallest sample, at least and per cluster; the next one has so many times as many.
constexpr int64_t kSampleRows = 2048, kSampleRowsPerCluster = 8, kGrowth = 8;
// An assignment begins anew where more than this share of the rows would gain by the prices of the one before.
constexpr double kMany = 0.5;
// What a sample and the making of lists or tables take of the time, roughly.
constexpr double kSampling = 0.2, kMeasuring = 0.5;
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
    unit_ = CostUnit(candidates_.most_cost(centers), n_clusters);
    AssignStats stats;
    stats.path = "within bounds";
    progress_ = SizeProgress(tell_);
    if (n_clusters <= CostTable::kMostClusters && CostTable::bytes(n_rows_, n_clusters, rows_.n_features()) <= cost_limit_) {
        table_.fill(rows_, centers, options_.n_threads, [&](int64_t i) { return candidates_.factor(i); });
        solve(table_, known, labels, [](const auto&, const auto&) {}, [](const auto&...) { return false; });
        stats.distances = n_rows_ * n_clusters;
    } else {
        candidates_.start(centers, scale_, limits(), list_length(n_rows_, n_clusters, cost_limit_));
        solve(
            candidates_, known, labels,
            [&](const std::vector<int64_t>& ids, const std::vector<double>& prices) {
                candidates_.find(ids, prices, [&](double share) { progress_.reach(share); });
            },
            [&](const std::vector<int64_t>& ids, const SizeTree& tree, const int32_t* of_ids) {
                return look_beyond(ids, tree, of_ids);
            });
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

template <class Source, class Prepare, class Beyond>
void BoundedAssigner::solve(const Source& source, bool known, int32_t* labels, const Prepare& prepare,
                            const Beyond& beyond) {
    const std::vector<int64_t> all = every(1);
    if (known) source.own_costs(labels, costs_.data());
    if (known) first_cost_ = std::accumulate(costs_.begin(), costs_.end(), 0.0);
    const auto finish = [&](SizeTree& tree) {
        progress_.begin(kMeasuring, 1);
        do improve(tree, source, labels, n_rows_, progress_);
        while (beyond(all, tree, labels));
        remember(tree);
    };
    bool anew = !known;
    if (known && hangs_together(labels, basis_, source.n_clusters())) {
        SizeTree tree = plant_basis(source, labels);
        progress_.begin(0, 0);
        anew = many_gain(source, tree, labels, prepare);
        if (!anew) {
            progress_.begin(0, kMeasuring);
            prepare(all, tree.cluster_prices());
            return finish(tree);
        }
    }
    std::vector<double> guess(source.n_clusters(), 0.0);
    if (anew) guess = guess_prices(source, prepare, beyond);
    progress_.begin(kSampling, kMeasuring);
    prepare(all, guess);
    if (anew) FirstAssignment(source, bounds_, guess, n_rows_, labels, costs_.data()).run();
    SizeTree tree(bounds_, unit_, source.n_clusters(), n_rows_, labels, costs_.data());
    TreeGrowth(tree, source, guess, labels, costs_.data(), n_rows_).run();
    finish(tree);
}

int64_t BoundedAssigner::largest_step(int64_t n_clusters) const {
    const int64_t smallest = std::max(kSampleRows, kSampleRowsPerCluster * n_clusters);
    int64_t step = 1;
    while (n_rows_ / (step * kGrowth) >= smallest) step *= kGrowth;
    return step;
}

template <class Source, class Prepare>
bool BoundedAssigner::many_gain(const Source& source, const SizeTree& tree, const int32_t* labels,
                                const Prepare& prepare) {
    const int64_t step = largest_step(source.n_clusters());
    if (step == 1) return false;
    const std::vector<int64_t> ids = every(step);
    prepare(ids, tree.cluster_prices());
    const auto n_gain = std::count_if(ids.begin(), ids.end(), [&](int64_t i) {
        const SizeOffer offer = source.best(i, labels[i], tree.prices());
        return offer.cluster >= 0 && tree.gain(i, offer.cluster, offer.cost) > 0;
    });
    return double(n_gain) > kMany * double(ids.size());
}

std::vector<int64_t> BoundedAssigner::every(int64_t step) const {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n_rows_; i += step) ids.push_back(i);
    return ids;
}

template <class Source, class Prepare, class Beyond>
std::vector<double> BoundedAssigner::guess_prices(const Source& source, const Prepare& prepare,
                                                  const Beyond& beyond) {
    const int64_t n_clusters = source.n_clusters();
    std::vector<double> guess(n_clusters, 0.0);
    double begun = 0;
    for (int64_t step = largest_step(n_clusters); step > 1; step /= kGrowth) {
        const std::vector<int64_t> ids = every(step);
        const double ended = kSampling * double(kGrowth) / double(step);
        progress_.begin(begun, (begun + ended) / 2);
        const auto n = int64_t(ids.size());
        // The same share of the rows, within what can be kept.
        const SizeBounds bounds{std::min(bounds_.least / step, n / n_clusters),
                                std::max((bounds_.most + step - 1) / step, (n + n_clusters - 1) / n_clusters)};
        const SomeRows<Source> some(source, ids);
        std::vector<int32_t> labels(n);
        std::vector<double> costs(n);
        prepare(ids, guess);
        FirstAssignment(some, bounds, guess, n, labels.data(), costs.data()).run();
        SizeTree tree(bounds, unit_, n_clusters, n, labels.data(), costs.data());
        TreeGrowth(tree, some, guess, labels.data(), costs.data(), n).run();
        progress_.begin((begun + ended) / 2, ended);
        do improve(tree, some, labels.data(), n, progress_);
        while (beyond(ids, tree, labels.data()));
        guess = tree.cluster_prices();
        begun = ended;
    }
    return guess;
}

template <class Source>
SizeTree BoundedAssigner::plant_basis(const Source& source, int32_t* labels) {
    SizeTree tree(bounds_, unit_, source.n_clusters(), n_rows_, labels, costs_.data());
    for (int64_t k = 0; k < source.n_clusters(); ++k) {
        const int64_t row = basis_.rows[k], parent = basis_.parents[k];
        TreeLink link{row, 0, 0};
        if (row >= 0) link.below = costs_[row], link.above = source.cost(row, int32_t(parent));
        tree.hang(k, parent, link);
    }
    tree.set_prices();
    return tree;
}

bool BoundedAssigner::look_beyond(const std::vector<int64_t>& ids, const SizeTree& tree, const int32_t* labels) {
    const std::vector<double> prices = tree.cluster_prices(), rises = candidates_.rises(prices);
    std::vector<int64_t> places, unsure;
    for (int64_t p = 0; p < int64_t(ids.size()); ++p) {
        if (tree.gains_below(p, candidates_.beyond(ids[p], rises))) places.push_back(p), unsure.push_back(ids[p]);
        if (p % 1024 == 0) poll_interrupt();
    }
    if (unsure.empty()) return false;
    candidates_.find(unsure, prices, [&](double) { poll_interrupt(); });
    return std::any_of(places.begin(), places.end(), [&](int64_t p) {
        const SizeOffer offer = candidates_.best(ids[p], labels[p], tree.prices());
        return offer.cluster >= 0 && tree.gain(p, offer.cluster, offer.cost) > 0;
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
