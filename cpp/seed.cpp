// Compiled without contraction, as exact.cpp: equal rows must come out at distance zero, to the bit.
#include "seed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exact.hpp"
#include "kernels.hpp"
#include "parallel.hpp"

namespace sparsecluster {

namespace {

// Rows whose potentials are summed together; a draw looks at the sums first.
constexpr int64_t kBlock = 256;
// Rows that are screened together, so that their sums stay in the first-level cache.
constexpr int64_t kChunkRows = 4096;
// Below this share of the norms a distance is computed directly, for its digits.
constexpr double kCancelled = 0x1p-20;
constexpr float kUp = 1.0f + 0x1p-22f;

// For screening, in float32 and scaled: the rows by feature, and for groups of frequent features each row's
// norm within the group. The product of two rows is at most the sum of the products of their group norms
// (Cauchy-Schwarz), so frequent features need not be visited entry by entry.
struct ColumnEntry {
    int32_t row;
    float value;
};

struct Screen {
    std::vector<int32_t> group;        // per feature, kNone for the rare ones
    std::vector<float> group_norms;    // [group][row], rounded up
    int n_groups = 0;
    std::vector<int64_t> begin;        // per feature, into entries
    std::vector<ColumnEntry> entries;
    std::vector<float> norms;          // |x|, rounded up

    static constexpr int32_t kNone = INT32_MAX;
};

// Frequent features by descending count: single ones first, then ever larger groups.
constexpr int kMaxGroups = 16;
constexpr double kGroupGrowth = 1.3;

template <class V, class I>
Screen build_screen(const Matrix<V, I>& view, const Rows& rows) {
    Screen screen;
    const int64_t n = view.n_rows, d = view.n_features, nnz = view.nnz();
    screen.begin.assign(d + 1, 0);
    for (int64_t e = 0; e < nnz; ++e) ++screen.begin[view.features[e] + 1];
    std::vector<std::pair<int64_t, int32_t>> frequent;  // (-count, feature)
    for (int64_t f = 0; f < d; ++f)
        if (screen.begin[f + 1] * 512 > n) frequent.push_back({-screen.begin[f + 1], int32_t(f)});
    std::sort(frequent.begin(), frequent.end());
    screen.group.assign(d, Screen::kNone);
    double size = 1;
    for (size_t at = 0; at < frequent.size() && screen.n_groups < kMaxGroups; size *= kGroupGrowth) {
        for (int64_t left = int64_t(size); left > 0 && at < frequent.size(); --left)
            screen.group[frequent[at++].second] = screen.n_groups;
        ++screen.n_groups;
    }
    for (int64_t f = 0; f < d; ++f) screen.begin[f + 1] += screen.begin[f];

    screen.entries.resize(nnz);
    screen.norms.resize(n);
    screen.group_norms.resize(screen.n_groups * n);
    std::vector<int64_t> at(screen.begin.begin(), screen.begin.end() - 1);
    double group_norm2[kMaxGroups];
    for (int64_t i = 0; i < n; ++i) {
        std::fill_n(group_norm2, kMaxGroups, 0.0);
        const auto row = view.row(i);
        for (int64_t e = 0; e < row.size; ++e) {
            const auto feature = row.features[e];
            const double value = double(row.values[e]) * rows.scale;
            screen.entries[at[feature]++] = {int32_t(i), float(value)};
            if (screen.group[feature] != Screen::kNone) group_norm2[screen.group[feature]] += value * value;
        }
        for (int g = 0; g < screen.n_groups; ++g)
            screen.group_norms[g * n + i] = float(std::sqrt(group_norm2[g])) * kUp;
        screen.norms[i] = float(std::sqrt(rows.norm2[i]) * rows.scale) * kUp;
        if (i % 4096 == 0) poll_interrupt();
    }
    return screen;
}

// What a candidate would gain, and the new squared distance of every row that it is nearest to.
struct Trial {
    int64_t row = -1;
    int64_t gain = -1;  // fixed point, so that the order of summation does not matter
    std::vector<int32_t> nearer;
    std::vector<double> distance2;
};

// The rest of a column of the screen, and the candidate's value there.
struct ColumnRest {
    const ColumnEntry *begin, *end;
    float value;
};

struct ThreadState {
    std::vector<float> reach;      // per row of a chunk: at least its product with the candidate
    std::vector<ColumnRest> columns;
    std::vector<int32_t> survivors;
    std::vector<double> spread;    // the candidate by feature, zero between trials
    int64_t visited = 0;           // entries of columns, and of the rows that survived
    int64_t checked = 0;
    Trial current, best;
};

template <class V, class I>
class Seeder {
public:
    Seeder(const Rows& rows, const Matrix<V, I>& view, const SeedOptions& options)
        : rows_(rows), view_(view), options_(options), n_(view.n_rows), simd_(kernels()),
          team_(options.n_threads), states_(std::max(options.n_threads, 1)) {
        if (view.indptr) screen_ = build_screen(view, rows);
        distance2_.assign(n_, std::numeric_limits<double>::infinity());
    }

    Seeds run() {
        Seeds seeds;
        seeds.rows.push_back(options_.first);
        place_first(options_.first);
        for (int64_t step = 1; step < options_.n_clusters; ++step) {
            const double potential = total();
            if (!(potential > 0)) break;
            const Trial& winner = best_of(draw(step - 1, potential));
            accept(winner);
            seeds.rows.push_back(winner.row);
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
        // Everything is nearer than nothing.
        ThreadState& state = states_[0];
        everything_survives(state);
        measure(row, state, [&](int32_t i, double distance2) { distance2_[i] = distance2; });
        block_potential_.resize((n_ + kBlock - 1) / kBlock);
        offset_.resize(n_);
        for (size_t b = 0; b < block_potential_.size(); ++b) refresh_block(int64_t(b));
    }

    void everything_survives(ThreadState& state) const {
        state.survivors.resize(n_);
        for (int64_t i = 0; i < n_; ++i) state.survivors[i] = int32_t(i);
    }

    // Calls visit(i, squared distance) for the surviving rows; equal rows come out at zero.
    template <class Visit>
    void measure(int64_t row, ThreadState& state, const Visit& visit) const {
        const auto candidate = view_.row(row);
        auto distance2 = [&](int32_t i, double product) {
            const double norms = rows_.norm2[i] + rows_.norm2[row], expanded = norms - 2 * product;
            return expanded > kCancelled * norms ? expanded : direct_distance2(view_.row(i), candidate);
        };
        if (!view_.indptr) {
            // Four rows at a time, so that their sums do not wait for each other.
            for (size_t s = 0; s < state.survivors.size(); s += 4) {
                const size_t count = std::min<size_t>(4, state.survivors.size() - s);
                const V* values[4];
                double sum[4] = {};
                for (size_t q = 0; q < 4; ++q)
                    values[q] = view_.row(state.survivors[s + std::min(q, count - 1)]).values;
                for (int64_t e = 0; e < candidate.size; ++e)
                    for (int q = 0; q < 4; ++q)
                        sum[q] += double(candidate.values[e]) * double(values[q][e]);
                for (size_t q = 0; q < count; ++q)
                    visit(state.survivors[s + q], distance2(state.survivors[s + q], sum[q]));
            }
            return;
        }
        if (state.spread.empty()) state.spread.assign(view_.n_features, 0.0);
        for (int64_t e = 0; e < candidate.size; ++e)
            state.spread[candidate.features[e]] = double(candidate.values[e]);
        for (size_t s = 0; s < state.survivors.size(); ++s) {
            const int32_t i = state.survivors[s];
            const auto other = view_.row(i);
            if (s + 1 < state.survivors.size()) prefetch_row(state.survivors[s + 1]);
            double sum = 0;
            for (int64_t e = 0; e < other.size; ++e)
                sum += state.spread[other.features[e]] * double(other.values[e]);
            visit(i, distance2(i, sum));
            state.checked += other.size;
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

    // Finds the rows that may be nearer to the candidate than to any seed: those whose product with it may
    // exceed (|x|^2 + |candidate|^2 - distance^2) / 2.
    void find_survivors(int64_t row, ThreadState& state) const {
        const auto candidate = view_.row(row);
        double group_norm2[kMaxGroups] = {};
        state.columns.clear();
        for (int64_t e = 0; e < candidate.size; ++e) {
            const auto feature = candidate.features[e];
            const int32_t group = screen_.group[feature];
            const double value = double(candidate.values[e]) * rows_.scale;
            if (group < n_bounded_)
                group_norm2[group] += value * value;
            else
                state.columns.push_back({screen_.entries.data() + screen_.begin[feature],
                                         screen_.entries.data() + screen_.begin[feature + 1], float(value)});
        }
        const float* group_norms[kMaxGroups];
        float factors[kMaxGroups];
        int n_groups = 0;
        for (int g = 0; g < n_bounded_; ++g) {
            if (group_norm2[g] == 0) continue;
            group_norms[n_groups] = screen_.group_norms.data() + g * n_;
            factors[n_groups++] = float(std::sqrt(group_norm2[g])) * kUp;
        }
        for (const auto& column : state.columns) state.visited += column.end - column.begin;

        const double norm = std::sqrt(rows_.norm2[row]) * rows_.scale;
        // Roundings of the sums below, of the offsets, and of the comparison.
        const double slack = double(candidate.size + kMaxGroups + 8) * 0x1p-23 * norm;
        const double least = 0.5 * norm * norm * (1 - 0x1p-20) - 1e-36;
        state.reach.resize(kChunkRows);
        state.survivors.resize(n_);
        int64_t n_survivors = 0;
        for (int64_t begin = 0; begin < n_; begin += kChunkRows) {
            const int64_t count = std::min(kChunkRows, n_ - begin);
            simd_.weighted_sum(state.reach.data(), group_norms, factors, n_groups, count);
            float* const reach = state.reach.data() - begin;
            const int32_t end = int32_t(begin + count);
            for (auto& column : state.columns) {
                const ColumnEntry* entry = column.begin;
                for (; entry < column.end && entry->row < end; ++entry)
                    reach[entry->row] += column.value * entry->value;
                column.begin = entry;
            }
            const int64_t found = simd_.collect_above(
                state.reach.data(), screen_.norms.data() + begin, offset_.data() + begin, count,
                float(slack), float(least), state.survivors.data() + n_survivors);
            for (int64_t s = n_survivors; s < n_survivors + found; ++s)
                state.survivors[s] += int32_t(begin);
            n_survivors += found;
            for (int g = 0; g < n_groups; ++g) group_norms[g] += count;
        }
        state.survivors.resize(n_survivors);
    }

    void evaluate(int64_t row, ThreadState& state) const {
        Trial& trial = state.current;
        trial.row = row;
        trial.gain = 0;
        trial.nearer.clear();
        trial.distance2.clear();
        if (view_.indptr)
            find_survivors(row, state);
        else
            everything_survives(state);
        measure(row, state, [&](int32_t i, double distance2) {
            if (distance2 >= distance2_[i]) return;
            trial.gain += std::llrint(weight(i) * (distance2_[i] - distance2) * gain_step_);
            trial.nearer.push_back(i);
            trial.distance2.push_back(distance2);
        });
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
    std::vector<int64_t> draw(int64_t step, double potential) {
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
    const Trial& best_of(const std::vector<int64_t>& candidates) {
        for (ThreadState& state : states_) {
            state.best.row = -1;
            state.visited = state.checked = 0;
        }
        auto better = [](const Trial& a, const Trial& b) {
            return b.row < 0 || a.gain > b.gain || (a.gain == b.gain && a.row < b.row);
        };
        team_.run(int64_t(candidates.size()), [&](int64_t c, int thread) {
            ThreadState& state = states_[thread];
            evaluate(candidates[c], state);
            if (better(state.current, state.best)) std::swap(state.current, state.best);
        });
        const Trial* best = nullptr;
        for (ThreadState& state : states_)
            if (state.best.row >= 0 && (!best || better(state.best, *best))) best = &state.best;
        adapt(int64_t(candidates.size()));
        return *best;
    }

    // Bounding one more group of frequent features saves visits and costs survivors: goes up or down by
    // one group a step, turning where the work got more. Only speed depends on it.
    void adapt(int64_t n_candidates) {
        double work = 0;
        for (const ThreadState& state : states_) work += double(state.visited) + 3 * double(state.checked);
        work = work / double(n_candidates) + double(n_) / 50 * n_bounded_;
        if (work > last_work_) direction_ = -direction_;
        last_work_ = work;
        n_bounded_ = std::clamp(n_bounded_ + direction_, 0, screen_.n_groups);
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

    const Rows& rows_;
    const Matrix<V, I>& view_;
    const SeedOptions& options_;
    int64_t n_;
    const Kernels& simd_;
    Screen screen_;
    int n_bounded_ = 0;  // groups that are bounded, not visited
    int direction_ = 1;
    double last_work_ = std::numeric_limits<double>::infinity();
    double gain_step_ = 1;
    std::vector<double> distance2_;
    std::vector<float> offset_;  // (|x|^2 - distance2) / 2, scaled, rounded down
    std::vector<double> block_potential_;
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
