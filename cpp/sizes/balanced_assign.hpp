// Rows into clusters of bounded sizes where the scores of all pairs are at hand: few clusters, as in a node of a tree.
//
// Every cluster has a price, and a row goes where its score less the price is largest: such labels are the best there
// are for the sizes that come out. A sweep raises the prices of all clusters that have too many rows at once, each by
// what makes the rest go to one that has not; a step sets the price of one cluster so that its size is within its
// bounds, all others fixed (the exact line search of the dual). The few rows that are left over after that go along
// shortest paths over the clusters, one by one, which keeps them optimal (successive shortest paths of minimum-cost
// flow).
#pragma once

#include <cstdint>
#include <vector>

#include "sizes/size_bounds.hpp"

namespace sparsecluster {

template <class T>
class BalancedAssigner {
public:
    // Prices of a call before are a start for one whose scores differ little; `forget` begins at zero.
    void forget() { prices_.clear(); }

    // scores: n rows of `stride`, of which the first k count; labels: out. There is a solution: k * least <= n <= k *
    // most. Ties go to the lowest cluster, then to the lowest row.
    void assign(const T* scores, int64_t n, int k, int stride, SizeBounds bounds, int32_t* labels, int n_threads);

    // The same in steps, for scores that are made block by block: first `begin`, then `take_best` for all rows, by any
    // threads, as soon as their scores are there, then `settle`, or `approach` where it is
    // enough to come near the bounds: in so many steps per cluster, or until so few rows are too many.
    void begin(const T* scores, int64_t n, int k, int stride, SizeBounds bounds, int32_t* labels, int n_threads);
    // Of many rows prices are best guessed by some of them first, between all scores and `take_best`.
    static bool many(int64_t n);
    void guess_prices();
    void take_best(int64_t first, int64_t end);
    int64_t approach(int64_t few, int steps_per_cluster);
    void move_excess();
    void settle();

private:
    struct Goal {
        std::vector<char> source, sink;  // per cluster: may give a row, may take one
        bool met = false;
    };
    Goal goal() const;
    void count_sizes();
    int64_t excess() const;
    int64_t violation() const;
    void sweep();
    int64_t list_crowded();
    T price_to_lose(T* margins, int64_t size, int64_t n_rows) const;
    void raise_price(int cluster, int64_t target);
    void lower_price(int cluster, int64_t target);
    void measure_losses();
    void offer_loss(int a, int64_t i);
    void move_loser(int64_t i, int to);
    bool augment(const Goal& goal, double below);
    void move_cheapest(const Goal& goal);
    T score(int64_t i, int c) const { return scores_[i * stride_ + c]; }
    void move(int64_t i, int to);

    const T* scores_ = nullptr;
    int64_t n_ = 0;
    int k_ = 0, stride_ = 0, n_threads_ = 1;
    SizeBounds bounds_;
    int32_t* labels_ = nullptr;
    std::vector<int64_t> sizes_;
    std::vector<T> prices_;
    std::vector<T> best_;                // per row: its score less the price, where it is
    std::vector<int64_t> some_;          // rows of a step, and what else there is for them
    std::vector<T> other_;
    std::vector<int32_t> other_labels_;
    std::vector<T> margins_, sorted_, open_;     // open: prices, those of some clusters beyond reach
    std::vector<char> crowded_;                  // per cluster: has too many rows
    std::vector<int64_t> place_, arrivals_;      // per cluster: where its part of a list ends
    std::vector<uint64_t> leaving_, coming_;     // rows by what they lose
    std::vector<double> loss_;           // k x k: the least loss of a move from a to b
    std::vector<int64_t> loser_;         // and the row that has it
    std::vector<std::vector<int64_t>> members_;  // of each cluster, ascending, while rows move one by one
};

}  // namespace sparsecluster
