// Compiled without contraction, as exact.cpp.
#include "sizes/bounded.hpp"

#include <algorithm>
#include <utility>

#include "core/exact.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kLongest = 16, kShortest = 4;
// By what share a new assignment must cost less than the one before, so that a run comes to an end.
constexpr double kLess = 1e-12;

int64_t list_length(int64_t n_rows, int64_t limit) {
    return std::clamp(limit / (std::max<int64_t>(n_rows, 1) * int64_t(sizeof(Candidate))), kShortest, kLongest);
}

}  // namespace

BoundedAssigner::BoundedAssigner(const Rows& rows, const double* weights, SizeBounds bounds, AssignOptions options,
                                 int64_t list_limit, std::vector<double> prices)
    : Assigner(rows, options),
      weights_(weights),
      bounds_(bounds),
      candidates_(rows, weights, options, list_length(rows.n_rows(), list_limit)),
      prices_(std::move(prices)) {}

AssignStats BoundedAssigner::assign_rows(const Centers& centers, const std::vector<double>&, int32_t* labels) {
    prices_.resize(centers.size(), 0.0);
    const std::vector<int32_t> before(labels, labels + n_rows_);
    candidates_.start(centers, scale_, limits());
    Plan plan{bounds_, labels, prices_, std::vector<int64_t>(centers.size())};
    approach(candidates_, plan);
    settle_sizes(candidates_, plan);
    prices_ = plan.prices;
    AssignStats stats;
    stats.distances = candidates_.distances();
    stats.path = "within bounds";
    // Rows change places only where that lowers the cost: otherwise equal assignments could follow in a circle.
    if (within_bounds(before.data(), centers.size())) {
        const auto cost = [&](const int32_t* of) {
            return own_cost(rows_, centers, of, weights_, n_rows_, options_.n_threads);
        };
        const double cost_before = cost(before.data());
        if (!(cost(labels) < cost_before * (1 - kLess))) {
            std::copy(before.begin(), before.end(), labels);
            return stats;
        }
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
