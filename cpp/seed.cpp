// Compiled without contraction, as exact.cpp: the same seeds on every machine.
#include "seed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "exact.hpp"
#include "parallel.hpp"
#include "scan.hpp"
#include "screen.hpp"

namespace sparsecluster {

namespace {

// Rows whose potentials are summed together; a draw looks at the sums first.
constexpr int64_t kBlock = 256;
// Below this share of the norms a distance is computed directly, for its digits.
constexpr double kCancelled = 0x1p-20;
// Work of the two screens, in visits of a column entry: a survivor's entry, a row in a pass over the group
// norms, and an entry and a row of a scan.
constexpr double kCheck = 3, kGroupRow = 0.02, kScanEntry = 1.2, kScanRow = 40;
// The screen by columns is left aside for up to so many steps when a scan would be less than half its work.
constexpr int64_t kLongestRest = 64;
constexpr int64_t kHeadLimit = int64_t(256) << 20;  // bytes of the index of candidates

// What a candidate would gain, and the new squared distance of every row that it is nearest to.
struct Trial {
    int64_t row = -1;
    int64_t gain = -1;  // fixed point, so that the order of summation does not matter
    std::vector<int32_t> nearer;
    std::vector<double> distance2;

    bool better_than(const Trial& other) const {
        return other.row < 0 || gain > other.gain || (gain == other.gain && row < other.row);
    }
};

struct ThreadState {
    ScreenScratch screen;
    std::vector<double> spread;  // the candidate by feature, zero between trials
    int64_t checked = 0;         // entries of rows that survived the screen
    Trial current, best;
    std::vector<std::vector<int32_t>> survivors;  // per candidate, where all are screened together
};

template <class V, class I>
class Seeder {
public:
    Seeder(const Rows& rows, const Matrix<V, I>& view, const SeedOptions& options)
        : rows_(rows), view_(view), options_(options), n_(view.n_rows),
          distance2_(n_, std::numeric_limits<double>::infinity()), offset_(n_),
          block_potential_((n_ + kBlock - 1) / kBlock),
          n_threads_(int(std::clamp<int64_t>(options.n_threads, 1, options.n_candidates))), team_(n_threads_),
          states_(n_threads_) {
        // In dense rows everything shares features, so there is nothing to find by columns.
        by_columns_ = view.indptr && Screen::bytes(view) <= options.memory_limit;
        if (by_columns_) screen_.build(view, rows);
    }

    Seeds run() {
        Seeds seeds;
        place_first(options_.first);
        seeds.rows.push_back(options_.first);
        for (int64_t step = 1; step < options_.n_clusters; ++step) {
            const double potential = total();
            if (!(potential > 0)) break;
            const std::vector<int64_t> candidates = draw(step - 1, potential);
            const bool by_columns = by_columns_ && rest_ <= 0;
            if (!by_columns) screen_together(candidates);
            const Trial& winner = best_of(candidates, by_columns);
            accept(winner);
            seeds.rows.push_back(winner.row);
            if (by_columns)
                adapt(int64_t(candidates.size()));
            else
                --rest_;
        }
        seeds.potential = total();
        return seeds;
    }

private:
    double weight(int64_t i) const { return options_.weights ? options_.weights[i] : 1.0; }

    void place_first(int64_t row) {
        double bound = 0;
        for (int64_t i = 0; i < n_; ++i) bound += weight(i) * (rows_.norm2[i] + rows_.norm2[row]);
        int exponent = 0;
        if (bound > 0) std::frexp(bound, &exponent);
        gain_step_ = std::ldexp(1.0, std::min(60 - exponent, 1000));
        std::vector<int32_t> all(n_);
        std::iota(all.begin(), all.end(), 0);
        measure(row, all, states_[0], [&](int32_t i, double distance2) { distance2_[i] = distance2; });
        for (size_t b = 0; b < block_potential_.size(); ++b) refresh_block(int64_t(b));
    }

    double total() const {
        double sum = 0;
        for (double potential : block_potential_) sum += potential;
        return sum;
    }

    void refresh_block(int64_t b) {
        double potential = 0;
        for (int64_t i = b * kBlock; i < std::min(n_, (b + 1) * kBlock); ++i) {
            potential += weight(i) * distance2_[i];
            const double offset = 0.5 * (rows_.norm2[i] - distance2_[i]) * rows_.scale * rows_.scale;
            offset_[i] = float(offset) - std::abs(float(offset)) * 0x1p-20f;
        }
        block_potential_[b] = potential;
    }

    // Candidate rows of one step, drawn in proportion to weight times squared distance.
    std::vector<int64_t> draw(int64_t step, double potential) const {
        std::vector<int64_t> candidates;
        for (int64_t c = 0; c < options_.n_candidates; ++c) {
            double left = options_.draws[step * options_.n_candidates + c] * potential;
            size_t b = 0;
            while (b + 1 < block_potential_.size() && left >= block_potential_[b])
                left -= block_potential_[b++];
            int64_t chosen = -1;
            for (int64_t i = int64_t(b) * kBlock; i < std::min(n_, int64_t(b + 1) * kBlock); ++i) {
                const double part = weight(i) * distance2_[i];
                if (part <= 0) continue;
                chosen = i;
                if (left < part) break;
                left -= part;
            }
            // Rounding can run past the last block that has any potential.
            for (int64_t i = n_; chosen < 0 && i-- > 0;)
                if (weight(i) * distance2_[i] > 0) chosen = i;
            candidates.push_back(chosen);
        }
        std::sort(candidates.begin(), candidates.end());
        candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
        return candidates;
    }

    // The candidate with the least potential; the lowest row where two are equal.
    const Trial& best_of(const std::vector<int64_t>& candidates, bool by_columns) {
        for (ThreadState& state : states_) {
            state.best.row = -1;
            state.screen.visited = state.checked = 0;
        }
        team_.run(int64_t(candidates.size()), [&](int64_t c, int thread) {
            ThreadState& state = states_[thread];
            const int64_t row = candidates[c];
            Trial& trial = state.current;
            trial.row = row;
            trial.gain = 0;
            trial.nearer.clear();
            trial.distance2.clear();
            auto consider = [&](int32_t i, double distance2) {
                if (distance2 >= distance2_[i]) return;
                trial.gain += std::llrint(weight(i) * (distance2_[i] - distance2) * gain_step_);
                trial.nearer.push_back(i);
                trial.distance2.push_back(distance2);
            };
            if (by_columns) {
                screen_.find(view_.row(row), rows_.norm2[row], rows_.scale, offset_.data(), n_bounded_,
                             state.screen);
                measure(row, state.screen.survivors, state, consider);
            } else {
                for (const ThreadState& part : states_) measure(row, part.survivors[c], state, consider);
            }
            if (trial.better_than(state.best)) std::swap(state.current, state.best);
        });
        const Trial* best = &states_[0].best;
        for (ThreadState& state : states_)
            if (state.best.row >= 0 && state.best.better_than(*best)) best = &state.best;
        return *best;
    }

    void accept(const Trial& winner) {
        std::vector<char> stale(block_potential_.size(), 0);
        for (size_t p = 0; p < winner.nearer.size(); ++p) {
            distance2_[winner.nearer[p]] = winner.distance2[p];
            stale[winner.nearer[p] / kBlock] = 1;
        }
        for (size_t b = 0; b < stale.size(); ++b)
            if (stale[b]) refresh_block(int64_t(b));
    }

    // Screens all candidates together, as if they were centers: pays while most rows survive the other screen.
    void screen_together(const std::vector<int64_t>& candidates) {
        Centers centers;
        centers.n_features = view_.n_features;
        centers.items.resize(candidates.size());
        for (size_t c = 0; c < candidates.size(); ++c) {
            const auto row = view_.row(candidates[c]);
            centers.items[c].features.assign(row.features, row.features + row.size);
            centers.items[c].values.assign(row.values, row.values + row.size);
            centers.items[c].norm2 = rows_.norm2[candidates[c]];
        }
        index_.build(centers, rows_.scale, {kHeadLimit, direct_limit(rows_)}, n_threads_);
        for (ThreadState& state : states_) {
            state.survivors.resize(candidates.size());
            for (auto& rows : state.survivors) rows.clear();
        }
        scan(rows_, index_, nullptr, n_, n_threads_, scratches_,
             [&](const Scanned& scanned, const auto&, int thread) {
                 const double least = double(offset_[scanned.row]) - scanned.error;
                 for (size_t c = 0; c < candidates.size(); ++c)
                     if (scanned.scores[c] >= least)
                         states_[thread].survivors[c].push_back(int32_t(scanned.row));
             });
    }

    // Calls visit(i, squared distance) for the listed rows, each product summed in feature order.
    template <class Visit>
    void measure(int64_t row, const std::vector<int32_t>& survivors, ThreadState& state,
                 const Visit& visit) const {
        const auto candidate = view_.row(row);
        if (state.spread.empty()) state.spread.assign(view_.n_features, 0.0);
        for (int64_t e = 0; e < candidate.size; ++e)
            state.spread[candidate.features[e]] = double(candidate.values[e]);
        for (size_t s = 0; s < survivors.size(); ++s) {
            if (s + 1 < survivors.size()) prefetch_row(survivors[s + 1]);
            const int32_t i = survivors[s];
            const auto other = view_.row(i);
            double product = 0;
            for (int64_t e = 0; e < other.size; ++e)
                product += state.spread[other.features[e]] * double(other.values[e]);
            state.checked += other.size;
            const double norms = rows_.norm2[i] + rows_.norm2[row], expanded = norms - 2 * product;
            visit(i, expanded > kCancelled * norms ? expanded : direct_distance2(other, candidate));
        }
        for (int64_t e = 0; e < candidate.size; ++e) state.spread[candidate.features[e]] = 0.0;
    }

    void prefetch_row(int64_t i) const {
        const auto row = view_.row(i);
        for (int64_t e = 0; e < row.size; e += 16) {
            __builtin_prefetch(row.features + e);
            __builtin_prefetch(row.values + e);
        }
    }

    // Bounding one more group of frequent features saves visits and costs survivors: goes up or down by
    // one group a step, turning where the work got more. Only speed depends on it.
    void adapt(int64_t n_candidates) {
        double work = 0;
        for (const ThreadState& state : states_)
            work += double(state.screen.visited) + kCheck * double(state.checked);
        work = work / double(n_candidates) + kGroupRow * double(n_) * n_bounded_;
        if (work > last_work_) direction_ = -direction_;
        last_work_ = work;
        n_bounded_ = std::clamp(n_bounded_ + direction_, 0, screen_.n_groups());
        const double scan_work = kScanEntry * double(view_.nnz()) + kScanRow * double(n_);
        if (work * double(n_candidates) > 2 * scan_work) {
            rest_ = last_rest_ = std::min(2 * last_rest_, kLongestRest);
            n_bounded_ = 0;
            direction_ = 1;
        } else {
            last_rest_ = 1;
        }
    }

    const Rows& rows_;
    const Matrix<V, I>& view_;
    const SeedOptions& options_;
    int64_t n_;
    double gain_step_ = 1;
    std::vector<double> distance2_;
    std::vector<float> offset_;  // (|x|^2 - distance2) / 2, scaled, rounded down
    std::vector<double> block_potential_;
    int n_threads_;  // no more than there are candidates
    bool by_columns_ = false;
    Screen screen_;
    int n_bounded_ = 0;  // groups that are bounded, not visited
    int direction_ = 1;
    double last_work_ = std::numeric_limits<double>::infinity();
    int64_t rest_ = 4, last_rest_ = 1;  // steps without the screen by columns
    CenterIndex index_;
    std::vector<ScanScratch> scratches_;
    Team team_;
    std::vector<ThreadState> states_;
};

}  // namespace

Seeds greedy_kmeans_plusplus(const Rows& rows, const SeedOptions& options) {
    return std::visit(
        [&](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            return Seeder<typename View::Value, typename View::Index>(rows, view, options).run();
        },
        rows.matrix);
}

}  // namespace sparsecluster
