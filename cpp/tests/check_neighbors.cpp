// Near rows, density and spanning trees against naive versions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "neighbors/components.hpp"
#include "neighbors/density.hpp"
#include "neighbors/graphs.hpp"
#include "neighbors/spanning_tree.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

// All distances, row by row.
std::vector<double> all_pairs(const Table& table, Metric metric) {
    const int64_t n = table.n_rows, d = table.n_features;
    std::vector<double> out(n * n, 0.0);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            if (i == j) continue;
            if (metric == Metric::euclidean) {
                out[i * n + j] = std::sqrt(squared_distance(table.row(i), table.row(j), d));
                continue;
            }
            double product = 0, ni = 0, nj = 0;
            for (int64_t f = 0; f < d; ++f) {
                product += table.row(i)[f] * table.row(j)[f];
                ni += table.row(i)[f] * table.row(i)[f];
                nj += table.row(j)[f] * table.row(j)[f];
            }
            out[i * n + j] = ni > 0 && nj > 0 ? 1 - product / std::sqrt(ni * nj) : 1.0;
        }
    return out;
}

// In the middle of a gap between two distances, so that rounding does not matter.
double radius_between(std::vector<double> distances, double share) {
    std::sort(distances.begin(), distances.end());
    auto at = size_t(share * double(distances.size() - 1));
    while (at + 1 < distances.size() && distances[at + 1] - distances[at] < 1e-6) ++at;
    return at + 1 < distances.size() ? 0.5 * (distances[at] + distances[at + 1]) : distances[at] + 1;
}

void check_graph(const Rows& rows, const std::vector<double>& expected, double radius,
                 const NeighborOptions& options) {
    const int64_t n = rows.n_rows();
    const Graph graph = radius_graph(rows, rows, radius, options);
    int64_t n_within = 0;
    for (double distance : expected) n_within += distance <= radius;
    check(graph.fits && graph.n_entries == n_within, "a radius graph has other pairs");
    for (int64_t i = 0; i < n; ++i)
        for (int64_t p = graph.indptr[i]; p < graph.indptr[i + 1]; ++p) {
            const double distance = expected[i * n + graph.indices[p]];
            check(std::abs(distance - graph.distances[p]) <= 1e-9 * (1 + distance), "a distance in a graph differs");
            check(p == graph.indptr[i] || graph.distances[p - 1] <= graph.distances[p], "a graph is not sorted");
        }
    NeighborOptions tight = options;
    tight.memory_limit = 8;
    const Graph counted = radius_graph(rows, rows, radius, tight);
    check(counted.n_entries == n_within, "a graph that does not fit is counted wrongly");
}

void check_nearest(const Rows& rows, const std::vector<double>& expected, const NeighborOptions& options) {
    const int64_t n = rows.n_rows();
    for (const int64_t k : {int64_t(1), std::min<int64_t>(7, n - 1), n - 1}) {
        const Nearest found = nearest_rows(rows, rows, k, INFINITY, options);
        for (int64_t i = 0; i < n; ++i) {
            std::vector<double> others;
            for (int64_t j = 0; j < n; ++j)
                if (i != j) others.push_back(expected[i * n + j]);
            std::sort(others.begin(), others.end());
            for (int64_t p = 0; p < k; ++p)
                check(std::abs(found.distances[i * k + p] - others[p]) <= 1e-9 * (1 + others[p]),
                      "a nearest row is another");
        }
    }
}

void check_density(const Rows& rows, const std::vector<double>& expected, double radius,
                   const NeighborOptions& options) {
    const int64_t n = rows.n_rows();
    NeighborOptions tight = options;
    tight.memory_limit = 8;
    const Density kept = dbscan(rows, radius, 3, nullptr, options), twice = dbscan(rows, radius, 3, nullptr, tight);
    check(kept.labels == twice.labels && kept.core == twice.core, "a second search finds other clusters");
    const std::vector<double> ones(n, 1.0);
    check(dbscan(rows, radius, 3, ones.data(), options).labels == kept.labels, "weights of one change clusters");
    for (int64_t i = 0; i < n; ++i) {
        int64_t near = 0;
        int32_t lowest = -1;
        for (int64_t j = 0; j < n; ++j) {
            if (expected[i * n + j] > radius) continue;
            ++near;
            if (kept.core[j] && (lowest < 0 || kept.labels[j] < lowest)) lowest = kept.labels[j];
        }
        check(bool(kept.core[i]) == (near >= 3), "another row is core");
        check(kept.labels[i] == lowest, "a row is in another cluster");
    }
}

void check_tree(const Rows& rows, const std::vector<double>& expected, int64_t min_samples,
                const NeighborOptions& options) {
    const int64_t n = rows.n_rows(), k = std::max<int64_t>(min_samples - 1, 1);
    const Nearest near = nearest_rows(rows, rows, k, INFINITY, options);
    std::vector<double> core(n, 0.0);
    for (int64_t i = 0; min_samples > 1 && i < n; ++i) core[i] = near.distances[i * k + k - 1];
    const SpanningTree tree = spanning_tree(rows, near, k, core.data(), options);
    // Prim's algorithm.
    std::vector<double> least(n, std::numeric_limits<double>::infinity()), weights;
    std::vector<uint8_t> inside(n, 0);
    int64_t last = 0;
    for (int64_t step = 1; step < n; ++step) {
        inside[last] = 1;
        int64_t next = -1;
        for (int64_t j = 0; j < n; ++j) {
            if (inside[j]) continue;
            least[j] = std::min(least[j], std::max({expected[last * n + j], core[last], core[j]}));
            if (next < 0 || least[j] < least[next]) next = j;
        }
        weights.push_back(least[next]);
        last = next;
    }
    std::sort(weights.begin(), weights.end());
    check(tree.weights.size() == weights.size(), "a spanning tree has another number of edges");
    Components components(n);
    for (size_t e = 0; e < weights.size(); ++e) {
        check(std::abs(weights[e] - tree.weights[e]) <= 1e-9 * (1 + weights[e]), "a spanning tree is not the least");
        check(components.unite(tree.from[e], tree.to[e]), "a spanning tree has a cycle");
    }
}

template <class V, class I>
void check_types(const Table& table, bool sparse) {
    const Sample<V, I> sample(table, sparse);
    Rows rows = sample.rows(), streamed = sample.rows(512);
    rows.inspect(1);
    streamed.inspect(1);
    for (const Metric metric : {Metric::euclidean, Metric::cosine}) {
        const std::vector<double> expected = all_pairs(table, metric);
        for (const int64_t block_rows : {int64_t(13), kBlockRows})
            for (const int n_threads : {1, 3}) {
                NeighborOptions options;
                options.metric = metric;
                options.n_threads = n_threads;
                options.block_rows = block_rows;
                for (const double share : {0.05, 0.6}) {
                    const double radius = radius_between(expected, share);
                    check_graph(n_threads == 1 ? rows : streamed, expected, radius, options);
                    check_density(rows, expected, radius, options);
                }
                if (table.n_rows < 2) continue;
                check_nearest(rows, expected, options);
                check_tree(rows, expected, 1, options);
                check_tree(rows, expected, std::min<int64_t>(4, table.n_rows), options);
            }
    }
}

}  // namespace

void check_neighbors(const char* level) {
    const Recipe recipes[] = {
        {"near sparse", 90, 60, 0, 0.1},
        {"near ties", 70, 5, 0, 0.5, 0, true},
        {"near dense", 60, 7, 0, 1.0, 0, false, false},
        {"near one row", 1, 6, 0, 0.5},
        {"near no entries", 9, 5, 0, 0.0},
    };
    for (const Recipe& recipe : recipes) {
        context = std::string(recipe.name) + ", " + level;
        const Table table = make_table(recipe);
        check_types<float, int32_t>(table, recipe.sparse);
        check_types<double, int32_t>(table, recipe.sparse);
        if (recipe.sparse) check_types<double, int64_t>(table, true);
    }
}

}  // namespace sparsecluster
