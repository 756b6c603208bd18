// Compiled without contraction, as exact.cpp: equal rows must come out at distance zero, to the bit.
#include "seed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel.hpp"

namespace sparsecluster {

namespace {

// Rows whose potentials are summed together; a draw looks at the sums first.
constexpr int64_t kBlock = 256;

template <class V>
struct Columns {
    std::vector<int64_t> begin;
    std::vector<int32_t> rows;
    std::vector<V> values;
};

template <class V, class I>
Columns<V> transpose(const Matrix<V, I>& view) {
    Columns<V> columns;
    columns.begin.assign(view.n_features + 1, 0);
    const int64_t nnz = view.nnz();
    for (int64_t e = 0; e < nnz; ++e) ++columns.begin[view.features[e] + 1];
    for (int64_t f = 0; f < view.n_features; ++f) columns.begin[f + 1] += columns.begin[f];
    columns.rows.resize(nnz);
    columns.values.resize(nnz);
    std::vector<int64_t> at(columns.begin.begin(), columns.begin.end() - 1);
    for (int64_t i = 0; i < view.n_rows; ++i) {
        const auto row = view.row(i);
        for (int64_t e = 0; e < row.size; ++e) {
            const int64_t position = at[row.features[e]]++;
            columns.rows[position] = int32_t(i);
            columns.values[position] = row.values[e];
        }
        if (i % 4096 == 0) poll_interrupt();
    }
    return columns;
}

// What a candidate would gain, and the new squared distance of every row that it is nearest to.
struct Trial {
    int64_t row = -1;
    int64_t gain = -1;  // fixed point, so that the order of summation does not matter
    std::vector<int32_t> nearer;
    std::vector<double> distance2;
};

struct ThreadState {
    std::vector<double> product;  // per row, zero between trials
    std::vector<int32_t> touched;
    std::vector<char> seen;
    Trial current, best;
};

template <class V, class I>
class Seeder {
public:
    Seeder(const Rows& rows, const Matrix<V, I>& view, const SeedOptions& options)
        : rows_(rows), view_(view), options_(options), n_(view.n_rows) {
        if (view.indptr) columns_ = transpose(view);
        distance2_.assign(n_, std::numeric_limits<double>::infinity());
        states_.resize(std::max(options.n_threads, 1));
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
            poll_interrupt();
        }
        seeds.potential = total();
        return seeds;
    }

private:
    double weight(int64_t i) const { return options_.weights ? options_.weights[i] : 1.0; }

    void place_first(int64_t row) {
        // Everything is nearer than nothing: the trial gives every row its distance.
        double bound = 0;
        for (int64_t i = 0; i < n_; ++i) bound += weight(i) * (rows_.norm2[i] + rows_.norm2[row]);
        int exponent = 0;
        if (bound > 0) std::frexp(bound, &exponent);
        gain_step_ = std::ldexp(1.0, std::min(60 - exponent, 1000));
        ThreadState& state = states_[0];
        multiply(row, state);
        for (int64_t i = 0; i < n_; ++i) distance2_[i] = squared_distance(i, row, state.product[i]);
        clear(state);
        block_potential_.resize((n_ + kBlock - 1) / kBlock);
        block_reach_.resize(block_potential_.size());
        for (size_t b = 0; b < block_potential_.size(); ++b) refresh_block(int64_t(b));
    }

    double squared_distance(int64_t i, int64_t row, double product) const {
        return std::max(0.0, rows_.norm2[i] + rows_.norm2[row] - 2 * product);
    }

    // Products of a row with all rows that share a feature with it, each summed in feature order.
    void multiply(int64_t row, ThreadState& state) {
        if (state.product.empty()) {
            state.product.assign(n_, 0.0);
            state.seen.assign(n_, 0);
        }
        const auto candidate = view_.row(row);
        if (!view_.indptr) {
            for (int64_t i = 0; i < n_; ++i) {
                const V* values = view_.row(i).values;
                double sum = 0;
                for (int64_t e = 0; e < candidate.size; ++e)
                    sum += double(candidate.values[e]) * double(values[e]);
                state.product[i] = sum;
                state.touched.push_back(int32_t(i));
            }
            return;
        }
        for (int64_t e = 0; e < candidate.size; ++e) {
            const double value = candidate.values[e];
            const int64_t end = columns_.begin[candidate.features[e] + 1];
            for (int64_t p = columns_.begin[candidate.features[e]]; p < end; ++p) {
                const int32_t i = columns_.rows[p];
                state.product[i] += value * double(columns_.values[p]);
                if (!state.seen[i]) {
                    state.seen[i] = 1;
                    state.touched.push_back(i);
                }
            }
        }
    }

    void clear(ThreadState& state) {
        for (int32_t i : state.touched) {
            state.product[i] = 0;
            state.seen[i] = 0;
        }
        state.touched.clear();
    }

    void evaluate(int64_t row, ThreadState& state) {
        Trial& trial = state.current;
        trial.row = row;
        trial.gain = 0;
        trial.nearer.clear();
        trial.distance2.clear();
        auto consider = [&](int32_t i, double product) {
            const double distance2 = squared_distance(i, row, product);
            if (distance2 >= distance2_[i]) return;
            trial.gain += std::llrint(weight(i) * (distance2_[i] - distance2) * gain_step_);
            trial.nearer.push_back(i);
            trial.distance2.push_back(distance2);
        };
        multiply(row, state);
        for (int32_t i : state.touched) consider(i, state.product[i]);
        // A row that shares no feature is nearer only where its distance exceeds |x|^2 + |candidate|^2.
        for (size_t b = 0; view_.indptr && b < block_reach_.size(); ++b) {
            if (block_reach_[b] <= rows_.norm2[row]) continue;
            for (int64_t i = int64_t(b) * kBlock; i < std::min(n_, int64_t(b + 1) * kBlock); ++i)
                if (!state.seen[i]) consider(int32_t(i), 0.0);
        }
        clear(state);
    }

    double total() const {
        double sum = 0;
        for (double potential : block_potential_) sum += potential;
        return sum;
    }

    void refresh_block(int64_t b) {
        double potential = 0, reach = -std::numeric_limits<double>::infinity();
        for (int64_t i = b * kBlock; i < std::min(n_, (b + 1) * kBlock); ++i) {
            potential += weight(i) * distance2_[i];
            reach = std::max(reach, distance2_[i] - rows_.norm2[i]);
        }
        block_potential_[b] = potential;
        block_reach_[b] = reach;
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
        for (ThreadState& state : states_) state.best.row = -1;
        auto better = [](const Trial& a, const Trial& b) {
            return b.row < 0 || a.gain > b.gain || (a.gain == b.gain && a.row < b.row);
        };
        parallel_blocks(int64_t(candidates.size()), options_.n_threads, [&](int64_t c, int thread) {
            ThreadState& state = states_[thread];
            evaluate(candidates[c], state);
            if (better(state.current, state.best)) std::swap(state.current, state.best);
        });
        const Trial* best = nullptr;
        for (ThreadState& state : states_)
            if (state.best.row >= 0 && (!best || better(state.best, *best))) best = &state.best;
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

    const Rows& rows_;
    const Matrix<V, I>& view_;
    const SeedOptions& options_;
    int64_t n_;
    Columns<V> columns_;
    double gain_step_ = 1;
    std::vector<double> distance2_;
    std::vector<double> block_potential_;
    std::vector<double> block_reach_;  // largest distance2 - norm2
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
