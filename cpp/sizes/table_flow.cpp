// Assignment within size bounds from a table of all costs. Compiled without contraction: it decides between assignments
// of equal cost.
#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/parallel.hpp"
#include "sizes/plan.hpp"

namespace sparsecluster {

namespace {

constexpr double kTie = 0x1p-40;
// Prices come from every so many-th row first where more rows are misplaced than one in kFew, unless that leaves less
// than kFewest rows per cluster.
constexpr int64_t kStep = 8, kFew = 16, kFewest = 8;
constexpr int64_t kShortlist = 8, kRowsOfBlock = 1024;

// The rows that can go from a cluster to another at the lowest rises of the cost, ascending. Where it is not whole, those
// that are left out come after the last.
class Shortlist {
public:
    using Entry = std::pair<double, int64_t>;

    void start(bool whole) { size_ = 0, whole_ = whole; }
    bool empty() const { return size_ == 0; }
    bool whole() const { return whole_; }
    const Entry& front() const { return rows_[0]; }
    bool full() const { return size_ == kShortlist; }
    const Entry& last() const { return rows_[size_ - 1]; }

    void insert(const Entry& one) {
        int64_t at = full() ? size_ - 1 : size_++;
        for (; at > 0 && one < rows_[at - 1]; --at) rows_[at] = rows_[at - 1];
        rows_[at] = one;
    }
    // A row comes to the cluster.
    void join(const Entry& one) {
        if (!whole_ && (empty() || last() < one)) return;
        if (full()) whole_ = false;
        if (!full() || one < last()) insert(one);
    }
    void pop() {
        std::copy(rows_.begin() + 1, rows_.begin() + size_, rows_.begin());
        --size_;
    }

private:
    std::array<Entry, kShortlist> rows_;
    int64_t size_ = 0;
    bool whole_ = false;
};

// Gives every row the cluster of its lowest cost + price, of equal ones the lowest.
void take_preferred(const CostView& table, Plan& plan, int n_threads) {
    const int64_t n_clusters = table.n_clusters;
    parallel_blocks((table.n_rows + kRowsOfBlock - 1) / kRowsOfBlock, n_threads, [&](int64_t block, int) {
        std::vector<double> values(n_clusters);
        for (int64_t i = block * kRowsOfBlock; i < std::min(table.n_rows, (block + 1) * kRowsOfBlock); ++i) {
            const double* const costs = table.row(i);
            double best = INFINITY;
            for (int64_t k = 0; k < n_clusters; ++k) {
                values[k] = costs[k] + plan.prices[k];
                best = std::min(best, values[k]);
            }
            int64_t own = 0;
            while (!(values[own] <= best + kTie * (costs[own] + std::abs(plan.prices[own])))) ++own;
            plan.labels[i] = int32_t(own);
        }
    });
    std::fill(plan.sizes.begin(), plan.sizes.end(), 0);
    for (int64_t i = 0; i < table.n_rows; ++i) ++plan.sizes[plan.labels[i]];
}

// The nodes are the clusters and a pool, as in paths.cpp: a search from all nodes with excess finds what it costs to
// come to those that lack rows, and prices after which the steps on the way are free; then as many rows as can go by
// free steps do (the primal-dual algorithm; Ahuja, Magnanti and Orlin 1993, section 9.8).
class TableFlow {
public:
    TableFlow(const CostView& table, Plan& plan)
        : table_(table),
          plan_(plan),
          n_clusters_(table.n_clusters),
          pool_(n_clusters_),
          prices_(plan.prices),
          flow_(n_clusters_),
          excess_(n_clusters_ + 1),
          members_(n_clusters_),
          places_(table.n_rows),
          arcs_(n_clusters_ * n_clusters_),
          rises_(n_clusters_ * n_clusters_, INFINITY),
          known_(n_clusters_, 0),
          fresh_(n_clusters_, 0),
          distance_(n_clusters_ + 1),
          parent_(n_clusters_ + 1),
          state_(n_clusters_ + 1),
          next_(n_clusters_ + 1) {
        prices_.push_back(0);
        for (int64_t i = 0; i < table.n_rows; ++i) {
            places_[i] = int64_t(members_[plan.labels[i]].size());
            members_[plan.labels[i]].push_back(i);
        }
        int64_t total = 0;
        for (int64_t k = 0; k < n_clusters_; ++k) {
            flow_[k] = plan.wanted(k);
            excess_[k] = plan.sizes[k] - flow_[k];
            total += flow_[k];
        }
        excess_[pool_] = total - table.n_rows;
    }

    void run() {
        while (std::any_of(excess_.begin(), excess_.end(), [](int64_t excess) { return excess > 0; })) {
            const int64_t nearest = search();
            if (!send_all()) send_to(nearest);
            poll_interrupt();
        }
        for (int64_t k = 0; k < n_clusters_; ++k) {
            plan_.prices[k] = prices_[k] - prices_[pool_];
            plan_.sizes[k] = int64_t(members_[k].size());
        }
    }

private:
    enum State : char { kNew, kOnPath, kDead };

    // Brings the lowest rises from a cluster up to date.
    const double* rises_from(int64_t k) {
        double* const rises = rises_.data() + k * n_clusters_;
        if (fresh_[k]) return rises;
        fresh_[k] = 1;
        Shortlist* const arcs = arcs_.data() + k * n_clusters_;
        bool spent = !known_[k];
        for (int64_t to = 0; to < n_clusters_ && !spent; ++to) {
            while (!arcs[to].empty() && plan_.labels[arcs[to].front().second] != k) arcs[to].pop();
            spent = arcs[to].empty() && !arcs[to].whole();
        }
        if (spent) list_members(k);
        for (int64_t to = 0; to < n_clusters_; ++to) rises[to] = arcs[to].empty() ? INFINITY : arcs[to].front().first;
        rises[k] = INFINITY;
        return rises;
    }

    void list_members(int64_t k) {
        Shortlist* const arcs = arcs_.data() + k * n_clusters_;
        limits_.assign(n_clusters_, INFINITY);
        for (int64_t to = 0; to < n_clusters_; ++to) arcs[to].start(int64_t(members_[k].size()) <= kShortlist);
        for (int64_t i : members_[k]) {
            const double* const costs = table_.row(i);
            const double own = costs[k];
            for (int64_t to = 0; to < n_clusters_; ++to) {
                const double rise = costs[to] - own;
                if (rise > limits_[to] || (arcs[to].full() && !(Shortlist::Entry{rise, i} < arcs[to].last()))) continue;
                arcs[to].insert({rise, i});
                if (arcs[to].full()) limits_[to] = arcs[to].last().first;
            }
        }
        known_[k] = 1;
    }

    // Distances from the nodes with excess to all that lack rows, or as many as there is excess, and prices by which the
    // steps on the way are free. Answers the nearest one.
    int64_t search() {
        std::fill(distance_.begin(), distance_.end(), INFINITY);
        std::fill(state_.begin(), state_.end(), kNew);
        int64_t wanted = 0, excess = 0, nearest = -1;
        for (int64_t node = 0; node <= pool_; ++node) {
            wanted += excess_[node] < 0;
            excess += std::max<int64_t>(0, excess_[node]);
            if (excess_[node] > 0) distance_[node] = 0, parent_[node] = -1;
        }
        wanted = std::min(wanted, excess);
        settled_.clear();
        double limit = 0;
        while (wanted > 0) {
            int64_t node = -1;
            for (int64_t other = 0; other <= pool_; ++other)
                if (state_[other] == kNew && (node < 0 || distance_[other] < distance_[node])) node = other;
            if (node < 0 || distance_[node] == INFINITY) break;
            state_[node] = kDead;
            settled_.push_back(node);
            limit = distance_[node];
            if (excess_[node] < 0) {
                --wanted;
                if (nearest < 0) nearest = node;
            }
            expand(node);
        }
        if (nearest < 0) throw std::logic_error("no cluster can take a row");
        for (int64_t node : settled_) prices_[node] += limit - distance_[node];
        return nearest;
    }

    void expand(int64_t node) {
        const double distance = distance_[node], price = prices_[node];
        const auto relax = [&](int64_t to, double length) {
            const double through = distance + std::max(0.0, length);
            if (through < distance_[to]) distance_[to] = through, parent_[to] = node;
        };
        if (node == pool_) {
            for (int64_t k = 0; k < n_clusters_; ++k)
                if (flow_[k] > plan_.bounds.least) relax(k, prices_[k] - price);
            return;
        }
        const double* const rises = rises_from(node);
        for (int64_t to = 0; to < n_clusters_; ++to) relax(to, rises[to] + prices_[to] - price);
        if (flow_[node] < plan_.bounds.most) relax(pool_, prices_[pool_] - price);
    }

    // Whether a row can go from one node to the other, or a place of the flow, for nothing.
    bool free_step(int64_t from, int64_t to) {
        if (from == pool_) return flow_[to] > plan_.bounds.least && nothing(0, from, to);
        if (to == pool_) return flow_[from] < plan_.bounds.most && nothing(0, from, to);
        return nothing(rises_from(from)[to], from, to);
    }
    bool nothing(double rise, int64_t from, int64_t to) const {
        return rise < INFINITY && rise + prices_[to] - prices_[from] <=
               kTie * (std::abs(rise) + std::abs(prices_[to]) + std::abs(prices_[from]));
    }

    // Sends excess by free steps until there is no way left to try; whether any went.
    bool send_all() {
        std::fill(state_.begin(), state_.end(), kNew);
        std::fill(next_.begin(), next_.end(), 0);
        bool any = false;
        for (int64_t source = 0; source <= pool_; ++source)
            while (excess_[source] > 0 && state_[source] == kNew && find_way(source)) {
                for (size_t step = way_.size() - 1; step > 0; --step) move(way_[step - 1], way_[step]);
                --excess_[source];
                ++excess_[way_.back()];
                for (int64_t node : way_) state_[node] = kNew;
                any = true;
            }
        return any;
    }

    // A way of free steps to a node that lacks rows, depth first; nodes that lead to none are not tried again.
    bool find_way(int64_t source) {
        way_.assign(1, source);
        state_[source] = kOnPath;
        while (!way_.empty()) {
            const int64_t node = way_.back();
            if (excess_[node] < 0) return true;
            int64_t& to = next_[node];
            while (to <= pool_ && !(to != node && state_[to] == kNew && free_step(node, to))) ++to;
            if (to <= pool_) {
                state_[to] = kOnPath;
                way_.push_back(to);
            } else {
                state_[node] = kDead;
                way_.pop_back();
            }
        }
        return false;
    }

    // Sends one row the way that the search found.
    void send_to(int64_t sink) {
        ++excess_[sink];
        int64_t node = sink;
        for (; parent_[node] >= 0; node = parent_[node]) move(parent_[node], node);
        --excess_[node];
    }

    void move(int64_t from, int64_t to) {
        if (from == pool_) {
            --flow_[to];
            return;
        }
        if (to == pool_) {
            ++flow_[from];
            return;
        }
        rises_from(from);
        const int64_t row = arcs_[from * n_clusters_ + to].front().second;
        const int64_t last = members_[from].back();
        members_[from][places_[row]] = last;
        places_[last] = places_[row];
        members_[from].pop_back();
        places_[row] = int64_t(members_[to].size());
        members_[to].push_back(row);
        plan_.labels[row] = int32_t(to);
        fresh_[from] = fresh_[to] = 0;
        if (!known_[to]) return;
        const double* const costs = table_.row(row);
        for (int64_t k = 0; k < n_clusters_; ++k) arcs_[to * n_clusters_ + k].join({costs[k] - costs[to], row});
    }

    const CostView table_;
    Plan& plan_;
    const int64_t n_clusters_, pool_;
    std::vector<double> prices_;                 // per cluster, and of the pool
    std::vector<int64_t> flow_, excess_;         // excess of the pool, too
    std::vector<std::vector<int64_t>> members_;  // per cluster, in no order
    std::vector<int64_t> places_;                // per row, among the members of its cluster
    std::vector<Shortlist> arcs_;                // per pair of clusters
    std::vector<double> rises_, limits_;         // rises: the first of the arcs
    std::vector<char> known_, fresh_;            // per cluster: whether there are arcs, and rises are theirs
    std::vector<double> distance_;               // of the search that goes on
    std::vector<int64_t> parent_, settled_, way_;
    std::vector<State> state_;
    std::vector<int64_t> next_;                  // the step to try next
};

int64_t misplaced(const Plan& plan) {
    int64_t sum = 0;
    for (size_t k = 0; k < plan.sizes.size(); ++k) sum += std::abs(plan.sizes[k] - plan.wanted(int64_t(k)));
    return sum;
}

// Bounds for a share of the rows.
SizeBounds scaled(SizeBounds bounds, int64_t n_rows, int64_t n_all, int64_t n_clusters) {
    const double share = double(n_rows) / double(n_all);
    return {std::min(int64_t(double(bounds.least) * share), n_rows / n_clusters),
            std::max(int64_t(double(bounds.most) * share) + 1, (n_rows + n_clusters - 1) / n_clusters)};
}

}  // namespace

void settle_table(const CostView& table, Plan& plan, int n_threads) {
    take_preferred(table, plan, n_threads);
    if (table.n_rows / kStep >= kFewest * table.n_clusters && misplaced(plan) > table.n_rows / kFew) {
        const CostView some = table.every(kStep);
        std::vector<int32_t> labels(some.n_rows);
        Plan guess{scaled(plan.bounds, some.n_rows, table.n_rows, table.n_clusters), labels.data(), plan.prices,
                   plan.sizes};
        settle_table(some, guess, n_threads);
        plan.prices = guess.prices;
        take_preferred(table, plan, n_threads);
    }
    TableFlow(table, plan).run();
}

}  // namespace sparsecluster
