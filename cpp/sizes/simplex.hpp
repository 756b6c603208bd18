// Assignments within size bounds, from a first one to one of the lowest cost. What rows may choose from comes from a
// source, the same in every function: source.visit(row, see) calls see(cluster, cost) for what it has of a row,
// source.best(row, label, prices) gives the one of the lowest cost + price other than the label, and
// source.cost(row, cluster) gives any cost.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "core/parallel.hpp"
#include "sizes/size_tree.hpp"

namespace sparsecluster {

// Where a row may go, and what it costs there; cluster -1 for nowhere.
struct SizeOffer {
    int32_t cluster = -1;
    double cost = INFINITY;
};

// Labels within the bounds: every row takes what it likes best, then those that lose least make room, and fill up.
template <class Source>
class FirstAssignment {
public:
    FirstAssignment(const Source& source, SizeBounds bounds, int64_t n_clusters, int64_t n_rows, int32_t* labels,
                    double* costs)
        : source_(source), bounds_(bounds), n_rows_(n_rows), labels_(labels), costs_(costs), sizes_(n_clusters, 0) {}

    void run() {
        for (int64_t i = 0; i < n_rows_; ++i) {
            take_cheapest(i);
            if (i % 1024 == 0) poll_interrupt();
        }
        make_room();
        fill_up();
    }

private:
    using Change = std::tuple<double, int64_t, int32_t>;  // loss, row, where to

    // Of equal costs the lowest cluster.
    void take_cheapest(int64_t i) {
        double best = INFINITY;
        source_.visit(i, [&](int32_t, double cost) { best = std::min(best, cost); });
        SizeOffer own{INT32_MAX, 0};
        source_.visit(i, [&](int32_t k, double cost) {
            if (cost <= best + SizeTree::kTie * cost && k < own.cluster) own = {k, cost};
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
            SizeOffer best;
            source_.visit(i, [&](int32_t k, double cost) {
                if (sizes_[k] < bounds_.most && (cost < best.cost || (cost == best.cost && k < best.cluster)))
                    best = {k, cost};
            });
            if (best.cluster < 0) return stuck.push_back(i);
            cost_there[i] = best.cost;
            changes.push({best.cost - costs_[i], i, best.cluster});
        };
        for (int64_t i = 0; i < n_rows_; ++i)
            if (sizes_[labels_[i]] > bounds_.most) offer(i);
        while (!changes.empty()) {
            const auto [loss, row, to] = changes.top();
            changes.pop();
            poll_interrupt();
            if (sizes_[labels_[row]] <= bounds_.most) continue;
            if (sizes_[to] < bounds_.most)
                move(row, to, cost_there[row]);
            else
                offer(row);
        }
        std::sort(stuck.begin(), stuck.end());
        int32_t room = 0;
        for (int64_t i : stuck) {
            if (sizes_[labels_[i]] <= bounds_.most) continue;
            while (sizes_[room] >= bounds_.most) ++room;
            move(i, room, source_.cost(i, room));
            poll_interrupt();
        }
    }

    // Clusters with too few get rows from those that can spare some.
    void fill_up() {
        const auto lacks = [&](int64_t k) { return sizes_[k] < bounds_.least; };
        const auto spares = [&](int64_t k) { return sizes_[k] > bounds_.least; };
        std::vector<Change> changes;
        for (int64_t i = 0; i < n_rows_; ++i)
            source_.visit(i, [&](int32_t k, double cost) {
                if (lacks(k) && spares(labels_[i])) changes.push_back({cost - costs_[i], i, k});
            });
        std::sort(changes.begin(), changes.end());
        std::vector<char> moved(n_rows_, 0);
        for (const auto& [loss, row, to] : changes)
            if (!moved[row] && lacks(to) && spares(labels_[row])) {
                move(row, to, loss + costs_[row]);
                moved[row] = 1;
            }
        int64_t next = 0;
        for (int32_t k = 0; k < int32_t(sizes_.size()); ++k)
            for (; lacks(k); ++next)
                if (spares(labels_[next])) move(next, k, source_.cost(next, k));
    }

    const Source& source_;
    const SizeBounds bounds_;
    const int64_t n_rows_;
    int32_t* const labels_;
    double* const costs_;
    std::vector<int64_t> sizes_;
};

// Hangs all clusters: those that may grow on the pool, the others by the row that loses least on what hangs already.
template <class Source>
void grow_tree(SizeTree& tree, const Source& source, const int32_t* labels, const double* costs, int64_t n_rows) {
    const int64_t n_clusters = tree.n_clusters();
    struct Best {
        double price = INFINITY;
        int64_t parent = -1;
        TreeLink link;
    };
    std::vector<char> hangs(n_clusters, 0);
    int64_t n_hanging = 0, anchor = 0;
    for (int64_t k = n_clusters - 1; k >= 0; --k) {
        if (!(tree.all_full() ? k == 0 : tree.may_grow(k))) continue;
        tree.hang(k, tree.pool(), {});
        hangs[k] = 1, anchor = k, ++n_hanging;
    }
    std::vector<Best> best(n_clusters);
    while (n_hanging < n_clusters) {
        best.assign(n_clusters, {});
        for (int64_t i = 0; i < n_rows; ++i) {
            if (hangs[labels[i]]) continue;
            Best& mine = best[labels[i]];
            if (mine.link.row < 0) mine.link.row = i;
            source.visit(i, [&](int32_t k, double cost) {
                if (!hangs[k]) return;
                const double price = cost + tree.prices()[k] - costs[i];
                if (price < mine.price) mine = {price, k, {i, costs[i], cost}};
            });
        }
        const bool none = std::all_of(best.begin(), best.end(), [](const Best& one) { return one.parent < 0; });
        for (int64_t k = 0; k < n_clusters; ++k) {
            if (hangs[k] || (best[k].parent < 0 && !none)) continue;
            if (none) {
                const int64_t row = best[k].link.row;
                best[k] = {0, anchor, {row, costs[row], source.cost(row, int32_t(anchor))}};
            }
            tree.hang(k, best[k].parent, best[k].link);
            hangs[k] = 1, ++n_hanging;
        }
        poll_interrupt();
    }
}

// Steps until no row gains by what the source has of it, each by the one that gains most of a few that follow each
// other.
template <class Source>
void improve(SizeTree& tree, const Source& source, const int32_t* labels, int64_t n_rows) {
    constexpr int64_t kFew = 64;
    for (bool any = true; any;) {
        any = false;
        for (int64_t begin = 0; begin < n_rows; begin += kFew) {
            double most = 0;
            int64_t row = -1;
            SizeOffer taken;
            for (int64_t i = begin; i < std::min(n_rows, begin + kFew); ++i) {
                const SizeOffer offer = source.best(i, labels[i], tree.prices());
                if (offer.cluster < 0) continue;
                if (const double gain = tree.gain(i, offer.cluster, offer.cost); gain > most)
                    most = gain, row = i, taken = offer;
            }
            if (row < 0) continue;
            tree.enter(row, taken.cluster, taken.cost);
            any = true;
            poll_interrupt();
        }
        any = tree.enter_pool() || any;
        tree.refresh_prices();
        poll_interrupt();
    }
}

}  // namespace sparsecluster
