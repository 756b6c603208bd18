// Shortest paths among the clusters. Compiled without contraction: they decide between assignments of equal cost.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <stdexcept>
#include <utility>

#include "core/parallel.hpp"
#include "sizes/plan.hpp"

namespace sparsecluster {

namespace {

constexpr double kTie = 0x1p-40;
// Rows whose lists are made anew at a time: so many, or this share of those that were looked at.
constexpr int64_t kLeastToList = 64, kShareToList = 16;
// Of the clusters, the share whose distances to all rows are computed, so that bounds follow the prices of the others.
constexpr int64_t kShareToMeasure = 8;

// The row that can go from a cluster to another at the lowest rise of the cost; infinite where there is none.
struct Arc {
    double rise;
    int64_t row;
    int32_t to;
};

// All rows of an arc, the lowest rise on top. Those that have left the cluster are taken off when they come there.
using Heap = std::vector<std::pair<double, int64_t>>;

// The nodes are the clusters, a pool, and what is not listed. `flow` is how many rows a cluster is taken to have
// towards the pool, always within the bounds; what it has above that is its excess. A cluster may pass its excess on to
// another along an arc, or to the pool where its flow is not at the upper bound; the pool to a cluster whose flow is
// not at the lower bound. By the prices no such step costs less than nothing, and when all excess is gone that says
// that nothing costs less.
class Paths {
public:
    Paths(Candidates& candidates, Plan& plan)
        : candidates_(candidates),
          plan_(plan),
          n_clusters_(candidates.n_clusters()),
          pool_(n_clusters_),
          unlisted_(n_clusters_ + 1),
          prices_(plan.prices),
          base_(plan.prices),
          flow_(n_clusters_),
          excess_(n_clusters_ + 1, 0),
          members_(n_clusters_),
          places_(candidates.n_rows()),
          listed_(candidates.n_rows(), 0),
          arcs_(n_clusters_),
          heaps_(n_clusters_),
          exits_(n_clusters_),
          known_(n_clusters_, 0),
          fresh_(n_clusters_, 0),
          bounded_(n_clusters_, 0),
          slot_(n_clusters_, -1),
          distance_(n_clusters_ + 2),
          parent_(n_clusters_ + 2) {
        prices_.push_back(0);
        for (int64_t i = 0; i < candidates.n_rows(); ++i) {
            places_[i] = int64_t(members_[plan.labels[i]].size());
            members_[plan.labels[i]].push_back(i);
        }
        int64_t total = 0;
        for (int64_t k = 0; k < n_clusters_; ++k) {
            flow_[k] = plan.wanted(k);
            excess_[k] = plan.sizes[k] - flow_[k];
            total += flow_[k];
        }
        excess_[pool_] = total - candidates.n_rows();
    }

    void run() {
        while (std::any_of(excess_.begin(), excess_.end(), [](int64_t excess) { return excess > 0; })) {
            pass_on();
            poll_interrupt();
        }
        for (int64_t k = 0; k < n_clusters_; ++k) {
            plan_.prices[k] = prices_[k] - prices_[pool_];
            plan_.sizes[k] = int64_t(members_[k].size());
        }
    }

private:
    struct Step {
        int64_t from = -1, row = -1;  // no row: to or from the pool
    };

    // The arcs from a cluster, one to each that a row of it lists; and how far unlisted clusters are at least.
    const std::vector<Arc>& arcs_from(int64_t k) {
        if (!known_[k]) {
            arcs_[k].clear();
            heaps_[k].clear();
            for (int64_t i : members_[k])
                add(k, i, [](Heap& heap, double rise, int64_t row) { heap.push_back({rise, row}); });
            for (const Arc& arc : arcs_[k]) slot_[arc.to] = -1;
            for (Heap& heap : heaps_[k]) std::make_heap(heap.begin(), heap.end(), std::greater<>());
            known_[k] = 1;
            fresh_[k] = 0;
        }
        if (!fresh_[k]) {
            for (size_t a = 0; a < arcs_[k].size(); ++a) refresh(k, arcs_[k][a], heaps_[k][a]);
            fresh_[k] = 1;
        }
        if (!bounded_[k]) {
            exits_[k] = INFINITY;
            for (int64_t i : members_[k])
                exits_[k] = std::min(exits_[k], candidates_.beyond(i) - own_cost(candidates_.of(i), k));
            bounded_[k] = 1;
        }
        return arcs_[k];
    }

    void refresh(int64_t k, Arc& arc, Heap& heap) const {
        while (!heap.empty() && plan_.labels[heap.front().second] != k) {
            std::pop_heap(heap.begin(), heap.end(), std::greater<>());
            heap.pop_back();
        }
        arc = heap.empty() ? Arc{INFINITY, -1, arc.to} : Arc{heap.front().first, heap.front().second, arc.to};
    }

    // A row comes to a cluster whose arcs are known.
    void join(int64_t k, int64_t row) {
        for (size_t a = 0; a < arcs_[k].size(); ++a) slot_[arcs_[k][a].to] = int32_t(a);
        add(k, row, [](Heap& heap, double rise, int64_t i) {
            heap.push_back({rise, i});
            std::push_heap(heap.begin(), heap.end(), std::greater<>());
        });
        for (const Arc& arc : arcs_[k]) slot_[arc.to] = -1;
        fresh_[k] = 0;
    }

    // Adds a row to the heaps of a cluster, by the slots that are set.
    template <class Push>
    void add(int64_t k, int64_t row, const Push& push) {
        const auto list = candidates_.of(row);
        const double own = own_cost(list, k);
        for (const Candidate& one : list) {
            if (one.cluster == k) continue;
            int32_t& slot = slot_[one.cluster];
            if (slot < 0) {
                slot = int32_t(arcs_[k].size());
                arcs_[k].push_back({INFINITY, -1, one.cluster});
                heaps_[k].emplace_back();
            }
            push(heaps_[k][slot], one.cost - own, row);
        }
    }

    static double own_cost(std::span<const Candidate> list, int64_t k) {
        for (const Candidate& one : list)
            if (one.cluster == k) return one.cost;
        throw std::logic_error("the cluster of a row is not on its list");
    }

    // One search from all nodes with excess at once; then a row goes to each node that lacks one, along the shortest
    // path, unless it crosses one of those before.
    void pass_on() {
        using Entry = std::pair<double, int64_t>;
        std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
        std::fill(distance_.begin(), distance_.end(), INFINITY);
        settled_.clear();
        reached_.clear();
        const auto relax = [&](int64_t to, double distance, Step step) {
            if (!(distance < distance_[to])) return;
            distance_[to] = distance;
            parent_[to] = step;
            queue.push({distance, to});
        };
        int64_t lacking = 0, excess = 0;
        for (int64_t node = 0; node <= pool_; ++node) {
            lacking += excess_[node] < 0;
            excess += std::max<int64_t>(0, excess_[node]);
            if (excess_[node] > 0) relax(node, 0, {});
        }
        const auto wanted = size_t(std::min(lacking, excess));
        double limit = 0;
        bool unsure = false;
        while (!queue.empty() && reached_.size() < wanted && !unsure) {
            const auto [distance, node] = queue.top();
            queue.pop();
            if (distance > distance_[node]) continue;
            limit = distance;
            unsure = node == unlisted_;
            if (unsure) break;
            settled_.push_back(node);
            if (excess_[node] < 0) reached_.push_back(node);
            expand(node, distance, relax);
        }
        if (reached_.empty() && !unsure) throw std::logic_error("no cluster can take a row");
        // Along the paths every step is now free.
        for (int64_t node : settled_) prices_[node] += limit - distance_[node];
        for (int64_t sink : reached_) send(sink);
        if (unsure) look_beyond();
    }

    template <class Relax>
    void expand(int64_t node, double distance, const Relax& relax) {
        if (node == pool_) {
            for (int64_t k = 0; k < n_clusters_; ++k)
                if (flow_[k] > plan_.bounds.least)
                    relax(k, distance + std::max(0.0, prices_[k] - prices_[pool_]), {node, -1});
            return;
        }
        for (const Arc& arc : arcs_from(node))
            relax(arc.to, distance + std::max(0.0, arc.rise + prices_[arc.to] - prices_[node]), {node, arc.row});
        if (flow_[node] < plan_.bounds.most)
            relax(pool_, distance + std::max(0.0, prices_[pool_] - prices_[node]), {node, -1});
        if (exits_[node] < INFINITY)
            relax(unlisted_, distance + std::max(0.0, exits_[node] - prices_[node]), {node, -1});
    }

    // Takes rows of excess along the path, as many as can go at no cost; none where another path took part of it away.
    void send(int64_t sink) {
        int64_t source = sink;
        while (parent_[source].from >= 0) source = parent_[source].from;
        for (bool again = false; excess_[source] > 0 && excess_[sink] < 0 && open(sink, again); again = true) {
            for (int64_t node = sink; node != source; node = parent_[node].from) {
                const Step& step = parent_[node];
                if (step.row >= 0) move(step.row, step.from, node);
                if (node == pool_) ++flow_[step.from];
                if (step.from == pool_) --flow_[node];
            }
            progress_ = true;
            --excess_[source];
            ++excess_[sink];
        }
    }

    // Whether a row can still go all the way to the sink; `again` looks for other rows than those before.
    bool open(int64_t sink, bool again) {
        for (int64_t node = sink; parent_[node].from >= 0; node = parent_[node].from) {
            Step& step = parent_[node];
            if (node == pool_ && flow_[step.from] >= plan_.bounds.most) return false;
            if (step.from == pool_ && flow_[node] <= plan_.bounds.least) return false;
            if (step.row < 0) continue;
            if (again) {
                const std::vector<Arc>& arcs = arcs_from(step.from);
                const auto arc = std::find_if(arcs.begin(), arcs.end(), [&](const Arc& one) { return one.to == node; });
                const double price = prices_[node] - prices_[step.from];
                if (arc == arcs.end() || arc->row < 0) return false;
                if (arc->rise + price > kTie * (std::abs(arc->rise) + std::abs(price))) return false;
                step.row = arc->row;
            }
            if (plan_.labels[step.row] != step.from) return false;
        }
        return true;
    }

    void move(int64_t row, int64_t from, int64_t to) {
        const int64_t last = members_[from].back();
        members_[from][places_[row]] = last;
        places_[last] = places_[row];
        members_[from].pop_back();
        places_[row] = int64_t(members_[to].size());
        members_[to].push_back(row);
        plan_.labels[row] = int32_t(to);
        if (known_[to]) join(to, row);
        fresh_[from] = bounded_[to] = 0;
    }

    // The search came to where a row may prefer what is not on its list. Better bounds alone may lead to the same place
    // again, where prices rise little by little, so there are longer lists if no row got on its way in between.
    void look_beyond() {
        if (!progress_ || !tighten_bounds()) make_lists_anew();
        progress_ = false;
    }

    // Bounds by the prices as they are now; false where that would change little.
    bool tighten_bounds() {
        const std::vector<double> prices(prices_.begin(), prices_.begin() + n_clusters_);
        std::vector<double> rises(n_clusters_);
        for (int64_t k = 0; k < n_clusters_; ++k) rises[k] = prices[k] - base_[k];
        std::vector<double> sorted = rises;
        const auto usual = sorted.begin() + n_clusters_ / kShareToMeasure;
        std::nth_element(sorted.begin(), usual, sorted.end());
        if (!(*usual > 0)) return false;
        std::vector<int32_t> slow;
        for (int64_t k = 0; k < n_clusters_; ++k)
            if (rises[k] < *usual) slow.push_back(int32_t(k));
        candidates_.tighten(slow, prices);
        base_ = prices;
        std::fill(bounded_.begin(), bounded_.end(), 0);
        return true;
    }

    double slack(int64_t i) const {
        const int64_t k = plan_.labels[i];
        return candidates_.beyond(i) - own_cost(candidates_.of(i), k) - prices_[k];
    }

    // New lists for the rows that may prefer another cluster soonest; longer ones from the second time on.
    void make_lists_anew() {
        std::vector<std::pair<double, int64_t>> soonest;
        for (int64_t k : settled_) {
            if (k == pool_ || exits_[k] == INFINITY) continue;
            for (int64_t i : members_[k])
                if (candidates_.beyond(i) < INFINITY) soonest.push_back({slack(i), i});
        }
        const int64_t n_listed = std::min<int64_t>(
            int64_t(soonest.size()), std::max(kLeastToList, int64_t(soonest.size()) / kShareToList));
        std::nth_element(soonest.begin(), soonest.begin() + (n_listed - 1), soonest.end());
        std::map<int64_t, std::vector<int64_t>> by_length;
        for (int64_t s = 0; s < n_listed; ++s) {
            const int64_t i = soonest[s].second, length = int64_t(candidates_.of(i).size());
            by_length[listed_[i] ? 2 * length : length].push_back(i);
            listed_[i] = 1;
            known_[plan_.labels[i]] = bounded_[plan_.labels[i]] = 0;
        }
        const std::vector<double> prices(prices_.begin(), prices_.begin() + n_clusters_);
        for (auto& [length, ids] : by_length) {
            std::sort(ids.begin(), ids.end());
            candidates_.find(ids, prices, plan_.labels, length);
        }
    }

    Candidates& candidates_;
    Plan& plan_;
    const int64_t n_clusters_, pool_, unlisted_;
    std::vector<double> prices_;                 // per cluster, and of the pool
    std::vector<double> base_;                   // per cluster: prices that the bounds were last made for
    std::vector<int64_t> flow_, excess_;         // excess of the pool, too
    std::vector<std::vector<int64_t>> members_;  // per cluster, in no order
    std::vector<int64_t> places_;                // per row, among the members of its cluster
    std::vector<char> listed_;                   // per row: whether its list was made anew
    std::vector<std::vector<Arc>> arcs_;         // per cluster, and the heaps that they are the tops of
    std::vector<std::vector<Heap>> heaps_;
    std::vector<double> exits_;
    std::vector<char> known_, fresh_, bounded_;  // per cluster: whether its heaps, its arcs and its exit are up to date
    std::vector<int32_t> slot_;
    bool progress_ = true;                       // since bounds or lists were last made anew
    std::vector<double> distance_;               // of the search that goes on
    std::vector<Step> parent_;
    std::vector<int64_t> settled_, reached_;
};

}  // namespace

void settle_sizes(Candidates& candidates, Plan& plan) { Paths(candidates, plan).run(); }

}  // namespace sparsecluster
