#include "neighbors/graphs.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

struct Pair {
    int32_t row, other;
    double distance;
};

// All pairs within a radius. Of one set of rows each pair once: a row looks at those before it.
class RadiusFinder {
public:
    static constexpr bool kAnyOrder = true;
    static constexpr double kTrust = 0.2;

    RadiusFinder(int64_t n_queries, int64_t n_rows, bool one_set, double radius, int64_t memory_limit, int n_threads)
        : n_queries_(n_queries),
          n_rows_(n_rows),
          one_set_(one_set),
          radius_(radius),
          most_(memory_limit / ((one_set ? 2 : 1) * kEntryBytes + kPairBytes)),
          found_(n_threads) {}

    double reach(int64_t) const { return radius_; }
    int64_t missing(int64_t) const { return 0; }  // its reach is finite
    int64_t wanted(int64_t) const { return 0; }
    int64_t limit(int64_t i) const { return one_set_ ? i : n_rows_; }
    bool considers(int64_t, int64_t) const { return true; }
    void found(int64_t i, int64_t j, double distance, int thread) {
        found_[thread].push_back({int32_t(i), int32_t(j), distance});
    }
    void finish(int64_t, int64_t, int thread) {
        std::vector<Pair>& pairs = found_[thread];
        if (pairs.empty()) return;
        if (n_pairs_.fetch_add(int64_t(pairs.size())) + int64_t(pairs.size()) <= most_) {
            pairs.shrink_to_fit();
            const std::lock_guard<std::mutex> lock(mutex_);
            parts_.push_back(std::move(pairs));
        } else {
            const std::lock_guard<std::mutex> lock(mutex_);
            parts_.clear();  // they are only counted from here on
        }
        pairs = {};
    }

    // The parts come in any order: that of the entries follows from the sorting.
    Graph graph(int n_threads) {
        Graph graph;
        const int64_t own = one_set_ ? n_queries_ : 0;
        graph.n_entries = n_pairs_ * (one_set_ ? 2 : 1) + own;
        graph.fits = n_pairs_ <= most_;
        if (!graph.fits) return graph;
        graph.indptr.assign(n_queries_ + 1, one_set_ ? 1 : 0);
        graph.indptr[0] = 0;
        for (const std::vector<Pair>& pairs : parts_)
            for (const Pair& pair : pairs) {
                ++graph.indptr[pair.row + 1];
                if (one_set_) ++graph.indptr[pair.other + 1];
            }
        std::partial_sum(graph.indptr.begin(), graph.indptr.end(), graph.indptr.begin());
        graph.indices.resize(graph.n_entries);
        graph.distances.resize(graph.n_entries);
        std::vector<int64_t> at(graph.indptr.begin(), graph.indptr.end() - 1);
        auto put = [&](int32_t row, int32_t other, double distance) {
            const int64_t p = at[row]++;
            graph.indices[p] = other;
            graph.distances[p] = distance;
        };
        for (int64_t i = 0; i < own; ++i) put(int32_t(i), int32_t(i), 0.0);
        for (std::vector<Pair>& pairs : parts_) {
            for (const Pair& pair : pairs) {
                put(pair.row, pair.other, pair.distance);
                if (one_set_) put(pair.other, pair.row, pair.distance);
            }
            pairs = {};
            poll_interrupt();
        }
        sort_rows(graph, n_threads);
        return graph;
    }

private:
    // By distance, then by number; where a row is its own neighbor it stays the first.
    void sort_rows(Graph& graph, int n_threads) const {
        constexpr int64_t kRows = 256;
        parallel_blocks((n_queries_ + kRows - 1) / kRows, n_threads, [&](int64_t block, int) {
            std::vector<std::pair<double, int32_t>> row;
            for (int64_t i = block * kRows; i < std::min(n_queries_, (block + 1) * kRows); ++i) {
                const int64_t begin = graph.indptr[i] + (one_set_ ? 1 : 0), end = graph.indptr[i + 1];
                row.clear();
                for (int64_t p = begin; p < end; ++p) row.emplace_back(graph.distances[p], graph.indices[p]);
                std::sort(row.begin(), row.end());
                for (int64_t p = begin; p < end; ++p)
                    std::tie(graph.distances[p], graph.indices[p]) = row[p - begin];
            }
        });
    }

    int64_t n_queries_, n_rows_;
    bool one_set_;
    double radius_;
    int64_t most_;
    std::atomic<int64_t> n_pairs_{0};
    std::mutex mutex_;
    std::vector<std::vector<Pair>> found_, parts_;
};

// The k nearest rows of each query, as a heap with the farthest on top.
class NearestFinder {
public:
    static constexpr bool kAnyOrder = true;
    static constexpr double kTrust = 0.2;

    NearestFinder(int64_t n_queries, int64_t n_rows, bool one_set, int64_t k, double radius)
        : n_rows_(n_rows), one_set_(one_set), k_(k), radius_(radius), size_(n_queries, 0), heaps_(n_queries * k) {}

    double reach(int64_t i) const { return size_[i] < k_ ? radius_ : heaps_[i * k_].first; }
    int64_t missing(int64_t i) const { return k_ - size_[i]; }
    int64_t wanted(int64_t) const { return k_ + (one_set_ ? 1 : 0); }
    int64_t limit(int64_t) const { return n_rows_; }
    // Of many equal rows the first k are known before the distances of the others are computed.
    bool considers(int64_t i, int64_t j) const {
        if (one_set_ && i == j) return false;
        return size_[i] < k_ || std::pair(0.0, int32_t(j)) < heaps_[i * k_];
    }
    void found(int64_t i, int64_t j, double distance, int) {
        const auto heap = heaps_.begin() + i * k_;
        const std::pair<double, int32_t> neighbor(distance, int32_t(j));
        if (size_[i] == k_) {
            if (!(neighbor < *heap)) return;
            std::pop_heap(heap, heap + k_);
            heap[k_ - 1] = neighbor;
        } else {
            heap[size_[i]++] = neighbor;
        }
        std::push_heap(heap, heap + size_[i]);
    }
    void finish(int64_t, int64_t, int) {}

    Nearest nearest() {
        Nearest nearest;
        nearest.indices.assign(heaps_.size(), -1);
        nearest.distances.assign(heaps_.size(), std::numeric_limits<double>::infinity());
        for (size_t i = 0; i < size_.size(); ++i) {
            const auto heap = heaps_.begin() + int64_t(i) * k_;
            std::sort_heap(heap, heap + size_[i]);
            for (int64_t p = 0; p < size_[i]; ++p)
                std::tie(nearest.distances[i * k_ + p], nearest.indices[i * k_ + p]) = heap[p];
        }
        return nearest;
    }

private:
    int64_t n_rows_;
    bool one_set_;
    int64_t k_;
    double radius_;
    std::vector<int32_t> size_;
    std::vector<std::pair<double, int32_t>> heaps_;
};

}  // namespace

Graph radius_graph(const Rows& queries, const Rows& rows, double radius, const NeighborOptions& options) {
    const bool one_set = &queries == &rows;
    RadiusFinder finder(queries.n_rows(), rows.n_rows(), one_set, radius, options.memory_limit, options.n_threads);
    search_runs(finder, queries, rows, options, [&](int64_t begin) { return one_set ? begin : 0; });
    return finder.graph(options.n_threads);
}

Nearest nearest_rows(const Rows& queries, const Rows& rows, int64_t k, double radius, const NeighborOptions& options) {
    NearestFinder finder(queries.n_rows(), rows.n_rows(), &queries == &rows, k, radius);
    search_runs(finder, queries, rows, options, [](int64_t) { return int64_t(0); });
    return finder.nearest();
}

std::vector<double> pair_distances(const Rows& queries, const Rows& rows, const int64_t* query_ids,
                                   const int64_t* row_ids, int64_t n_pairs, Metric metric) {
    std::vector<double> distances(n_pairs);
    std::visit(
        [&](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            const View& query_view = std::get<View>(queries.matrix());
            SpreadRow<typename View::Value, typename View::Index> spread(rows.n_features());
            for (int64_t p = 0; p < n_pairs; ++p) {
                if (p == 0 || query_ids[p] != query_ids[p - 1])
                    spread.set(query_view.row(query_ids[p]), queries.norm2()[query_ids[p]]);
                distances[p] = spread.distance(metric, view.row(row_ids[p]), rows.norm2()[row_ids[p]]);
                if (p % 4096 == 0) poll_interrupt();
            }
        },
        rows.matrix());
    return distances;
}

}  // namespace sparsecluster
