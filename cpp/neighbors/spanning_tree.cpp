// Boruvka's algorithm: in each round every component finds the lightest edge that leaves it. Each row remembers the
// lightest edge that it found, or how far it has looked without finding one, so that most rows need not search again.
#include "neighbors/spanning_tree.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "core/parallel.hpp"
#include "neighbors/components.hpp"

namespace sparsecluster {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Edge {
    double weight = kInfinity, distance = kInfinity;
    int32_t from = -1, to = -1;

    bool operator<(const Edge& other) const {
        return std::tie(weight, distance, from, to) < std::tie(other.weight, other.distance, other.from, other.to);
    }
};

// The lightest edge that leaves each component.
class EdgeFinder {
public:
    static constexpr bool kAnyOrder = true;
    static constexpr double kTrust = 0.2;

    EdgeFinder(int64_t n, const double* core) : best(n), known(n, 0.0), component(n), core_(core), bound_(n) {}

    double reach(int64_t i) const {
        const double bound = bound_[component[i]].load(std::memory_order_relaxed);
        return settled(i) || known[i] > bound || core(i) > bound ? -1.0 : bound;
    }
    int64_t missing(int64_t) const { return 1; }
    int64_t wanted(int64_t) const { return 0; }
    int64_t limit(int64_t) const { return int64_t(best.size()); }
    // Whether an edge would leave the component, and could be lighter than the row's lightest if it had no length.
    bool considers(int64_t i, int64_t j) const {
        return component[i] != component[j] && make_edge(i, j, 0.0) < best[i];
    }
    void found(int64_t i, int64_t j, double distance, int) {
        const Edge edge = make_edge(i, j, distance);
        if (edge < best[i]) best[i] = edge;
        lower_bound(component[i], edge.weight);
    }
    void finish(int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) looked_[i] = bound_[component[i]].load(std::memory_order_relaxed);
    }

    Edge make_edge(int64_t i, int64_t j, double distance) const {
        return {std::max({distance, core(i), core(j)}), distance, int32_t(std::min(i, j)), int32_t(std::max(i, j))};
    }

    // Whether the row's edge is known to be its lightest, and still leaves the component.
    bool settled(int64_t i) const { return settled_[i]; }

    // Takes over the components of a round.
    void begin_round(Components& sets, const Nearest& near, int64_t k) {
        const auto n = int64_t(best.size());
        looked_.assign(n, 0.0);
        settled_.assign(n, 0);
        for (int64_t i = 0; i < n; ++i) {
            component[i] = sets.find(int32_t(i));
            bound_[i].store(kInfinity, std::memory_order_relaxed);
        }
        for (int64_t i = 0; i < n; ++i) {
            if (best[i].from >= 0 && component[best[i].from] != component[best[i].to]) {
                settled_[i] = 1;
                lower_bound(component[i], best[i].weight);
                continue;
            }
            best[i] = {};
            for (int64_t p = i * k; p < (i + 1) * k; ++p)
                if (near.indices[p] >= 0 && considers(i, near.indices[p]))
                    lower_bound(component[i], make_edge(i, near.indices[p], near.distances[p]).weight);
        }
    }

    // After the search: edges that may not be the lightest of their row are forgotten for the next round.
    void end_round(std::vector<Edge>& lightest) {
        lightest.assign(best.size(), {});
        for (size_t i = 0; i < best.size(); ++i) {
            lightest[component[i]] = std::min(lightest[component[i]], best[i]);
            if (settled_[i]) continue;
            // All edges up to where the row looked were found, unless it did not have to look.
            if (best[i].weight <= looked_[i])
                known[i] = best[i].weight;
            else
                known[i] = std::max(known[i], std::isfinite(looked_[i]) ? looked_[i] : 0.0), best[i] = {};
        }
    }

    std::vector<Edge> best;          // per row
    std::vector<double> known;       // per row: no edge that leaves its component is lighter
    std::vector<int32_t> component;

private:
    double core(int64_t i) const { return core_ ? core_[i] : 0.0; }
    void lower_bound(int32_t of, double weight) {
        double bound = bound_[of].load(std::memory_order_relaxed);
        while (weight < bound && !bound_[of].compare_exchange_weak(bound, weight, std::memory_order_relaxed)) {
        }
    }

    const double* core_;
    std::vector<std::atomic<double>> bound_;  // per component: of the lightest edge so far
    std::vector<double> looked_;              // per row, in this round
    std::vector<uint8_t> settled_;
};

}  // namespace

SpanningTree spanning_tree(const Rows& rows, const Nearest& near, int64_t k, const double* core_distances,
                           const NeighborOptions& options) {
    const int64_t n = rows.n_rows();
    Components components(n);
    EdgeFinder finder(n, core_distances);
    std::vector<Edge> edges, lightest;
    RowIndex index(rows, {options.metric, rows.scale()}, options.block_rows);
    const std::vector<int64_t> ends = index.run_ends(options.memory_limit / 2);
    SpanningTree tree;
    while (int64_t(edges.size()) + 1 < n) {
        finder.begin_round(components, near, k);
        for (size_t run = 0; run < ends.size(); ++run) {
            if (ends.size() > 1 || tree.n_rounds == 0) index.build(run ? ends[run - 1] : 0, ends[run], options.n_threads);
            search(finder, index, rows, 0, n, options.n_threads, nullptr);
        }
        finder.end_round(lightest);
        const size_t before = edges.size();
        for (const Edge& edge : lightest)
            if (edge.from >= 0 && components.unite(edge.from, edge.to)) edges.push_back(edge);
        if (edges.size() == before) throw std::logic_error("no component found an edge");
        ++tree.n_rounds;
        if (options.progress) options.progress(double(edges.size()) / double(n - 1));
        poll_interrupt();
    }
    std::sort(edges.begin(), edges.end());
    for (const Edge& edge : edges) {
        tree.from.push_back(edge.from);
        tree.to.push_back(edge.to);
        tree.weights.push_back(edge.weight);
    }
    return tree;
}

}  // namespace sparsecluster
