// Prices that come near the bounds. Compiled without contraction: they decide between assignments of equal cost.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/groups.hpp"
#include "core/parallel.hpp"
#include "sizes/plan.hpp"

namespace sparsecluster {

namespace {

constexpr double kTie = 0x1p-40;
constexpr int64_t kRowsOfBlock = 1024;
// Shortest paths do the rest when so many rounds of so many passes have left more than this share of the misplaced rows.
constexpr int kStale = 3, kPasses = 4;
constexpr double kEnoughGain = 0.9;
// Where more than one row in so many is misplaced, and rows are many, all of them are shared out first: stages, turns of
// each, and the factor by which the temperature falls.
constexpr int64_t kFew = 4, kMany = 10'000;
constexpr int kStages = 8, kTurns = 3;
constexpr double kCooling = 2.5;

// Between the values at places n - 1 and n in ascending order; the order of `values` changes.
double between(std::vector<double>& values, int64_t n) {
    const auto last = values.begin() + (n - 1);
    std::nth_element(values.begin(), last, values.end());
    const auto next = std::min_element(last + 1, values.end());
    return next == values.end() ? *last : 0.5 * (*last + *next);
}

class Approach {
public:
    Approach(Candidates& candidates, Plan& plan)
        : candidates_(candidates), plan_(plan), best_(candidates.n_rows()), margins_(candidates.n_rows()) {}

    void run() {
        list_all();
        if (candidates_.n_rows() >= kMany && misplaced() > candidates_.n_rows() / kFew) soften();
        int64_t fewest = misplaced();
        std::vector<double> prices = plan_.prices;
        // Prices that are raised alone never pass those of an optimum, nor do those that are lowered alone; both at
        // once might go to and fro.
        for (int stale = 0; fewest > enough() && stale < kStale;) {
            const int64_t before = fewest;
            for (int pass = 0; pass < kPasses && fewest > enough(); ++pass) {
                if (pass % 2 == 0 ? !raise() : !lower()) continue;
                label_all();
                if (const int64_t now = misplaced(); now < fewest) {
                    fewest = now;
                    prices = plan_.prices;
                }
            }
            stale = double(fewest) < kEnoughGain * double(before) ? 0 : stale + 1;
            poll_interrupt();
        }
        if (prices == plan_.prices) return;
        std::vector<int32_t> fallen;
        for (size_t k = 0; k < prices.size(); ++k)
            if (prices[k] < plan_.prices[k]) fallen.push_back(int32_t(k));
        plan_.prices = prices;
        candidates_.tighten(fallen, plan_.prices);
        label_all();
    }

private:
    // Paths for so few rows take less time than a pass.
    int64_t enough() const { return candidates_.n_clusters() / 32; }

    int64_t misplaced() const {
        int64_t sum = 0;
        for (int64_t k = 0; k < candidates_.n_clusters(); ++k) sum += std::abs(plan_.sizes[k] - plan_.wanted(k));
        return sum;
    }

    void list_all() {
        std::vector<int64_t> all(candidates_.n_rows());
        std::iota(all.begin(), all.end(), 0);
        candidates_.find(all, plan_.prices, nullptr, candidates_.length());
        label_all();
    }

    // Where far too many rows are alike they would go from one cluster to the next together. So every row is first
    // shared out among all clusters, at a temperature that falls; prices by which the shares add up to sizes within the
    // bounds follow by scaling (Sinkhorn's iteration, with bounds as in Chizat and others 2018).
    void soften() {
        const int64_t before = misplaced();
        const std::vector<double> prices = plan_.prices;
        double temperature = 0;
        for (int64_t i = 0; i < candidates_.n_rows(); ++i) temperature += best_[i] - plan_.prices[plan_.labels[i]];
        temperature /= double(candidates_.n_rows());
        for (int stage = 0; stage < kStages && temperature > 0; ++stage, temperature /= kCooling)
            for (int turn = 0; turn < kTurns; ++turn) {
                const std::vector<double> shares = candidates_.shares(plan_.prices, temperature);
                for (size_t k = 0; k < shares.size(); ++k) {
                    double& price = plan_.prices[k];
                    const double full = price + temperature * std::log(shares[k] / double(plan_.bounds.most));
                    const double least = price + temperature * std::log(shares[k] / double(plan_.bounds.least));
                    price = full > 0 ? full : std::min(least, 0.0);
                }
            }
        list_all();
        if (misplaced() <= before) return;
        plan_.prices = prices;
        list_all();
    }

    // Gives every row the label that it prefers. Lists are made anew where they are too short to tell.
    void label_all() {
        const int64_t n = candidates_.n_rows();
        std::vector<char> unsure(n);
        parallel_blocks((n + kRowsOfBlock - 1) / kRowsOfBlock, candidates_.n_threads(), [&](int64_t block, int) {
            for (int64_t i = block * kRowsOfBlock; i < std::min(n, (block + 1) * kRowsOfBlock); ++i)
                unsure[i] = !label(i);
        });
        std::vector<int64_t> ids;
        for (int64_t i = 0; i < n; ++i)
            if (unsure[i]) ids.push_back(i);
        // Longer ones where the kernels cannot tell which clusters are the best, as far from the origin.
        for (int64_t length = candidates_.length(); !ids.empty(); length *= 2) {
            candidates_.find(ids, plan_.prices, nullptr, length);
            std::erase_if(ids, [&](int64_t i) { return label(i); });
            poll_interrupt();
        }
        std::fill(plan_.sizes.begin(), plan_.sizes.end(), 0);
        for (int64_t i = 0; i < n; ++i) ++plan_.sizes[plan_.labels[i]];
    }

    // Of equal values the lowest cluster. False where a cluster that is not listed may be preferred.
    bool label(int64_t i) {
        const auto list = candidates_.of(i);
        double best = INFINITY;
        for (const Candidate& one : list) best = std::min(best, one.cost + plan_.prices[one.cluster]);
        Candidate own{0, INT32_MAX};
        for (const Candidate& one : list) {
            const double price = plan_.prices[one.cluster];
            const bool tied = one.cost + price <= best + kTie * (one.cost + std::abs(price));
            if (tied && one.cluster < own.cluster) own = one;
        }
        const double beyond = candidates_.beyond(i);
        double second = beyond;
        for (const Candidate& one : list)
            if (one.cluster != own.cluster) second = std::min(second, one.cost + plan_.prices[one.cluster]);
        plan_.labels[i] = own.cluster;
        best_[i] = own.cost + plan_.prices[own.cluster];
        margins_[i] = std::max(0.0, second - best_[i]);
        return best <= beyond;
    }

    // Raises prices until no cluster would have too many rows. False where none has.
    bool raise() {
        const int64_t n_clusters = candidates_.n_clusters();
        const auto too_many = [&](int64_t k) { return plan_.sizes[k] > plan_.wanted(k); };
        const Groups members = group_ids(n_clusters, [&](const auto& note) {
            for (int64_t i = 0; i < candidates_.n_rows(); ++i)
                if (too_many(plan_.labels[i])) note(plan_.labels[i], i);
        });
        if (members.ids.empty()) return false;
        std::vector<double> margins;
        for (int64_t k = 0; k < n_clusters; ++k) {
            if (!too_many(k)) continue;
            margins.clear();
            for (int64_t m = members.begin[k]; m < members.begin[k + 1]; ++m)
                margins.push_back(margins_[members.ids[m]]);
            const double by = between(margins, plan_.sizes[k] - plan_.wanted(k));
            plan_.prices[k] = plan_.prices[k] < 0 ? std::min(0.0, plan_.prices[k] + by) : plan_.prices[k] + by;
        }
        return true;
    }

    // Lowers prices until no cluster would have too few rows. False where none has.
    bool lower() {
        const int64_t n_clusters = candidates_.n_clusters();
        std::vector<int64_t> missing(n_clusters);
        for (int64_t k = 0; k < n_clusters; ++k) missing[k] = std::max<int64_t>(0, plan_.wanted(k) - plan_.sizes[k]);
        if (std::count(missing.begin(), missing.end(), 0) == n_clusters) return false;
        std::vector<std::vector<double>> gaps(n_clusters);
        for (int64_t i = 0; i < candidates_.n_rows(); ++i)
            for (const Candidate& one : candidates_.of(i))
                if (missing[one.cluster] > 0 && one.cluster != plan_.labels[i])
                    gaps[one.cluster].push_back(
                        std::max(0.0, one.cost + plan_.prices[one.cluster] - best_[i]));
        // Rows that do not list a cluster may prefer it as well, where their lists end too soon.
        std::vector<double> slacks(candidates_.n_rows());
        for (int64_t i = 0; i < candidates_.n_rows(); ++i) slacks[i] = candidates_.beyond(i) - best_[i];
        std::sort(slacks.begin(), slacks.end());
        std::vector<int32_t> unlisted;
        std::vector<int64_t> wanted;
        std::vector<double> by(n_clusters, 0.0);
        for (int64_t k = 0; k < n_clusters; ++k) {
            if (missing[k] == 0) continue;
            const bool listed = int64_t(gaps[k].size()) >= missing[k];
            if (listed) by[k] = between(gaps[k], missing[k]);
            if (listed && std::lower_bound(slacks.begin(), slacks.end(), by[k]) - slacks.begin() <= missing[k]) continue;
            unlisted.push_back(int32_t(k));
            wanted.push_back(missing[k]);
        }
        if (!unlisted.empty()) {
            const std::vector<double> falls =
                candidates_.falls_for(unlisted, wanted, plan_.prices, best_, plan_.labels);
            for (size_t u = 0; u < unlisted.size(); ++u) by[unlisted[u]] = falls[u];
        }
        for (int64_t k = 0; k < n_clusters; ++k) {
            if (missing[k] == 0) continue;
            plan_.prices[k] = plan_.prices[k] > 0 ? std::max(0.0, plan_.prices[k] - by[k]) : plan_.prices[k] - by[k];
        }
        std::vector<int32_t> fallen;
        for (int64_t k = 0; k < n_clusters; ++k)
            if (missing[k] > 0) fallen.push_back(int32_t(k));
        candidates_.tighten(fallen, plan_.prices);
        return true;
    }

    Candidates& candidates_;
    Plan& plan_;
    std::vector<double> best_, margins_;  // per row: cost + price of its label, and how much more the next best asks
};

}  // namespace

void approach(Candidates& candidates, Plan& plan) { Approach(candidates, plan).run(); }

}  // namespace sparsecluster
