// Compiled without contraction, as exact.cpp.
#include "sizes/bounded.hpp"

#include <algorithm>
#include <utility>

namespace sparsecluster {

namespace {

constexpr int64_t kUsual = 16, kShortest = 4;
// Up to so many clusters are all listed.
constexpr int64_t kFewClusters = 48;
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
    candidates_.start(centers, scale_, limits(), list_length(n_rows_, centers.size(), list_limit_));
    Plan plan{bounds_, labels, prices_, std::vector<int64_t>(centers.size())};
    approach(candidates_, plan);
    settle_sizes(candidates_, plan);
    prices_ = plan.prices;
    AssignStats stats;
    stats.distances = candidates_.distances();
    stats.path = "within bounds";
    // Rows change places only where that lowers the cost: otherwise equal assignments could follow in a circle.
    if (within_bounds(before.data(), centers.size()) &&
        !(candidates_.cost(labels) < candidates_.cost(before.data()) * (1 - kLess))) {
        std::copy(before.begin(), before.end(), labels);
        return stats;
    }
    for (int64_t i = 0; i < n_rows_; ++i) stats.moved += labels[i] != before[i];
    return stats;
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
