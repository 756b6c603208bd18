#include "tree/split.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <variant>

#include "core/parallel.hpp"
#include "tree/node_kmeans.hpp"

namespace sparsecluster {

namespace {

template <class V>
std::vector<Split> split_all(const Rows& rows, const std::vector<NodeTask>& nodes, const SplitOptions& options) {
    const TeamScope team(options.n_threads);
    std::vector<NodeKMeans<V>> workers(std::max(options.n_threads, 1));
    std::vector<Split> splits(nodes.size());
    std::vector<int64_t> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return nodes[a].n_rows > nodes[b].n_rows; });
    int64_t total = 0, done = 0;
    for (const NodeTask& node : nodes) total += node.n_rows;
    // A node of more than its share of the rows would leave the other threads waiting.
    int64_t n_large = 0;
    while (options.n_threads > 1 && n_large < int64_t(order.size()) &&
           nodes[order[n_large]].n_rows * 2 * options.n_threads > total)
        ++n_large;
    for (int64_t j = 0; j < n_large; ++j) {
        const NodeTask& node = nodes[order[j]];
        splits[order[j]] = workers[0].split(rows, node, options, options.n_threads);
        done += node.n_rows;
        if (options.on_rows) options.on_rows(done);
    }
    std::atomic<int64_t> finished{done};
    parallel_blocks(int64_t(order.size()) - n_large, options.n_threads, [&](int64_t j, int thread) {
        const NodeTask& node = nodes[order[n_large + j]];
        splits[order[n_large + j]] = workers[thread].split(rows, node, options, 1);
        const int64_t now = finished += node.n_rows;
        if (thread == 0 && options.on_rows) options.on_rows(now);
    });
    return splits;
}

}  // namespace

std::vector<Split> split_nodes(const Rows& rows, const std::vector<NodeTask>& nodes, const SplitOptions& options) {
    return std::visit(
        [&]<class V, class I>(const Matrix<V, I>&) { return split_all<V>(rows, nodes, options); }, rows.matrix());
}

}  // namespace sparsecluster
