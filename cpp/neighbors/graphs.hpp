// The graphs of near rows: all pairs within a radius, and the k nearest rows of each; exact, ties to the lower row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/metric.hpp"
#include "core/rows.hpp"
#include "neighbors/row_index.hpp"
#include "neighbors/search.hpp"

namespace sparsecluster {

struct NeighborOptions {
    Metric metric = Metric::euclidean;
    int n_threads = 1;
    int64_t memory_limit = int64_t(1) << 62;  // of the result, and half of it for the index
    int64_t block_rows = kBlockRows;           // results do not depend on it
    OnProgress progress;
};

// Rows of distances in CSR, each sorted by distance, then by number; a row is the first of its own neighbors.
struct Graph {
    int64_t n_entries = 0;  // counted in any case
    bool fits = true;       // the memory limit; else it has no entries
    std::vector<int64_t> indptr;
    std::vector<int32_t> indices;
    std::vector<double> distances;
};

// Bytes of one entry of a graph, and of one while it is put together.
inline constexpr int64_t kEntryBytes = sizeof(int32_t) + sizeof(double);
inline constexpr int64_t kPairBytes = 2 * sizeof(int32_t) + sizeof(double);

// Rows of `rows` within `radius` of each query; `queries` are the same object for the graph of the rows themselves,
// which has each row as its own neighbor, at zero.
Graph radius_graph(const Rows& queries, const Rows& rows, double radius, const NeighborOptions& options);

// The k nearest rows of each query, no farther than `radius`: k places each, those that are not filled hold -1 and
// infinity. Where queries and rows are the same object a row is not its own neighbor.
struct Nearest {
    std::vector<int32_t> indices;
    std::vector<double> distances;
};
Nearest nearest_rows(const Rows& queries, const Rows& rows, int64_t k, double radius, const NeighborOptions& options);

// The distance of each pair of a query and a row.
std::vector<double> pair_distances(const Rows& queries, const Rows& rows, const int64_t* query_ids,
                                   const int64_t* row_ids, int64_t n_pairs, Metric metric);

// Indexes the rows run by run, and searches them for the queries from `first(run begin)` on.
template <Finder F, class First>
void search_runs(F& finder, const Rows& queries, const Rows& rows, const NeighborOptions& options, const First& first) {
    const double scale = std::min(queries.scale(), rows.scale());
    RowIndex index(rows, {options.metric, scale}, options.block_rows);
    const std::vector<int64_t> ends = index.run_ends(options.memory_limit / 2);
    const double share = ends.empty() ? 1.0 : 1.0 / double(ends.size());
    for (size_t run = 0; run < ends.size(); ++run) {
        const int64_t begin = run == 0 ? 0 : ends[run - 1];
        index.build(begin, ends[run], options.n_threads);
        OnProgress progress;
        if (options.progress) progress = [&](double part) { options.progress((double(run) + part) * share); };
        if (!search(finder, index, queries, first(begin), queries.n_rows(), options.n_threads, progress))
            throw std::invalid_argument("queries and rows differ in type");
    }
}

}  // namespace sparsecluster
