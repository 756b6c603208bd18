// The nearest cluster beside a row's own, against distances that are computed one by one.
#include <cmath>
#include <vector>

#include "core/exact.hpp"
#include "evaluation/nearest_cluster.hpp"
#include "evaluation/neighbor_track.hpp"
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
    const double* const scale = scaled ? scales.data() : nullptr;
    std::vector<double> own(n);
    own_distances(rows, centers, labels.data(), nullptr, n, own.data(), 3, scale);
    for (const int n_threads : {1, 3}) {
        std::vector<int32_t> nearest(n), whole(n);
        const NearestCluster search(rows, centers, spread_of.data(), 1 << 20, n_threads);
        const int64_t middle = n / 3;
        search.find(0, middle, scale, labels.data(), nearest.data(), n_threads);
        search.find(middle, n, scale, labels.data(), nearest.data() + middle, n_threads);
        search.find(0, n, scale, labels.data(), whole.data(), n_threads);
        check(nearest == whole, "the nearest cluster depends on the range of rows");
        for (int64_t i = 0; i < n; ++i) {
            std::vector<double> point(table.row(i), table.row(i) + table.n_features);
            for (double& value : point) value *= scales[i];
            double least = INFINITY, found = INFINITY, norms = 1;
            for (int64_t k = 0; k < n_clusters; ++k) {
                const std::vector<double> at = spread(centers.items[k], table.n_features);
                const double distance2 = squared_distance(point.data(), at.data(), table.n_features);
                norms = std::max(norms, distance2);
                if (k == labels[i])
                    check(close(own[i], distance2, norms), "a scaled row is at another distance from its center");
                else
                    least = std::min(least, distance2 + spread_of[k]);
                if (k == nearest[i]) found = distance2 + spread_of[k];
            }
            check(nearest[i] != labels[i], "a row's own cluster is its neighbor");
            check(least == INFINITY ? nearest[i] == -1 : close(found, least, norms), "another cluster is nearer");
        }
    }
}

// The means of the clusters of a labelling; what has no rows is at the first row.
Centers means_of(const Table& table, const std::vector<int32_t>& labels, int64_t n_clusters) {
    Centers centers;
    centers.n_features = table.n_features;
    for (int64_t k = 0; k < n_clusters; ++k) {
        std::vector<double> mean(table.n_features, 0.0);
        int64_t size = 0;
        for (int64_t i = 0; i < table.n_rows; ++i) {
            if (labels[i] != k) continue;
            ++size;
            for (int64_t f = 0; f < table.n_features; ++f) mean[f] += table.row(i)[f];
        }
        for (double& value : mean) value /= double(std::max<int64_t>(size, 1));
        centers.items.push_back(center_at(size > 0 ? mean.data() : table.row(0), table.n_features));
    }
    return centers;
}

// Clusters of one labelling after the other, most of which stay: what is found is what a search finds that knows nothing.
void check_track(const Recipe& recipe) {
    const Table table = make_table(recipe);
    const Sample<float, int32_t> sample(table, recipe.sparse);
    Rows rows = sample.rows();
    check(rows.inspect(2).fault == Fault::none, "the rows of a track have a fault");
    const int64_t n = table.n_rows;
    std::vector<int32_t> labels(n);
    for (int64_t i = 0; i < n; ++i) labels[i] = int32_t(i * 7 % recipe.n_clusters);
    NeighborTrack track(rows, 2, 1 << 20);
    std::mt19937 random(7);
    for (int step = 0; step < 12; ++step) {
        const int64_t n_clusters = recipe.n_clusters + step / 2;
        // Nobody moves, some do, or two rows change places, which may be equal.
        if (step % 3 == 1)
            for (int64_t turn = 0; turn < 3; ++turn) labels[random() % n] = int32_t(random() % n_clusters);
        if (step % 3 == 2) std::swap(labels[random() % n], labels[random() % n]);
        const Centers centers = means_of(table, labels, n_clusters);
        std::vector<double> spreads(2 * n_clusters, 0.0);
        for (int64_t k = 0; k < n_clusters; ++k) spreads[k] = k % 5 == 4 ? INFINITY : double(k % 3) * 0.25;
        const int n_threads = 1 + step % 3;
        track.update(centers, spreads.data(), labels.data(), n_threads);
        NeighborTrack anew(rows, 2, 1 << 20);
        anew.update(centers, spreads.data(), labels.data(), 1);
        for (int64_t m = 0; m < 2; ++m) {
            check(track.nearest(m) == anew.nearest(m), "the nearest cluster depends on what was known");
            check(track.least(m) == anew.least(m), "the distance to it depends on what was known");
            std::vector<int32_t> nearest(n);
            const NearestCluster search(rows, centers, spreads.data() + m * n_clusters, 1 << 20, 1);
            search.find(0, n, nullptr, labels.data(), nearest.data(), 1);
            check(nearest == anew.nearest(m), "a track finds another cluster than a search");
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
    for (const Recipe& recipe : recipes) check_track(recipe);
}

}  // namespace sparsecluster
