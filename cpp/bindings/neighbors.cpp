// Near rows: graphs, density and the minimum spanning tree.
#include <cmath>

#include "bindings/bindings.hpp"
#include "bindings/reporter.hpp"
#include "core/parallel.hpp"
#include "neighbors/density.hpp"
#include "neighbors/graphs.hpp"
#include "neighbors/spanning_tree.hpp"

namespace sparsecluster {

namespace {

NeighborOptions options_of(const std::string& metric, int n_threads, int64_t memory_limit, int64_t block_rows,
                           const nb::object& progress) {
    require(block_rows >= 1 && block_rows <= 65536, "a block has 1 to 65,536 rows");
    require(n_threads >= 1, "at least one thread is needed");
    NeighborOptions options;
    options.metric = metric_named(metric);
    options.n_threads = n_threads;
    options.memory_limit = memory_limit;
    options.block_rows = block_rows;
    options.progress = reporter<double>(progress);
    return options;
}

void check_alike(const PyRows& queries, const PyRows& rows) {
    require(queries.get().n_features() == rows.get().n_features(), "queries and rows differ in features");
    require(queries.get().matrix().index() == rows.get().matrix().index(), "queries and rows differ in type");
}

std::tuple<int64_t, bool, Out<int64_t>, Out<int32_t>, Out<double>> py_radius_graph(
    const PyRows& queries, const PyRows& rows, double radius, const std::string& metric, int n_threads,
    int64_t memory_limit, int64_t block_rows, const nb::object& progress) {
    check_alike(queries, rows);
    require(std::isfinite(radius), "the radius is not finite");
    const NeighborOptions options = options_of(metric, n_threads, memory_limit, block_rows, progress);
    Graph graph;
    {
        const GilReleased released;
        TeamScope team(n_threads);
        graph = radius_graph(queries.get(), rows.get(), radius, options);
    }
    return {graph.n_entries, graph.fits, to_numpy(std::move(graph.indptr)), to_numpy(std::move(graph.indices)),
            to_numpy(std::move(graph.distances))};
}

std::tuple<Out<int32_t>, Out<double>> py_nearest_rows(const PyRows& queries, const PyRows& rows, int64_t k,
                                                       double radius, const std::string& metric, int n_threads,
                                                       int64_t memory_limit, int64_t block_rows,
                                                       const nb::object& progress) {
    check_alike(queries, rows);
    require(k >= 1 && k <= rows.get().n_rows() && !std::isnan(radius), "k is out of range");
    const NeighborOptions options = options_of(metric, n_threads, memory_limit, block_rows, progress);
    Nearest nearest;
    {
        const GilReleased released;
        TeamScope team(n_threads);
        nearest = nearest_rows(queries.get(), rows.get(), k, radius, options);
    }
    return {to_numpy(std::move(nearest.indices)), to_numpy(std::move(nearest.distances))};
}

Out<double> py_pair_distances(const PyRows& queries, const PyRows& rows, In<int64_t> query_ids, In<int64_t> row_ids,
                              const std::string& metric) {
    check_alike(queries, rows);
    require(query_ids.size() == row_ids.size(), "a pair is a query and a row");
    for (size_t p = 0; p < row_ids.size(); ++p) {
        require(query_ids.data()[p] >= 0 && query_ids.data()[p] < queries.get().n_rows(), "no such query");
        require(row_ids.data()[p] >= 0 && row_ids.data()[p] < rows.get().n_rows(), "no such row");
    }
    std::vector<double> distances;
    {
        const GilReleased released;
        distances = pair_distances(queries.get(), rows.get(), query_ids.data(), row_ids.data(),
                                   int64_t(row_ids.size()), metric_named(metric));
    }
    return to_numpy(std::move(distances));
}

std::tuple<Out<int32_t>, Out<uint8_t>, bool> py_dbscan(const PyRows& rows, double radius, double min_samples,
                                                        Weights weights, const std::string& metric, int n_threads,
                                                        int64_t memory_limit, int64_t block_rows,
                                                        const nb::object& progress) {
    require(std::isfinite(radius), "the radius is not finite");
    const NeighborOptions options = options_of(metric, n_threads, memory_limit, block_rows, progress);
    const double* const row_weights = weights_of(weights, rows.get());
    Density density;
    {
        const GilReleased released;
        TeamScope team(n_threads);
        density = dbscan(rows.get(), radius, min_samples, row_weights, options);
    }
    return {to_numpy(std::move(density.labels)), to_numpy(std::move(density.core)), density.graph_kept};
}

std::tuple<Out<int32_t>, Out<int32_t>, Out<double>> py_spanning_tree(
    const PyRows& rows, int64_t min_samples, const std::string& metric, int n_threads, int64_t memory_limit,
    int64_t block_rows, const nb::object& progress) {
    const int64_t n = rows.get().n_rows();
    require(min_samples >= 1 && min_samples <= n, "min_samples is out of range");
    // A search begins with a few neighbors even where none are needed for the core distances.
    constexpr int64_t kFew = 4;
    const int64_t k = std::min(n - 1, std::max(min_samples - 1, kFew));
    NeighborOptions options = options_of(metric, n_threads, memory_limit, block_rows, progress);
    SpanningTree tree;
    if (k > 0) {
        const GilReleased released;
        TeamScope team(n_threads);
        const OnProgress whole = options.progress;
        if (whole) options.progress = [&](double part) { whole(0.5 * part); };
        const Nearest near = nearest_rows(rows.get(), rows.get(), k, INFINITY, options);
        std::vector<double> core(n, 0.0);
        for (int64_t i = 0; min_samples > 1 && i < n; ++i) core[i] = near.distances[i * k + min_samples - 2];
        if (whole) options.progress = [&](double part) { whole(0.5 + 0.5 * part); };
        tree = spanning_tree(rows.get(), near, k, core.data(), options);
    }
    return {to_numpy(std::move(tree.from)), to_numpy(std::move(tree.to)), to_numpy(std::move(tree.weights))};
}

}  // namespace

void bind_neighbors(nb::module_& m) {
    m.attr("NEIGHBOR_BLOCK_ROWS") = kBlockRows;
    m.attr("GRAPH_ENTRY_BYTES") = kEntryBytes;
    m.def("radius_graph", &py_radius_graph, "queries"_a, "rows"_a, "radius"_a, "metric"_a, "n_threads"_a,
          "memory_limit"_a, "block_rows"_a = kBlockRows, "progress"_a.none() = nb::none());
    m.def("nearest_rows", &py_nearest_rows, "queries"_a, "rows"_a, "k"_a, "radius"_a, "metric"_a, "n_threads"_a,
          "memory_limit"_a, "block_rows"_a = kBlockRows, "progress"_a.none() = nb::none());
    m.def("pair_distances", &py_pair_distances, "queries"_a, "rows"_a, "query_ids"_a, "row_ids"_a, "metric"_a);
    m.def("dbscan", &py_dbscan, "rows"_a, "radius"_a, "min_samples"_a, "weights"_a.none(), "metric"_a, "n_threads"_a,
          "memory_limit"_a, "block_rows"_a = kBlockRows, "progress"_a.none() = nb::none());
    m.def("spanning_tree", &py_spanning_tree, "rows"_a, "min_samples"_a, "metric"_a, "n_threads"_a, "memory_limit"_a,
          "block_rows"_a = kBlockRows, "progress"_a.none() = nb::none());
}

}  // namespace sparsecluster
