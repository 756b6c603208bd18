// Steps of greedy k-means++ over rows that come from a file: in one pass all of them are measured, with all candidates of
// a step, while they are in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/parallel.hpp"
#include "core/rows.hpp"
#include "seeding/greedy.hpp"
#include "seeding/measure.hpp"
#include "seeding/potential.hpp"

namespace sparsecluster {

template <class V, class I>
class StreamedSteps {
public:
    StreamedSteps(const Rows& rows, const SeedOptions& options, Potential& potential, Measure<V, I>& measure,
                  int n_threads)
        : rows_(rows), options_(options), potential_(potential), measure_(measure), distances_(n_threads) {}

    void place_first(int64_t row) {
        measure_.prepare({row});
        measure_all([&](int64_t i, const std::vector<double>& distances, int) { potential_.set(i, distances[0]); });
    }

    // Takes the candidate that gains most, in steps of the fixed point, and answers which row that is: the lowest one
    // where two are equal. Its new distances are at hand, or come by a second pass where they are too many.
    int64_t take_best(const std::vector<int64_t>& candidates, double gain_step) {
        measure_.prepare(candidates);
        std::vector<std::vector<Trial>> trials = tried(candidates.size(), gain_step);
        std::vector<int64_t> gains(candidates.size(), 0);
        for (const auto& of_thread : trials)
            for (size_t c = 0; c < gains.size(); ++c) gains[c] += of_thread[c].gain;
        // The candidates ascend.
        const auto winner = size_t(std::max_element(gains.begin(), gains.end()) - gains.begin());
        const auto full = [&](const std::vector<Trial>& of_thread) { return of_thread[winner].full; };
        if (std::none_of(trials.begin(), trials.end(), full)) {
            for (const auto& of_thread : trials) potential_.accept(of_thread[winner].nearer, of_thread[winner].distance2);
            return candidates[winner];
        }
        trials.clear();
        measure_.prepare({candidates[winner]});
        measure_all([&](int64_t i, const std::vector<double>& distances, int) {
            potential_.set(i, std::min(potential_.distance2(i), distances[0]));
        });
        potential_.refresh();
        return candidates[winner];
    }

private:
    // What a candidate gains by the rows of one thread, and the new squared distance of those that it is nearest to.
    struct Trial {
        int64_t gain = 0;
        std::vector<int32_t> nearer;
        std::vector<double> distance2;
        bool full = false;  // there were too many to be kept
    };

    // By thread and candidate.
    std::vector<std::vector<Trial>> tried(size_t n_candidates, double gain_step) {
        const size_t n_threads = distances_.size();
        const auto room =
            size_t(options_.memory_limit / 4 / int64_t(sizeof(int32_t) + sizeof(double)) / int64_t(n_threads));
        std::vector<std::vector<Trial>> trials(n_threads, std::vector<Trial>(n_candidates));
        std::vector<size_t> n_held(n_threads, 0);
        measure_all([&](int64_t i, const std::vector<double>& distances, int thread) {
            for (size_t c = 0; c < n_candidates; ++c) {
                if (distances[c] >= potential_.distance2(i)) continue;
                Trial& trial = trials[thread][c];
                trial.gain += potential_.gain(i, distances[c], gain_step);
                if (trial.full) continue;
                trial.nearer.push_back(int32_t(i));
                trial.distance2.push_back(distances[c]);
                if (++n_held[thread] > room) n_held[thread] -= let_go_of_least(trials[thread]);
            }
        });
        return trials;
    }

    // Forgets the rows of the candidate that gained least so far, which will hardly win: how many these are.
    static size_t let_go_of_least(std::vector<Trial>& trials) {
        Trial* least = nullptr;
        for (Trial& trial : trials)
            if (!trial.full && !trial.nearer.empty() && (!least || trial.gain < least->gain)) least = &trial;
        const size_t n_rows = least->nearer.size();
        least->full = true;
        std::vector<int32_t>().swap(least->nearer);
        std::vector<double>().swap(least->distance2);
        return n_rows;
    }

    // Calls visit(i, squared distances to what was prepared, thread) with every row.
    template <class Visit>
    void measure_all(const Visit& visit) {
        constexpr int64_t kBlock = 256;
        rows_.in_chunks(rows_.n_rows(), [&](const auto& view, int64_t begin, int64_t end) {
            // The matrix has its types; the compiler knows the others as well.
            if constexpr (std::is_same_v<std::decay_t<decltype(view)>, Matrix<V, I>>)
                parallel_blocks((end - begin + kBlock - 1) / kBlock, int(distances_.size()), [&](int64_t b, int thread) {
                    std::vector<double>& distances = distances_[thread];
                    const int64_t first = begin + b * kBlock;
                    for (int64_t i = first; i < std::min(end, first + kBlock); ++i) {
                        measure_.several(i, view.row(i), distances);
                        visit(i, distances, thread);
                    }
                });
        });
    }

    const Rows& rows_;
    const SeedOptions& options_;
    Potential& potential_;
    Measure<V, I>& measure_;
    std::vector<std::vector<double>> distances_;  // per thread, of a row to all candidates
};

}  // namespace sparsecluster
