// Compiled without contraction, as exact.cpp: the same seeds on every machine.
#include "seeding/chain.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

// The chosen rows by feature, as lists, so that a row meets only the centers that share a feature with it.
class Chosen {
public:
    explicit Chosen(int64_t n_features) : first_(n_features, -1) {}

    template <class V, class I>
    void add(const Row<V, I>& row, double norm2) {
        for (int64_t e = 0; e < row.size; ++e) {
            nodes_.push_back({int32_t(norm2_.size()), first_[row.features[e]], double(row.values[e])});
            first_[row.features[e]] = int64_t(nodes_.size()) - 1;
        }
        norm2_.push_back(norm2);
        products_.push_back(0);
    }

    // Squared distance of a row to the nearest chosen one.
    template <class V, class I>
    double distance2(const Row<V, I>& row, double norm2) {
        std::fill(products_.begin(), products_.end(), 0.0);
        for (int64_t e = 0; e < row.size; ++e)
            for (int64_t at = first_[row.features[e]]; at >= 0; at = nodes_[at].next)
                products_[nodes_[at].center] += nodes_[at].value * double(row.values[e]);
        double least = INFINITY;
        for (size_t c = 0; c < norm2_.size(); ++c)
            least = std::min(least, norm2 + norm2_[c] - 2 * products_[c]);
        return std::max(0.0, least);
    }

private:
    struct Node {
        int32_t center;
        int64_t next;
        double value;
    };
    std::vector<int64_t> first_;  // per feature, into nodes_
    std::vector<Node> nodes_;
    std::vector<double> norm2_, products_;  // per center
};

// Squared distances of all rows to one of them.
template <class V, class I>
std::vector<double> distances_to(const Rows& rows, const Matrix<V, I>& view, int64_t chosen, int n_threads) {
    constexpr int64_t kBlock = 1024;
    std::vector<double> spread(view.n_features, 0.0), out(view.n_rows);
    const auto center = view.row(chosen);
    for (int64_t e = 0; e < center.size; ++e) spread[center.features[e]] = double(center.values[e]);
    parallel_blocks((view.n_rows + kBlock - 1) / kBlock, n_threads, [&](int64_t b, int thread) {
        for (int64_t i = b * kBlock; i < std::min(view.n_rows, (b + 1) * kBlock); ++i) {
            const auto row = view.row(i);
            double product = 0;
            for (int64_t e = 0; e < row.size; ++e) product += spread[row.features[e]] * double(row.values[e]);
            out[i] = std::max(0.0, rows.norm2()[i] + rows.norm2()[chosen] - 2 * product);
        }
        if (thread == 0) poll_interrupt();
    });
    out[chosen] = 0;
    return out;
}

template <class V, class I>
Seeds run_chains(const Rows& rows, const Matrix<V, I>& view, const ChainOptions& options) {
    const int64_t n = view.n_rows;
    auto weight = [&](int64_t i) { return options.weights ? options.weights[i] : 1.0; };

    // The proposal: half by distance to the first center, half by weight alone.
    std::vector<double> proposal = distances_to(rows, view, options.first, options.n_threads);
    double by_distance = 0, by_weight = 0;
    for (int64_t i = 0; i < n; ++i) {
        proposal[i] = weight(i) * (proposal[i] + options.floor);
        by_distance += proposal[i];
        by_weight += weight(i);
    }
    std::vector<double> cumulated(n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        proposal[i] = (by_distance > 0 ? proposal[i] / by_distance : 0.0) + weight(i) / by_weight;
        cumulated[i] = sum += proposal[i];
    }

    std::mt19937_64 bits(options.seed);
    auto uniform = [&] { return double(bits() >> 11) * 0x1p-53; };
    auto propose = [&] {
        const auto at = std::upper_bound(cumulated.begin(), cumulated.end(), uniform() * sum);
        return std::min<int64_t>(at - cumulated.begin(), n - 1);
    };

    Chosen chosen(view.n_features);
    auto chance = [&](int64_t i) {
        return weight(i) * (chosen.distance2(view.row(i), rows.norm2()[i]) + options.floor);
    };
    Seeds seeds;
    seeds.rows.push_back(options.first);
    chosen.add(view.row(options.first), rows.norm2()[options.first]);
    while (int64_t(seeds.rows.size()) < options.n_clusters) {
        int64_t state = propose();
        double state_chance = chance(state);
        for (int64_t step = 1; step < options.length; ++step) {
            if (step % 64 == 0) poll_interrupt();
            const int64_t next = propose();
            const double next_chance = chance(next);
            // Accepted with next_chance * proposal[state] / (state_chance * proposal[next]).
            if (next_chance * proposal[state] > uniform() * state_chance * proposal[next]) {
                state = next;
                state_chance = next_chance;
            }
        }
        seeds.rows.push_back(state);
        chosen.add(view.row(state), rows.norm2()[state]);
        poll_interrupt();
        if (options.on_center) options.on_center(int64_t(seeds.rows.size()));
    }
    return seeds;
}

}  // namespace

Seeds chain_seeds(const Rows& rows, const ChainOptions& options) {
    return std::visit([&](const auto& view) { return run_chains(rows, view, options); }, rows.matrix());
}

}  // namespace sparsecluster
