// Compiled without contraction, as exact.cpp: the same seeds on every machine.
#include "seeding/greedy.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/parallel.hpp"
#include "seeding/candidate_scan.hpp"
#include "seeding/measure.hpp"
#include "seeding/pooled_steps.hpp"
#include "seeding/potential.hpp"
#include "seeding/screen.hpp"
#include "seeding/streamed_steps.hpp"

namespace sparsecluster {

namespace {

// Work of the screen by columns, in visits of a column entry: an entry of a row that is measured, a survivor, a row
// in a pass over the group norms.
constexpr double kCheck = 3, kSurvivor = 4, kGroupRow = 0.02;
// The screen by columns is left aside for up to so many steps when scans are faster.
constexpr int64_t kLongestRest = 64;
// What survived the screen is kept for the next time a row is drawn: up to so many rows, and so many bytes per row in all.
constexpr size_t kMostKept = 512;
constexpr int64_t kRoomPerRow = 256;

// What a candidate gains, and the new squared distance of every row that it is nearest to.
struct Trial {
    int64_t row = -1;
    int64_t gain = -1;  // fixed point, so that the order of summation does not matter
    std::vector<int32_t> nearer;
    std::vector<double> distance2;

    bool better_than(const Trial& other) const {
        return other.row < 0 || gain > other.gain || (gain == other.gain && row < other.row);
    }
};

struct Candidate {
    int64_t row = -1;
    Survivors survivors;
};

struct ThreadState {
    ScreenScratch screen;
    std::vector<Survivors> survivors;  // per candidate, where all are screened together
};

// What is known of a row that was drawn before. Distances to the nearest seed only fall, so no other rows than these
// can be nearer to it.
struct Kept {
    double least, slack;  // as in ScreenQuery
    Survivors survivors;

    int64_t bytes() const { return int64_t(sizeof(Kept)) + 8 * int64_t(survivors.rows.capacity()); }
};

template <class V, class I>
class Seeder {
public:
    Seeder(const Rows& rows, const Matrix<V, I>& view, const SeedOptions& options)
        : rows_(rows), view_(view), options_(options), n_(view.n_rows), potential_(rows, options),
          most_(rows.streamed() ? 0 : n_, std::numeric_limits<double>::infinity()),
          n_threads_(int(std::clamp<int64_t>(options.n_threads, 1, options.n_candidates))),
          measure_(rows, view, n_threads_), streamed_(rows, options, potential_, measure_, n_threads_),
          team_(n_threads_), states_(n_threads_) {
        // In dense rows everything shares features, so there is nothing to find by columns.
        by_columns_ = view.indptr && !rows.streamed() && Screen::bytes(view) <= options.memory_limit;
        if (!by_columns_) return;
        screen_.build(view, rows, options.n_threads);
        kept_of_.assign(n_, -1);
        room_ = std::min(options.memory_limit - Screen::bytes(view), kRoomPerRow * n_);
    }

    Seeds run() {
        Seeds seeds;
        place_first(options_.first);
        seeds.rows.push_back(options_.first);
        for (int64_t step = 1; step < std::min(options_.n_clusters, options_.n_single); ++step) {
            const double total = potential_.total();
            if (!(total > 0)) break;
            draw(step - 1, total);
            const bool by_columns = by_columns_ && rest_ <= 0;
            const auto started = std::chrono::steady_clock::now();
            best_.row = -1;
            checked_ = 0;
            if (rows_.streamed()) {
                best_.row = streamed_.take_best(drawn_, gain_step_);
            } else {
                if (by_columns)
                    try_by_columns();
                else
                    try_together();
                potential_.accept(best_.nearer, best_.distance2);
            }
            seeds.rows.push_back(best_.row);
            if (options_.on_center) options_.on_center(int64_t(seeds.rows.size()));
            const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
            if (by_columns) {
                adapt(taken.count());
            } else {
                scan_seconds_ = std::min(scan_seconds_, taken.count());
                --rest_;
            }
        }
        if (int64_t(seeds.rows.size()) == options_.n_single) {
            forget();
            PooledSteps<V, I>(rows_, options_, potential_, gain_step_).run(seeds);
        }
        seeds.potential = potential_.cost();
        return seeds;
    }

private:
    // Lets go of what single steps need.
    void forget() {
        screen_ = Screen();
        most_ = {};
        kept_ = {};
        kept_of_ = {};
    }

    void place_first(int64_t row) {
        double bound = 0;
        for (int64_t i = 0; i < n_; ++i) bound += potential_.weight(i) * (rows_.norm2()[i] + rows_.norm2()[row]);
        int exponent = 0;
        if (bound > 0) std::frexp(bound, &exponent);
        gain_step_ = std::ldexp(1.0, std::min(60 - exponent, 1000));
        if (rows_.streamed()) {
            streamed_.place_first(row);
        } else {
            std::vector<int32_t> all(n_);
            std::iota(all.begin(), all.end(), 0);
            measure_.all(row, all, [&](int64_t, int32_t i, double distance2) { potential_.set(i, distance2); });
        }
        potential_.refresh();
    }

    void draw(int64_t step, double total) {
        drawn_ = potential_.draw(step, total);
        candidates_.resize(drawn_.size());
        for (size_t c = 0; c < drawn_.size(); ++c) {
            candidates_[c].row = drawn_[c];
            candidates_[c].survivors.clear();
        }
    }

    int64_t gain_of(int64_t i, double distance2) const { return potential_.gain(i, distance2, gain_step_); }

    // The most that a candidate can gain, in steps of the fixed point: by its survivors, or by what it could
    // have gained earlier, since gains only fall.
    double most_steps(double most, size_t n_rows) const {
        return most * gain_step_ * (1 + 1e-6) + double(n_rows);  // each row may be rounded up to a whole step
    }
    bool hopeless(double steps) const { return best_.row >= 0 && steps < double(best_.gain); }

    // Leaves in best_ the candidate that gains most; the lowest row where two are equal. Those that cannot
    // gain as much as another one does are not measured.
    void measure_best(std::vector<Candidate*> candidates) {
        std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate* a, const Candidate* b) {
            return a->survivors.most > b->survivors.most;
        });
        for (Candidate* candidate : candidates) {
            const double steps = most_steps(candidate->survivors.most, candidate->survivors.rows.size());
            most_[candidate->row] = std::min(most_[candidate->row], steps);
            if (hopeless(steps)) continue;
            try_candidate(*candidate);
            most_[candidate->row] = std::min(most_[candidate->row], double(current_.gain));
            drop_others(candidate->survivors);
            if (current_.better_than(best_)) std::swap(current_, best_);
        }
    }

    // Candidates that were drawn before come last: what they could gain then may rule them out now, and if not, the
    // rows that they could gain are few.
    void try_by_columns() {
        std::vector<Candidate*> fresh, known, again;
        for (Candidate& candidate : candidates_)
            (most_[candidate.row] == std::numeric_limits<double>::infinity() ? fresh : known)
                .push_back(&candidate);
        work_ = 0;
        n_screened_ = 0;
        screen_by_columns(fresh);
        for (Candidate* candidate : known) {
            if (hopeless(most_[candidate->row])) continue;
            const int32_t kept = kept_of_[candidate->row];
            if (kept < 0) {
                again.push_back(candidate);
                continue;
            }
            std::swap(candidate->survivors, kept_[kept].survivors);
            screen_.find_again(kept_[kept].least, kept_[kept].slack, rows_.scale(), potential_.offsets(),
                               options_.weights, candidate->survivors);
            measure_best({candidate});
            std::swap(candidate->survivors, kept_[kept].survivors);
        }
        screen_by_columns(again);
    }

    void try_together() {
        screen_together();
        std::vector<Candidate*> all;
        for (Candidate& candidate : candidates_) all.push_back(&candidate);
        measure_best(all);
    }

    // Only rows that are nearer now can be nearer later.
    void drop_others(Survivors& survivors) const {
        if (survivors.reach.empty()) return;
        size_t kept = 0;
        for (size_t s = 0; s < survivors.rows.size() && kept < current_.nearer.size(); ++s) {
            if (survivors.rows[s] != current_.nearer[kept]) continue;
            survivors.rows[kept] = survivors.rows[s];
            survivors.reach[kept++] = survivors.reach[s];
        }
        survivors.rows.resize(kept);
        survivors.reach.resize(kept);
    }

    void try_candidate(const Candidate& candidate) {
        std::vector<Trial>& parts = parts_;
        for (Trial& part : parts) {
            part.gain = 0;
            part.nearer.clear();
            part.distance2.clear();
        }
        checked_ += measure_.all(candidate.row, candidate.survivors.rows,
                                 [&](int64_t portion, int32_t i, double distance2) {
                                     if (distance2 >= potential_.distance2(i)) return;
                                     Trial& part = parts[portion];
                                     part.gain += gain_of(i, distance2);
                                     part.nearer.push_back(i);
                                     part.distance2.push_back(distance2);
                                 });
        current_.row = candidate.row;
        current_.gain = 0;
        current_.nearer.clear();
        current_.distance2.clear();
        for (const Trial& part : parts) {
            current_.gain += part.gain;
            current_.nearer.insert(current_.nearer.end(), part.nearer.begin(), part.nearer.end());
            current_.distance2.insert(current_.distance2.end(), part.distance2.begin(), part.distance2.end());
        }
    }

    // Screens and measures.
    void screen_by_columns(const std::vector<Candidate*>& candidates) {
        if (candidates.empty()) return;
        queries_.resize(candidates.size());
        for (size_t c = 0; c < candidates.size(); ++c) {
            const int64_t row = candidates[c]->row;
            screen_.ask(view_.row(row), rows_.norm2()[row], rows_.scale(), n_bounded_, queries_[c]);
            work_ += double(queries_[c].visited);
        }
        // A few parts for each thread, of whole chunks.
        const int64_t n_chunks = (n_ + Screen::kChunkRows - 1) / Screen::kChunkRows;
        const int64_t n_parts = std::min<int64_t>(n_chunks, n_threads_ > 1 ? 4 * n_threads_ : 1);
        found_.resize(n_parts);
        parallel_blocks(n_parts, n_threads_, [&](int64_t part, int thread) {
            const int64_t begin = part * n_chunks / n_parts * Screen::kChunkRows;
            const int64_t end = std::min(n_, (part + 1) * n_chunks / n_parts * Screen::kChunkRows);
            screen_.find(queries_, begin, end, rows_.scale(), potential_.offsets(), options_.weights,
                         states_[thread].screen);
            std::swap(states_[thread].screen.survivors, found_[part]);
        });
        for (size_t c = 0; c < candidates.size(); ++c) {
            for (const std::vector<Survivors>& of_part : found_) candidates[c]->survivors.append(of_part[c]);
            work_ += kSurvivor * double(candidates[c]->survivors.rows.size());
        }
        n_screened_ += int64_t(candidates.size());
        const int64_t before = checked_;
        measure_best(candidates);
        work_ += kCheck * double(checked_ - before);
        for (size_t c = 0; c < candidates.size(); ++c) keep(*candidates[c], queries_[c]);
    }

    void keep(Candidate& candidate, const ScreenQuery& query) {
        if (kept_of_[candidate.row] >= 0 || candidate.survivors.rows.size() > kMostKept) return;
        Kept kept{query.least, query.slack, candidate.survivors};
        if (kept.bytes() > room_) return;
        room_ -= kept.bytes();
        kept_of_[candidate.row] = int32_t(kept_.size());
        kept_.push_back(std::move(kept));
    }

    // Pays while most rows survive the other screen.
    void screen_together() {
        scan_.index(rows_, view_, drawn_, n_threads_);
        for (ThreadState& state : states_) {
            state.survivors.resize(candidates_.size());
            for (Survivors& survivors : state.survivors) survivors.clear();
        }
        scan_.find(rows_, potential_, n_threads_, [&](int64_t i, const auto&, size_t c, double excess, int thread) {
            Survivors& survivors = states_[thread].survivors[c];
            survivors.rows.push_back(int32_t(i));
            survivors.most += potential_.weight(i) * excess;
        });
        for (size_t c = 0; c < candidates_.size(); ++c) {
            Survivors& all = candidates_[c].survivors;
            all.clear();
            for (const ThreadState& state : states_) {
                const Survivors& part = state.survivors[c];
                all.rows.insert(all.rows.end(), part.rows.begin(), part.rows.end());
                all.most += 2 * part.most / (rows_.scale() * rows_.scale());
            }
        }
    }

    // Bounding one more group of frequent features saves visits and costs survivors: goes up or down by
    // one group a step, turning where the work got more. Where a scan was faster, scans are used for a while.
    // Only speed depends on it.
    void adapt(double seconds) {
        if (n_screened_ == 0) return;
        const double work = work_ / double(n_screened_) + kGroupRow * double(n_) * n_bounded_;
        if (work > last_work_) direction_ = -direction_;
        last_work_ = work;
        n_bounded_ = std::clamp(n_bounded_ + direction_, 0, screen_.n_groups());
        // Twice, because another process may have held up one step.
        const bool slow = seconds > scan_seconds_;
        if (slow && was_slow_)
            rest_ = last_rest_ = std::min(2 * last_rest_, kLongestRest);
        else if (!slow)
            last_rest_ = 1;
        was_slow_ = slow;
    }

    const Rows& rows_;
    const Matrix<V, I>& view_;
    const SeedOptions& options_;
    int64_t n_;
    double gain_step_ = 1;
    Potential potential_;
    std::vector<double> most_;  // per row, the steps it gains at most; infinity where it was never drawn
    int n_threads_;             // no more than there are candidates
    Measure<V, I> measure_;
    StreamedSteps<V, I> streamed_;  // in place of what follows, where rows come from a file
    CandidateScan scan_;
    bool by_columns_ = false;
    Screen screen_;
    int n_bounded_ = 0;  // groups that are bounded, not visited
    int direction_ = 1;
    double last_work_ = std::numeric_limits<double>::infinity();
    int64_t rest_ = 2, last_rest_ = 1;  // steps without the screen by columns
    bool was_slow_ = false;             // slower than a scan
    double scan_seconds_ = std::numeric_limits<double>::infinity();  // the fastest scan
    std::vector<int64_t> drawn_;         // the rows of this step,
    std::vector<Candidate> candidates_;  // and what is known of them
    Trial current_, best_;
    std::vector<Trial> parts_ = std::vector<Trial>(Measure<V, I>::kMostPortions);
    int64_t n_screened_ = 0;  // candidates that were screened by columns in this step,
    double work_ = 0;         // and what that took
    int64_t checked_ = 0;     // entries of rows that were measured in this step
    std::vector<ScreenQuery> queries_;
    std::vector<std::vector<Survivors>> found_;  // by part of the rows and query
    std::vector<int32_t> kept_of_;               // per row, its place in kept_ or -1
    std::vector<Kept> kept_;
    int64_t room_ = 0;  // bytes for more of them
    TeamScope team_;
    std::vector<ThreadState> states_;
};

}  // namespace

Seeds greedy_kmeans_plusplus(const Rows& rows, const SeedOptions& options) {
    return std::visit(
        [&](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            return Seeder<typename View::Value, typename View::Index>(rows, view, options).run();
        },
        rows.matrix());
}

}  // namespace sparsecluster
