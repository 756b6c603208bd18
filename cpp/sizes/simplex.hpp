// Assignments within size bounds, from a first one to one of the lowest cost. What rows may choose from comes from a
// source, the same in every function: source.visit(row, see) calls see(cluster, cost) for what it has of a row,
// source.best(row, label, prices) gives the one of the lowest cost + price other than the label,
// source.with_better(first, n, labels, prices) a bit for each of so many rows, up to 64, which is zero where that is not
// worth a call, and source.cost(row, cluster) gives any cost.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "sizes/size_tree.hpp"

namespace sparsecluster {

// Where a row may go, and what it costs there; cluster -1 for nowhere.
struct SizeOffer {
    int32_t cluster = -1;
    double cost = INFINITY;
};

// How far an assignment is, as a share of it that only grows. The calling thread alone uses it.
class SizeProgress {
public:
    explicit SizeProgress(std::function<void(double)> tell = nullptr) : tell_(std::move(tell)) {}

    // What comes next is the part from one share to another.
    void begin(double from, double to) { from_ = from, to_ = to; }
    // So much of that part is done. Here the user may ask to stop.
    void reach(double share) {
        poll_interrupt();
        told_ = std::max(told_, from_ + (to_ - from_) * std::clamp(share, 0.0, 1.0));
        if (tell_) tell_(told_);
    }

private:
    std::function<void(double)> tell_;
    double from_ = 0, to_ = 1, told_ = 0;
};

// Some rows of a source, numbered from 0 on.
template <class Source>
class SomeRows {
public:
    SomeRows(const Source& source, const std::vector<int64_t>& ids) : source_(source), ids_(ids) {}

    int64_t n_clusters() const { return source_.n_clusters(); }
    template <class See>
    void visit(int64_t row, const See& see) const {
        source_.visit(ids_[row], see);
    }
    SizeOffer best(int64_t row, int32_t label, const std::vector<double>& prices) const {
        return source_.best(ids_[row], label, prices);
    }
    uint64_t with_better(int64_t, int64_t, const int32_t*, const std::vector<double>&) const { return ~uint64_t(0); }
    double cost(int64_t row, int32_t cluster) const { return source_.cost(ids_[row], cluster); }

private:
    const Source& source_;
    const std::vector<int64_t>& ids_;
};

// Labels within the bounds: every row takes what it likes best by cost + price, then those that lose least make room,
// and fill up. The prices are a guess; where clusters have one, they are to be full (above zero) or as small as they
// may be (below), as in an optimum.
template <class Source>
class FirstAssignment {
public:
    FirstAssignment(const Source& source, SizeBounds bounds, const std::vector<double>& guess, int64_t n_rows,
                    int32_t* labels, double* costs)
        : source_(source), guess_(guess), n_rows_(n_rows), labels_(labels), costs_(costs), sizes_(guess.size(), 0) {
        int64_t fewest = 0, most = 0;
        for (double price : guess) {
            bounds_.push_back({price > 0 ? bounds.most : bounds.least, price < 0 ? bounds.least : bounds.most});
            fewest += bounds_.back().least, most += bounds_.back().most;
        }
        if (fewest > n_rows || most < n_rows) bounds_.assign(guess.size(), bounds);
    }

    void run() {
        for (int64_t i = 0; i < n_rows_; ++i) {
            take_cheapest(i);
            poll_now_and_then(i);
        }
        make_room();
        fill_up();
    }

private:
    using Change = std::tuple<double, int64_t, int32_t>;  // loss, row, where to

    static void poll_now_and_then(int64_t i) {
        if (i % 1024 == 0) poll_interrupt();
    }
    bool has_room(int64_t k) const { return sizes_[k] < bounds_[k].most; }
    bool has_too_many(int64_t k) const { return sizes_[k] > bounds_[k].most; }
    bool lacks(int64_t k) const { return sizes_[k] < bounds_[k].least; }
    bool spares(int64_t k) const { return sizes_[k] > bounds_[k].least; }
    double loss(int64_t i, int32_t to, double cost) const {
        return cost + guess_[to] - (costs_[i] + guess_[labels_[i]]);
    }

    // Of equal ones the lowest cluster.
    void take_cheapest(int64_t i) {
        double best = INFINITY;
        source_.visit(i, [&](int32_t k, double cost) { best = std::min(best, cost + guess_[k]); });
        SizeOffer own{INT32_MAX, 0};
        source_.visit(i, [&](int32_t k, double cost) {
            if (cost + guess_[k] <= best + SizeTree::kTie * (cost + std::abs(guess_[k])) && k < own.cluster)
                own = {k, cost};
        });
        labels_[i] = own.cluster, costs_[i] = own.cost;
        ++sizes_[own.cluster];
    }

    void move(int64_t row, int32_t to, double cost) {
        --sizes_[labels_[row]], ++sizes_[to];
        labels_[row] = to, costs_[row] = cost;
    }

    // Rows of clusters with too many go where there is room.
    void make_room() {
        std::priority_queue<Change, std::vector<Change>, std::greater<>> changes;
        std::vector<double> cost_there(n_rows_);
        std::vector<int64_t> stuck;
        const auto offer = [&](int64_t i) {
            Change best{INFINITY, i, -1};
            source_.visit(i, [&](int32_t k, double cost) {
                if (!has_room(k)) return;
                if (const Change one{loss(i, k, cost), i, k}; one < best) best = one, cost_there[i] = cost;
            });
            if (std::get<2>(best) < 0) return stuck.push_back(i);
            changes.push(best);
        };
        for (int64_t i = 0; i < n_rows_; ++i) {
            if (has_too_many(labels_[i])) offer(i);
            poll_now_and_then(i);
        }
        while (!changes.empty()) {
            const auto [loss, row, to] = changes.top();
            changes.pop();
            poll_interrupt();
            if (!has_too_many(labels_[row])) continue;
            if (has_room(to))
                move(row, to, cost_there[row]);
            else
                offer(row);
        }
        std::sort(stuck.begin(), stuck.end());
        int32_t room = 0;
        for (int64_t i : stuck) {
            if (!has_too_many(labels_[i])) continue;
            while (!has_room(room)) ++room;
            move(i, room, source_.cost(i, room));
            poll_interrupt();
        }
    }

    // Clusters with too few get rows from those that can spare some.
    void fill_up() {
        std::vector<std::vector<Change>> into(sizes_.size());
        const auto useful = [&](int64_t k) { return kSpareChanges * (bounds_[k].least - sizes_[k]); };
        for (int64_t i = 0; i < n_rows_; ++i) {
            poll_now_and_then(i);
            if (!spares(labels_[i])) continue;
            source_.visit(i, [&](int32_t k, double cost) {
                if (!lacks(k) || k == labels_[i]) return;
                std::vector<Change>& some = into[k];
                some.push_back({loss(i, k, cost), i, k});
                if (int64_t(some.size()) < 2 * useful(k)) return;
                std::nth_element(some.begin(), some.begin() + useful(k), some.end());
                some.resize(useful(k));
            });
        }
        std::vector<Change> changes;
        for (const std::vector<Change>& some : into) changes.insert(changes.end(), some.begin(), some.end());
        std::sort(changes.begin(), changes.end());
        std::vector<char> moved(n_rows_, 0);
        for (const auto& [loss, row, to] : changes)
            if (!moved[row] && lacks(to) && spares(labels_[row])) {
                move(row, to, source_.cost(row, to));
                moved[row] = 1;
                poll_interrupt();
            }
        int64_t next = 0;
        for (int32_t k = 0; k < int32_t(sizes_.size()); ++k)
            for (; lacks(k); ++next) {
                if (spares(labels_[next])) move(next, k, source_.cost(next, k));
                poll_now_and_then(next);
            }
    }

    static constexpr int64_t kSpareChanges = 16;  // per row that a cluster lacks

    const Source& source_;
    const std::vector<double>& guess_;
    std::vector<SizeBounds> bounds_;  // per cluster
    const int64_t n_rows_;
    int32_t* const labels_;
    double* const costs_;
    std::vector<int64_t> sizes_;
};

// Hangs all clusters, with prices as near to a guess as rows allow: those that may grow and have no price on the pool, the
// others by rows, along shortest paths. A path is as long as its rows lose on the way up, by the guess.
template <class Source>
class TreeGrowth {
public:
    TreeGrowth(SizeTree& tree, const Source& source, const std::vector<double>& guess, const int32_t* labels,
               const double* costs, int64_t n_rows)
        : tree_(tree), source_(source), guess_(guess), labels_(labels), costs_(costs), n_rows_(n_rows) {}

    void run() {
        find_ways();
        const int64_t n = tree_.n_clusters();
        hangs_.assign(n, 0);
        for (int64_t k = n - 1; k >= 0; --k)
            if (tree_.all_full() ? k == 0 : tree_.may_grow(k) && (guess_[k] == 0 || first_row_[k] < 0)) hang_on_pool(k);
        if (anchor_ < 0) hang_on_pool(least_priced());
        for (int64_t k = 0;;) {
            follow_ways();
            while (k < n && hangs_[k]) ++k;
            if (k == n) return;
            // Nothing that it lists hangs.
            const int64_t row = first_row_[k];
            hang(k, anchor_, {row, costs_[row], source_.cost(row, int32_t(anchor_))}, 0);
        }
    }

private:
    static constexpr size_t kMostWays = 64;  // per cluster

    struct Way {
        double loss;
        int64_t child;
        TreeLink link;
    };
    struct Reached {
        double length;
        int64_t child, parent;
        TreeLink link;
        bool operator>(const Reached& other) const {
            return std::tie(length, child, parent) > std::tie(other.length, other.child, other.parent);
        }
    };

    // From each cluster into others: by which row, and what that loses.
    void find_ways() {
        const int64_t n = tree_.n_clusters();
        std::vector<int64_t> begin(n + 1, 0), order(n_rows_);
        for (int64_t i = 0; i < n_rows_; ++i) ++begin[labels_[i] + 1];
        for (int64_t k = 0; k < n; ++k) begin[k + 1] += begin[k];
        std::vector<int64_t> next(begin.begin(), begin.end() - 1);
        for (int64_t i = 0; i < n_rows_; ++i) order[next[labels_[i]]++] = i;
        first_row_.assign(n, -1);
        into_.assign(n, {});
        std::vector<Way> ways(n);
        std::vector<int32_t> found;
        for (int64_t child = 0; child < n; ++child) {
            if (begin[child] < begin[child + 1]) first_row_[child] = order[begin[child]];
            found.clear();
            for (int64_t at = begin[child]; at < begin[child + 1]; ++at) {
                const int64_t i = order[at];
                source_.visit(i, [&](int32_t k, double cost) {
                    if (k == child) return;
                    const double loss = cost + guess_[k] - (costs_[i] + guess_[child]);
                    if (ways[k].link.row < 0) found.push_back(k), ways[k].loss = INFINITY;
                    if (loss < ways[k].loss || ways[k].link.row < 0) ways[k] = {loss, child, {i, costs_[i], cost}};
                });
            }
            const size_t kept = std::min(found.size(), kMostWays);
            std::partial_sort(found.begin(), found.begin() + kept, found.end(), [&](int32_t a, int32_t b) {
                return ways[a].loss != ways[b].loss ? ways[a].loss < ways[b].loss : a < b;
            });
            for (size_t at = 0; at < found.size(); ++at) {
                if (at < kept) into_[found[at]].push_back(ways[found[at]]);
                ways[found[at]].link.row = -1;
            }
            poll_interrupt();
        }
    }

    int64_t least_priced() const {
        int64_t best = -1;
        for (int64_t k = 0; k < tree_.n_clusters(); ++k)
            if (tree_.may_grow(k) && (best < 0 || std::abs(guess_[k]) < std::abs(guess_[best]))) best = k;
        return best;
    }
    void hang_on_pool(int64_t k) {
        tree_.hang(k, tree_.pool(), {});
        anchor_ = k;
        reach_from(k, 0);
    }
    void hang(int64_t k, int64_t parent, TreeLink link, double length) {
        tree_.hang(k, parent, link);
        reach_from(k, length);
    }
    void reach_from(int64_t k, double length) {
        hangs_[k] = 1;
        for (const Way& way : into_[k])
            if (!hangs_[way.child]) reached_.push({length + way.loss, way.child, k, way.link});
    }
    void follow_ways() {
        while (!reached_.empty()) {
            const Reached one = reached_.top();
            reached_.pop();
            if (!hangs_[one.child]) hang(one.child, one.parent, one.link, one.length);
        }
    }

    SizeTree& tree_;
    const Source& source_;
    const std::vector<double>& guess_;
    const int32_t* const labels_;
    const double* const costs_;
    const int64_t n_rows_;
    int64_t anchor_ = -1;              // hangs on the pool
    std::vector<char> hangs_;
    std::vector<int64_t> first_row_;   // per cluster, -1 for none
    std::vector<std::vector<Way>> into_;
    std::priority_queue<Reached, std::vector<Reached>, std::greater<>> reached_;
};

// Steps until no row gains by what the source has of it, each by the one that gains most of a few that follow each
// other.
template <class Source>
void improve(SizeTree& tree, const Source& source, const int32_t* labels, int64_t n_rows, SizeProgress& progress) {
    constexpr int64_t kFew = 64;
    const int64_t n_blocks = (n_rows + kFew - 1) / kFew;
    for (bool any = true; any;) {
        any = false;
        int64_t n_steps = 0;
        for (int64_t begin = 0; begin < n_rows; begin += kFew) {
            double most = 0;
            int64_t row = -1;
            SizeOffer taken;
            const int64_t n = std::min(kFew, n_rows - begin);
            uint64_t rows = source.with_better(begin, n, labels, tree.prices());
            if (n < kFew) rows &= (uint64_t(1) << n) - 1;
            for (; rows; rows &= rows - 1) {
                const int64_t i = begin + std::countr_zero(rows);
                const SizeOffer offer = source.best(i, labels[i], tree.prices());
                if (offer.cluster < 0) continue;
                if (const double gain = tree.gain(i, offer.cluster, offer.cost); gain > most)
                    most = gain, row = i, taken = offer;
            }
            if (begin / kFew % 16 == 0) poll_interrupt();
            if (row < 0) continue;
            tree.enter(row, taken.cluster, taken.cost);
            ++n_steps;
        }
        any = tree.enter_pool() || n_steps > 0;
        // Steps become fewer from pass to pass, by about the same factor.
        progress.reach(1 - std::log1p(double(n_steps)) / std::log1p(double(n_blocks)));
    }
}

}  // namespace sparsecluster
