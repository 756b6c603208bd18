// Assignment within size bounds: the bounds hold, and no exchange of rows among clusters lowers the cost.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/metric.hpp"
#include "sizes/bounded.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

// Whether a round of rows, each into the cluster of the next, would lower the cost; a round may pass through the pool,
// where one cluster gives a row away for good and another takes one. That none does is the mark of an optimum.
bool can_improve(const std::vector<double>& costs, const std::vector<int32_t>& labels, int64_t n_clusters,
                 const std::vector<int64_t>& sizes, SizeBounds bounds) {
    const int64_t n = n_clusters + 1;
    std::vector<double> step(n * n, INFINITY);
    // Roundings must not make a round: the search below would double it with every cluster that it goes through.
    const double rounding = 1e-12 * *std::max_element(costs.begin(), costs.end());
    for (size_t i = 0; i < labels.size(); ++i)
        for (int64_t k = 0; k < n_clusters; ++k) {
            double& to = step[labels[i] * n + k];
            to = std::min(to, costs[i * n_clusters + k] - costs[i * n_clusters + labels[i]] + rounding);
        }
    for (int64_t k = 0; k < n_clusters; ++k) {
        if (sizes[k] < bounds.most) step[k * n + n_clusters] = 0;
        if (sizes[k] > bounds.least) step[n_clusters * n + k] = 0;
    }
    for (int64_t via = 0; via < n; ++via)
        for (int64_t from = 0; from < n; ++from)
            for (int64_t to = 0; to < n; ++to)
                step[from * n + to] = std::min(step[from * n + to], step[from * n + via] + step[via * n + to]);
    for (int64_t k = 0; k < n; ++k)
        if (step[k * n + k] < 0) return true;
    return false;
}

template <class V, class I>
void check_bounds(const Table& table, const Recipe& recipe, Metric metric) {
    const Sample<V, I> sample(table, recipe.sparse);
    Rows rows = sample.rows();
    rows.inspect(1);
    const int64_t n = table.n_rows, n_clusters = recipe.n_clusters;
    Centers centers;
    centers.n_features = table.n_features;
    for (int64_t k = 0; k < n_clusters; ++k) {
        Center center = center_at(table.row((k * 5 + 1) % n), table.n_features);
        if (metric == Metric::cosine) {
            if (center.size() == 0) center = {{int32_t(k % table.n_features)}, {1.0}, 1.0};
            to_unit_length(center);
        }
        centers.items.push_back(std::move(center));
    }
    const std::vector<double> weights = make_weights(n);
    std::vector<double> costs = naive_distances(table, centers);
    for (int64_t p = 0; recipe.weighted && p < n * n_clusters; ++p) costs[p] *= weights[p / n_clusters];
    const int64_t mean = n / n_clusters, up = (n + n_clusters - 1) / n_clusters;
    for (const SizeBounds bounds : {SizeBounds{1, n}, {mean, up}, {1, up + 1}, {mean / 2, n}, {mean, n}}) {
        std::vector<std::vector<int32_t>> found;
        for (const int n_threads : {1, 3})
            for (const int64_t list_limit : {int64_t(0), int64_t(1) << 30}) {
                BoundedAssigner assigner(rows, recipe.weighted ? weights.data() : nullptr, bounds,
                                         {n_threads, metric}, list_limit);
                std::vector<int32_t> labels(n, -1);
                assigner.assign(centers, {}, labels.data(), n);
                std::vector<int64_t> sizes(n_clusters);
                for (int32_t label : labels) ++sizes[label];
                for (int64_t size : sizes) check(bounds.least <= size && size <= bounds.most, "a size bound is broken");
                check(!can_improve(costs, labels, n_clusters, sizes, bounds), "an assignment within bounds costs too much");
                const std::vector<int32_t> before = labels;
                assigner.assign(centers, std::vector<double>(n_clusters), labels.data(), n);
                check(labels == before, "a second assignment by the same centers differs");
                found.push_back(labels);
            }
        check(found[0] == found[2] && found[1] == found[3], "sizes depend on the number of threads");
    }
}

// A cost comes back from fixed point as it was, and sums have no rounding, whatever the scale.
void check_fixed_costs() {
    for (const double largest : {1e-200, 1e-30, 1.0, 1e30, 1e290})
        for (const int64_t n_clusters : {1, 1000, 10'000'000}) {
            const CostUnit unit(largest, n_clusters);
            for (const double share : {1.0, 1 / 3.0, 1e-3 / 7, 1e-10 / 11})
                check(unit.rounded(unit.fixed(largest * share)) == largest * share, "a cost changes in fixed point");
            const int64_t n_terms = std::min<int64_t>(n_clusters, 1000);
            FixedCost sum = 0;
            for (int64_t k = 0; k < n_terms; ++k) sum += unit.fixed(largest) - unit.fixed(largest / 3);
            for (int64_t k = 0; k < n_terms; ++k) sum -= unit.fixed(largest) - unit.fixed(largest / 3);
            check(sum == 0, "a sum of costs is rounded");
        }
}

}  // namespace

void check_sizes(const char* level) {
    check_fixed_costs();
    const Recipe recipes[] = {
        {"sizes sparse", 90, 60, 7, 0.1},
        {"sizes of many clusters", 120, 40, 40, 0.2},
        {"sizes weighted", 80, 30, 25, 0.2, 0, false, true, true},
        {"sizes ties", 70, 5, 20, 0.5, 0, true},
        {"sizes dense", 60, 7, 30, 1.0, 0, false, false},
        {"sizes one cluster", 12, 6, 1, 0.5},
        {"sizes single rows", 25, 6, 25, 0.7},
        {"sizes no entries", 40, 5, 24, 0.0},
        {"sizes of many rows, by samples", 8300, 6, 6, 0.6},
    };
    for (const Recipe& recipe : recipes) {
        context = std::string(recipe.name) + ", " + level;
        Table table = make_table(recipe);
        check_bounds<float, int32_t>(table, recipe, Metric::euclidean);
        check_bounds<double, int64_t>(table, recipe, Metric::euclidean);
        put_on_sphere<float>(table);
        check_bounds<float, int32_t>(table, recipe, Metric::cosine);
    }
}

}  // namespace sparsecluster
