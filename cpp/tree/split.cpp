#include "tree/split.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <type_traits>
#include <variant>

#include "core/parallel.hpp"
#include "tree/node_kmeans.hpp"

namespace sparsecluster {

namespace {

constexpr double kUneven = 1.1;  // of an even share of the rows: what a thread may have

// Of nodes in descending order of their rows: how many have all threads to themselves, so that the others, one per
// thread, leave none waiting for long.
int64_t count_large(const std::vector<NodeTask>& nodes, const std::vector<int64_t>& order, int n_threads) {
    const auto n = int64_t(order.size());
    if (n_threads == 1) return 0;
    int64_t total = 0;
    for (const NodeTask& node : nodes) total += node.n_rows;
    for (int64_t n_large = 0; n_large < std::min<int64_t>(n, 2 * n_threads); ++n_large) {
        std::vector<int64_t> rows_of(n_threads, 0);
        for (int64_t j = n_large; j < n; ++j) *std::min_element(rows_of.begin(), rows_of.end()) += nodes[order[j]].n_rows;
        const int64_t most = *std::max_element(rows_of.begin(), rows_of.end());
        if (double(most) * n_threads <= kUneven * double(total)) return n_large;
        total -= nodes[order[n_large]].n_rows;
    }
    return std::min<int64_t>(n, 2 * n_threads);
}

}  // namespace

struct NodeSplitter::Workers {
    // One for each thread, of the type of the values.
    std::variant<std::vector<NodeKMeans<float>>, std::vector<NodeKMeans<double>>> all;
};

NodeSplitter::NodeSplitter(const Rows& rows, const SplitOptions& options)
    : rows_(rows), options_(options), workers_(std::make_unique<Workers>()) {
    std::visit([&]<class V, class I>(const Matrix<V, I>&) {
        workers_->all = std::vector<NodeKMeans<V>>(std::max(options.n_threads, 1));
    }, rows.matrix());
}

NodeSplitter::~NodeSplitter() = default;

void NodeSplitter::split(const std::vector<NodeTask>& nodes, const std::function<void(int64_t, Split)>& done) {
    std::vector<int64_t> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return nodes[a].n_rows > nodes[b].n_rows; });
    const int64_t n_large = count_large(nodes, order, options_.n_threads);
    std::atomic<int64_t> n_done{0};
    std::visit([&](auto& workers) {
        auto split_one = [&](int64_t j, int thread, int n_threads) {
            const NodeTask& node = nodes[order[j]];
            done(order[j], workers[thread].split(rows_, node, options_, n_threads));
            const int64_t now = n_done += node.n_rows;
            if (thread == 0 && on_rows) on_rows(now);
        };
        for (int64_t j = 0; j < n_large; ++j) split_one(j, 0, options_.n_threads);
        parallel_blocks(int64_t(order.size()) - n_large, options_.n_threads,
                        [&](int64_t j, int thread) { split_one(n_large + j, thread, 1); });
    }, workers_->all);
}

std::vector<Split> split_nodes(const Rows& rows, const std::vector<NodeTask>& nodes, const SplitOptions& options,
                               const std::function<void(int64_t)>& on_rows) {
    const TeamScope team(options.n_threads);
    NodeSplitter splitter(rows, options);
    splitter.on_rows = on_rows;
    std::vector<Split> splits(nodes.size());
    splitter.split(nodes, [&](int64_t node, Split split) { splits[node] = std::move(split); });
    return splits;
}

}  // namespace sparsecluster
