#include "neighbors/density.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/parallel.hpp"
#include "neighbors/components.hpp"

namespace sparsecluster {

namespace {

using Pairs = std::vector<std::pair<int32_t, int32_t>>;

// Tells pairs (i, j) with j < i, a batch at a time and under a lock.
template <class OnPairs>
class PairFinder {
public:
    static constexpr bool kAnyOrder = true;
    static constexpr double kTrust = 0.2;

    PairFinder(double radius, int n_threads, OnPairs on_pairs)
        : radius_(radius), on_pairs_(std::move(on_pairs)), pairs_(n_threads) {}

    double reach(int64_t) const { return radius_; }
    int64_t missing(int64_t) const { return 0; }
    int64_t wanted(int64_t) const { return 0; }
    int64_t limit(int64_t i) const { return i; }
    bool considers(int64_t, int64_t) const { return true; }
    void found(int64_t i, int64_t j, double, int thread) { pairs_[thread].emplace_back(int32_t(i), int32_t(j)); }
    void finish(int64_t, int64_t, int thread) {
        if (pairs_[thread].empty()) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        on_pairs_(pairs_[thread]);
        pairs_[thread].clear();
    }

private:
    double radius_;
    OnPairs on_pairs_;
    std::vector<Pairs> pairs_;
    std::mutex mutex_;
};

template <class OnPairs>
void each_pair(const Rows& rows, double radius, const NeighborOptions& options, OnPairs on_pairs) {
    PairFinder<OnPairs> finder(radius, options.n_threads, std::move(on_pairs));
    search_runs(finder, rows, rows, options, [](int64_t begin) { return begin; });
}

// The weight within the radius of each row, added up in the order of the rows.
class WeightFinder {
public:
    static constexpr bool kAnyOrder = false;
    static constexpr double kTrust = 0.2;

    WeightFinder(double radius, const double* weights, int64_t n_rows)
        : sums(weights, weights + n_rows), radius_(radius), weights_(weights), n_rows_(n_rows) {}

    double reach(int64_t) const { return radius_; }
    int64_t missing(int64_t) const { return 0; }
    int64_t wanted(int64_t) const { return 0; }
    int64_t limit(int64_t) const { return n_rows_; }
    bool considers(int64_t i, int64_t j) const { return i != j; }
    void found(int64_t i, int64_t j, double, int) { sums[i] += weights_[j]; }
    void finish(int64_t, int64_t, int) {}

    std::vector<double> sums;

private:
    double radius_;
    const double* weights_;
    int64_t n_rows_;
};

// Puts clusters together from pairs in any order.
class Clusters {
public:
    explicit Clusters(std::vector<uint8_t> core) : core_(std::move(core)), components_(int64_t(core_.size())) {}

    void add(const Pairs& pairs) {
        for (const auto& [i, j] : pairs) {
            if (core_[i] && core_[j])
                components_.unite(i, j);
            else if (core_[i] || core_[j])
                border_.emplace_back(core_[i] ? j : i, core_[i] ? i : j);
        }
    }

    Density finish() {
        const auto n = int32_t(core_.size());
        Density density;
        density.labels.assign(n, -1);
        int32_t n_clusters = 0;
        for (int32_t i = 0; i < n; ++i) {
            if (!core_[i]) continue;
            const int32_t first = components_.find(i);
            density.labels[i] = first == i ? n_clusters++ : density.labels[first];
        }
        for (const auto& [i, core] : border_) {
            const int32_t label = density.labels[core];
            if (density.labels[i] < 0 || label < density.labels[i]) density.labels[i] = label;
        }
        density.core = std::move(core_);
        return density;
    }

private:
    std::vector<uint8_t> core_;
    Components components_;
    Pairs border_;  // a row that is not core, and one that is
};

}  // namespace

Density dbscan(const Rows& rows, double radius, double min_samples, const double* weights,
               const NeighborOptions& options) {
    const int64_t n = rows.n_rows(), most = options.memory_limit / (2 * int64_t(sizeof(Pairs::value_type)));
    std::vector<int32_t> count(n, 1);
    Pairs kept;
    int64_t n_pairs = 0;
    const int n_steps = weights ? 3 : 2;
    auto step = [&](int number) {
        NeighborOptions own = options;
        if (options.progress)
            own.progress = [&options, number, n_steps](double part) { options.progress((number + part) / n_steps); };
        return own;
    };
    each_pair(rows, radius, step(0), [&](const Pairs& pairs) {
        for (const auto& [i, j] : pairs) ++count[i], ++count[j];
        n_pairs += int64_t(pairs.size());
        if (n_pairs <= most)
            kept.insert(kept.end(), pairs.begin(), pairs.end());
        else
            Pairs().swap(kept);
    });
    std::vector<uint8_t> core(n);
    if (weights) {
        WeightFinder finder(radius, weights, n);
        search_runs(finder, rows, rows, step(2), [](int64_t) { return int64_t(0); });
        for (int64_t i = 0; i < n; ++i) core[i] = finder.sums[i] >= min_samples;
    } else {
        for (int64_t i = 0; i < n; ++i) core[i] = double(count[i]) >= min_samples;
    }
    Clusters clusters(std::move(core));
    const bool whole = n_pairs <= most;
    if (whole)
        clusters.add(kept);
    else
        each_pair(rows, radius, step(1), [&](const Pairs& pairs) { clusters.add(pairs); });
    Density density = clusters.finish();
    density.graph_kept = whole;
    return density;
}

}  // namespace sparsecluster
