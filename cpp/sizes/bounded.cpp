// Compiled without contraction, as exact.cpp.
#include "sizes/bounded.hpp"

#include <algorithm>
#include <utility>

namespace sparsecluster {

namespace {

constexpr int64_t kUsual = 16, kShortest = 4;
// Up to so many clusters have a table of all costs, and none of them needs a list, where memory allows.
constexpr int64_t kFewClusters = 64;
// By what share a new assignment must cost less than the one before, so that a run comes to an end.
constexpr double kLess = 1e-12;

// A longer list leaves less to be looked for when prices change.
int64_t list_length(int64_t n_rows, int64_t n_clusters, int64_t limit) {
    const int64_t most = limit / (std::max<int64_t>(n_rows, 1) * int64_t(sizeof(Candidate)));
    return std::min(n_clusters, std::clamp(most, kShortest, n_clusters <= kFewClusters ? kFewClusters : kUsual));
}

}  // namespace

BoundedAssigner::BoundedAssigner(const Rows& rows, const double* weights, SizeBounds bounds, AssignOptions options,
                                 int64_t list_limit, std::vector<double> prices)
    : Assigner(rows, options),
      bounds_(bounds),
      list_limit_(list_limit),
      candidates_(rows, weights, options),
      prices_(std::move(prices)) {}

AssignStats BoundedAssigner::assign_rows(const Centers& centers, const std::vector<double>&, int32_t* labels) {
    prices_.resize(centers.size(), 0.0);
    const std::vector<int32_t> before(labels, labels + n_rows_);
    Plan plan{bounds_, labels, prices_, std::vector<int64_t>(centers.size())};
    AssignStats stats;
    stats.path = "within bounds";
    const double cost = all_in_table(centers.size()) ? by_table(centers, plan, stats) : by_lists(centers, plan, stats);
    prices_ = plan.prices;
    // Rows change places only where that lowers the cost: otherwise equal assignments could follow in a circle.
    if (within_bounds(before.data(), centers.size()) && !(cost < cost_of(before.data()) * (1 - kLess))) {
        std::copy(before.begin(), before.end(), labels);
        return stats;
    }
    for (int64_t i = 0; i < n_rows_; ++i) stats.moved += labels[i] != before[i];
    return stats;
}

bool BoundedAssigner::all_in_table(int64_t n_clusters) const {
    return n_clusters <= kFewClusters && CostTable::bytes(n_rows_, n_clusters, rows_.n_features()) <= list_limit_;
}

double BoundedAssigner::by_table(const Centers& centers, Plan& plan, AssignStats& stats) {
    table_.fill(rows_, centers, options_.n_threads, [&](int64_t i) { return candidates_.factor(i); });
    settle_table(table_.view(), plan, options_.n_threads);
    stats.distances = n_rows_ * centers.size();
    return cost_of(plan.labels);
}

double BoundedAssigner::by_lists(const Centers& centers, Plan& plan, AssignStats& stats) {
    candidates_.start(centers, scale_, limits(), list_length(n_rows_, centers.size(), list_limit_));
    approach(candidates_, plan);
    settle_sizes(candidates_, plan);
    stats.distances = candidates_.distances();
    return cost_of(plan.labels);
}

double BoundedAssigner::cost_of(const int32_t* labels) const {
    if (!all_in_table(int64_t(prices_.size()))) return candidates_.cost(labels);
    const CostView table = table_.view();
    double cost = 0;
    for (int64_t i = 0; i < n_rows_; ++i) cost += table.row(i)[labels[i]];
    return cost;
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

}  // namespace sparsecluster
