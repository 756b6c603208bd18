// Steps of greedy k-means++ where there are many seeds already. A candidate is nearest to few rows then, and to find these
// one by one takes a pass over all rows for each. So candidates are drawn ahead (proposals.hpp), and one search
// (neighbors/search.hpp) with all of them as the index and all rows as queries, each within the distance to its nearest
// seed, finds the rows that each could gain. That holds for good: distances to the nearest seed only fall.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/parallel.hpp"
#include "core/rows.hpp"
#include "neighbors/search.hpp"
#include "seeding/greedy.hpp"
#include "seeding/potential.hpp"
#include "seeding/proposals.hpp"

namespace sparsecluster {

// A row that is nearer to a candidate than to any seed.
struct NearerRow {
    double distance2;  // to the candidate
    int32_t row;
};

// Of each indexed candidate the rows that it is nearest to. A row that is nearer to a candidate than to its own seed, at
// a distance r, has both within 2 r of each other. So the candidate is within 2 r of a seed, and others do not matter.
class NearerFinder {
public:
    static constexpr bool kAnyOrder = true;
    static constexpr double kTrust = 0.5;

    // The candidates by ascending distance to their nearest seeds.
    NearerFinder(const Potential& potential, const std::vector<int64_t>& candidates, int n_threads)
        : potential_(potential), n_candidates_(int64_t(candidates.size())), found_(std::max(n_threads, 1)) {
        for (const int64_t row : candidates) distance2_.push_back(potential.distance2(row));
    }

    double reach(int64_t i) const {
        const double distance2 = potential_.distance2(i);
        return distance2 > 0 ? std::sqrt(distance2) : -1.0;
    }
    int64_t missing(int64_t) const { return 0; }
    int64_t wanted(int64_t) const { return 0; }
    int64_t limit(int64_t i) const {
        constexpr double kMost = 4 * (1 + 1e-9);  // for what distances are rounded by
        return std::upper_bound(distance2_.begin(), distance2_.end(), kMost * potential_.distance2(i)) -
               distance2_.begin();
    }
    bool considers(int64_t, int64_t) const { return true; }
    void found(int64_t i, int64_t j, double distance, int thread) {
        const double distance2 = distance * distance;
        if (distance2 < potential_.distance2(i)) found_[thread].push_back({{distance2, int32_t(i)}, int32_t(j)});
    }
    void finish(int64_t, int64_t, int) {}

    // By candidate. The order within a list depends on the threads; sums over it are of integers.
    std::vector<std::vector<NearerRow>> lists() const {
        std::vector<size_t> sizes(n_candidates_, 0);
        for (const auto& part : found_)
            for (const Found& one : part) ++sizes[one.candidate];
        std::vector<std::vector<NearerRow>> lists(n_candidates_);
        for (int64_t c = 0; c < n_candidates_; ++c) lists[c].reserve(sizes[c]);
        for (const auto& part : found_)
            for (const Found& one : part) lists[one.candidate].push_back(one.nearer);
        return lists;
    }

private:
    struct Found {
        NearerRow nearer;
        int32_t candidate;
    };
    const Potential& potential_;
    int64_t n_candidates_;
    std::vector<double> distance2_;          // of the candidates
    std::vector<std::vector<Found>> found_;  // by thread
};

template <class V, class I>
class PooledSteps {
public:
    // `gain_step`: of the fixed point in which gains are summed.
    PooledSteps(const Rows& rows, const SeedOptions& options, Potential& potential, double gain_step)
        : rows_(rows), options_(options), potential_(potential), gain_step_(gain_step), proposals_(options.seed),
          list_of_(rows.n_rows(), -1),
          room_(std::max(kLeastRoom, std::min(options.memory_limit / 4,
                                              std::max(kEnoughRoom, kBytesPerRow * rows.n_rows())))) {}

    void run(Seeds& seeds) {
        mean_size_ = double(rows_.n_rows()) / double(seeds.rows.size());
        while (int64_t(seeds.rows.size()) < options_.n_clusters && potential_.total() > 0) {
            draw(int64_t(seeds.rows.size()));
            seeds.rows.push_back(choose());
            if (options_.on_center) options_.on_center(int64_t(seeds.rows.size()));
        }
    }

private:
    // Proposals are drawn for a quarter as many steps as were made, so that most are taken, and at most so many.
    static constexpr int64_t kShare = 4, kMostProposals = 8192, kSpare = 64;
    // Candidates whose scores with a row stay in the cache.
    static constexpr int64_t kBlock = 4096;
    // Lists of more rows are forgotten when others are made.
    static constexpr size_t kMostKept = 64;
    // Bytes for the lists that are found together, and for those that are kept.
    static constexpr int64_t kLeastRoom = int64_t(1) << 20, kEnoughRoom = int64_t(64) << 20, kBytesPerRow = 128;

    // The candidates of a step, each once, ascending.
    void draw(int64_t n_seeds) {
        candidates_.clear();
        for (int64_t c = 0; c < options_.n_candidates; ++c) {
            int64_t row = proposals_.take(potential_);
            if (row < 0) {
                const int64_t steps = std::min(options_.n_clusters - n_seeds, std::max<int64_t>(1, n_seeds / kShare));
                proposals_.draw(potential_, std::min(steps * options_.n_candidates + kSpare, kMostProposals));
                row = proposals_.take(potential_);
            }
            candidates_.push_back(row);
        }
        std::sort(candidates_.begin(), candidates_.end());
        candidates_.erase(std::unique(candidates_.begin(), candidates_.end()), candidates_.end());
        const auto unknown = [&](int64_t row) { return list_of_[row] < 0; };
        if (std::any_of(candidates_.begin(), candidates_.end(), unknown)) find_lists();
    }

    // The candidate that gains most, the lowest row where several do; the potentials are those with it as a seed.
    int64_t choose() {
        int64_t best = -1, most = -1;
        for (const int64_t candidate : candidates_) {
            std::vector<NearerRow>& list = lists_[list_of_[candidate]];
            int64_t gain = 0;
            size_t left = 0;
            for (const NearerRow& nearer : list) {
                if (!(nearer.distance2 < potential_.distance2(nearer.row))) continue;
                gain += potential_.gain(nearer.row, nearer.distance2, gain_step_);
                list[left++] = nearer;
            }
            list.resize(left);
            if (gain <= most) continue;
            most = gain;
            best = candidate;
        }
        nearer_.clear();
        distances2_.clear();
        for (const NearerRow& nearer : lists_[list_of_[best]]) {
            nearer_.push_back(nearer.row);
            distances2_.push_back(nearer.distance2);
        }
        potential_.accept(nearer_, distances2_);
        return best;
    }

    // Lists of the candidates and of the next proposals, as many as memory allows.
    void find_lists() {
        forget_long_lists();
        std::vector<int64_t> wanted;
        const auto want = [&](int64_t row) {
            if (list_of_[row] >= 0) return;
            list_of_[row] = int32_t(lists_.size());  // any number, so that it is wanted once
            wanted.push_back(row);
        };
        for (const int64_t row : candidates_) want(row);
        const double bytes_of_list = sizeof(NearerRow) * 3.0 * (1.0 + mean_size_);
        const size_t most = size_t(std::clamp(double(room_) / bytes_of_list, 1.0, double(kMostProposals)));
        proposals_.visit_next([&](int64_t row) {
            want(row);
            return wanted.size() < most;
        });
        std::sort(wanted.begin(), wanted.end(), [&](int64_t a, int64_t b) {
            return std::pair(potential_.distance2(a), a) < std::pair(potential_.distance2(b), b);
        });
        for (size_t w = 0; w < wanted.size(); ++w) list_of_[wanted[w]] = int32_t(lists_.size() + w);
        const Rows pool = rows_.select(wanted.data(), int64_t(wanted.size()));
        RowIndex index(pool, {Metric::euclidean, rows_.scale()}, kBlock);
        index.build(0, pool.n_rows(), options_.n_threads);
        NearerFinder finder(potential_, wanted, options_.n_threads);
        rows_.in_chunks(rows_.n_rows(), [&](const auto& view, int64_t begin, int64_t end) {
            // The matrix has its types; the compiler knows the others as well.
            if constexpr (std::is_same_v<std::decay_t<decltype(view)>, Matrix<V, I>>)
                search_view(finder, index, rows_, view, std::get<Matrix<V, I>>(pool.matrix()), begin, end,
                            options_.n_threads, {});
        });
        size_t n_found = 0;
        for (std::vector<NearerRow>& list : finder.lists()) {
            n_found += list.size();
            lists_.push_back(std::move(list));
        }
        mean_size_ = double(n_found) / double(wanted.size());
    }

    // Short ones stay, for the next time that a row is drawn, while there is room.
    void forget_long_lists() {
        std::vector<int32_t> place(lists_.size(), -1);
        std::vector<std::vector<NearerRow>> kept;
        int64_t left = room_;
        for (size_t l = lists_.size(); l-- > 0;) {  // the latest first
            std::vector<NearerRow>& list = lists_[l];
            if (list.size() > kMostKept) continue;
            list.shrink_to_fit();
            left -= int64_t(sizeof(list) + list.size() * sizeof(NearerRow));
            if (left < 0) break;
            place[l] = int32_t(kept.size());
            kept.push_back(std::move(list));
        }
        for (int32_t& at : list_of_)
            if (at >= 0) at = place[at];
        lists_ = std::move(kept);
    }

    const Rows& rows_;
    const SeedOptions& options_;
    Potential& potential_;
    double gain_step_;
    Proposals proposals_;
    std::vector<int64_t> candidates_;
    std::vector<int32_t> list_of_;  // per row, its place in lists_ or -1
    std::vector<std::vector<NearerRow>> lists_;
    double mean_size_ = 0;  // of the lists that were found last
    int64_t room_;
    std::vector<int32_t> nearer_;
    std::vector<double> distances2_;
};

}  // namespace sparsecluster
