// The nearest cluster beside a row's own, against distances that are computed one by one.
#include <cmath>
#include <vector>

#include "core/exact.hpp"
#include "evaluation/nearest_cluster.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

void check_nearest(const Recipe& recipe, bool scaled) {
    const Table table = make_table(recipe);
    const Sample<float, int64_t> sample(table, recipe.sparse);
    Rows rows = sample.rows();
    check(rows.inspect(2).fault == Fault::none, "the rows of an evaluation have a fault");
    const int64_t n = table.n_rows, n_clusters = recipe.n_clusters;
    Centers centers;
    centers.n_features = table.n_features;
    std::vector<double> spread_of, scales;
    for (int64_t k = 0; k < n_clusters; ++k) {
        centers.items.push_back(center_at(table.row(k % n), table.n_features));
        spread_of.push_back(k % 5 == 4 ? INFINITY : double(k % 3) * 0.25);
    }
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < n; ++i) {
        labels.push_back(int32_t(i * 7 % n_clusters));
        scales.push_back(scaled ? 1 / double(1 + i % 4) : 1.0);
    }
    const NearestCluster search(rows, centers, spread_of.data());
    const double* const scale = scaled ? scales.data() : nullptr;
    std::vector<double> own(n);
    own_distances(rows, centers, labels.data(), nullptr, n, own.data(), 3, scale);
    for (const int n_threads : {1, 3}) {
        std::vector<double> other(n);
        std::vector<int32_t> nearest(n);
        // In two ranges, the second of which begins within a block.
        const int64_t middle = n / 3;
        search.find(0, middle, scale, labels.data(), other.data(), nearest.data(), n_threads);
        search.find(middle, n, scale, labels.data(), other.data() + middle, nearest.data() + middle, n_threads);
        for (int64_t i = 0; i < n; ++i) {
            std::vector<double> point(table.row(i), table.row(i) + table.n_features);
            for (double& value : point) value *= scales[i];
            double least = INFINITY, norms = 1;
            for (int64_t k = 0; k < n_clusters; ++k) {
                const std::vector<double> at = spread(centers.items[k], table.n_features);
                const double distance2 = squared_distance(point.data(), at.data(), table.n_features);
                norms = std::max(norms, distance2);
                if (k == labels[i])
                    check(close(own[i], distance2, norms), "a scaled row is at another distance from its center");
                else
                    least = std::min(least, distance2 + spread_of[k]);
            }
            check(n_clusters > 1 ? close(other[i], least, norms) : other[i] == INFINITY && nearest[i] == -1,
                  "another cluster is nearer");
            check(nearest[i] != labels[i], "a row's own cluster is its neighbor");
        }
    }
}

}  // namespace

void check_evaluation() {
    const Recipe recipes[] = {
        {"sparse", 200, 60, 13, 0.2},
        {"far away", 90, 5, 6, 1.0, 1e4, false, false},
        {"ties", 70, 5, 4, 0.5, 0, true},
        {"one cluster", 20, 8, 1, 0.5},
        {"no entries", 12, 5, 3, 0.0},
    };
    for (const Recipe& recipe : recipes)
        for (const bool scaled : {false, true}) check_nearest(recipe, scaled);
}

}  // namespace sparsecluster
