// Elkan 2003 in the original order: row by row, center by center (algorithm D.1 of SparseKmeans, Pham Dang, Lin and Lin).
// The order of elkan.cpp suits sparse rows better; this one skips more, and looks at single pairs.
#include <atomic>

#include "index/scan.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/bounds.hpp"
#include "kmeans/center_gaps.hpp"

namespace sparsecluster {

namespace {

// upper_: to the own center; lower_: to every center, [row][center].
class ElkanRows final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override {
        const int64_t n_centers = centers.size();
        if (int64_t(lower_.size()) != n_rows_ * n_centers) {
            upper_.resize(n_rows_);
            lower_.resize(n_rows_ * n_centers);
            index_.build(centers, scale_, limits(), options_.n_threads);
            return {rescan(centers, nullptr, n_rows_, labels), n_rows_ * n_centers};
        }
        index_.build(centers, scale_, limits(), options_.n_threads);
        const Pass pass(*this, centers, shift);
        const int64_t n_blocks = (n_rows_ + kBlock - 1) / kBlock;
        std::vector<Counts> counts(n_blocks);
        std::visit(
            [&](const auto& view) {
                parallel_blocks(n_blocks, options_.n_threads, [&](int64_t b, int thread) {
                    for (int64_t i = b * kBlock; i < std::min(n_rows_, (b + 1) * kBlock); ++i)
                        assign_row(pass, i, view.row(i), labels[i], counts[b]);
                    if (thread == 0) poll_interrupt();
                });
            },
            rows_.matrix());

        AssignStats stats{0, 0, "bounds", 0, n_centers * n_centers};
        std::vector<int64_t> doubtful;
        for (const Counts& block : counts) {
            stats.moved += block.moved;
            stats.distances += block.distances;
            stats.skipped += block.skipped;
            doubtful.insert(doubtful.end(), block.doubtful.begin(), block.doubtful.end());
        }
        if (doubtful.empty()) return stats;
        stats.moved += rescan(centers, doubtful.data(), int64_t(doubtful.size()), labels);
        stats.distances += int64_t(doubtful.size()) * n_centers;
        return stats;
    }

    void forget(int64_t i) override {
        if (!upper_.empty()) upper_[i] = INFINITY;
    }

private:
    static constexpr int64_t kBlock = 256;

    // What holds for all rows of a pass.
    struct Pass {
        Pass(ElkanRows& self, const Centers& centers, const std::vector<double>& shift)
            : centers(centers), space(self.options_.metric, self.scale_), margin(centers, self.scale_),
              moved_by(space.shifts(shift)),
              half(half_gaps(centers, self.index_, space, self.options_.n_threads, self.scratches_)) {
            for (int64_t k = 0; k < centers.size(); ++k) {
                const auto begin = half.begin() + k * centers.size();
                nearest.push_back(least_but_own({begin, begin + centers.size()}, k));
            }
        }
        const Centers& centers;
        BoundSpace space;
        Margin margin;
        std::vector<float> moved_by, half, nearest;
    };
    struct Counts {
        int64_t moved = 0, distances = 0, skipped = 0;
        std::vector<int64_t> doubtful;
    };

    template <class V, class I>
    void assign_row(const Pass& pass, int64_t i, const Row<V, I>& row, int32_t& label, Counts& counts) {
        const int64_t n_centers = pass.centers.size();
        const double norm2 = rows_.norm2()[i], pad = pass.margin(norm2, row.size);
        float* const lower = lower_.data() + i * n_centers;
        for (int64_t k = 0; k < n_centers; ++k) lower[k] = std::max(0.0f, lower[k] - pass.moved_by[k]) * kDown;
        upper_[i] = (upper_[i] + pass.moved_by[label]) * kUp;
        // Up to it a bound does not rule a center out.
        float limit = pass.space.above(pass.space.distance(upper_[i], norm2) + pad, norm2);
        if (pass.nearest[label] > limit) {
            ++counts.skipped;
            return;
        }
        const int32_t before = label;
        bool tight = false, compared = false, doubt = false;
        double own = 0;
        auto measure = [&](int64_t k) {
            ++counts.distances;
            return std::sqrt(distance2(row, norm2, pass.centers.items[k])) * scale_;
        };
        auto take = [&](double distance) {
            own = distance;
            upper_[i] = pass.space.above(own, norm2);
            limit = pass.space.above(own + pad, norm2);
        };
        for (int32_t k = 0; k < n_centers; ++k) {
            auto ruled_out = [&] {
                return k == label || lower[k] > limit || pass.half[label * n_centers + k] > limit;
            };
            if (ruled_out()) continue;
            if (!tight) {
                take(measure(label));
                lower[label] = pass.space.below(own, norm2);
                tight = true;
                if (ruled_out()) continue;
            }
            compared = true;
            const double distance = measure(k);
            lower[k] = pass.space.below(distance, norm2);
            if (distance > own + pad) continue;
            if (distance >= own - pad) {
                doubt = true;  // too near to call here
                continue;
            }
            label = k;
            take(distance);
        }
        counts.skipped += !compared;
        if (doubt) {
            // The scan counts the move from where the row was.
            label = before;
            counts.doubtful.push_back(i);
        } else {
            counts.moved += label != before;
        }
    }

    // Scans rows against all centers and sets all their bounds; answers how many labels changed.
    int64_t rescan(const Centers& centers, const int64_t* ids, int64_t n_ids, int32_t* labels) {
        const BoundSpace space(options_.metric, scale_);
        std::atomic<int64_t> moved{0};
        scan(rows_, index_, ids, n_ids, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int64_t i = scanned.row;
                 const double norm2 = rows_.norm2()[i];
                 for (int64_t k = 0; k < index_.n_centers; ++k)
                     lower_[i * index_.n_centers + k] = space.below(scanned.lower(scanned.scores[k]), norm2);
                 const int32_t label =
                     decide(scanned, row, norm2, centers, index_.norm, scratches_[thread].candidates);
                 upper_[i] = space.above(scanned.upper(scanned.scores[label]), norm2);
                 if (labels[i] == label) return;
                 labels[i] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });
        return moved;
    }

    std::vector<float> upper_, lower_;
    CenterIndex index_;
    std::vector<ScanScratch> scratches_;
};

}  // namespace

const Algorithm kElkanRows = {
    "elkan-rows", make_assigner<ElkanRows>, [](int64_t n_rows, int64_t n_centers) {
        return (n_rows * (n_centers + 1) + n_centers * n_centers) * int64_t(sizeof(float));
    }};

}  // namespace sparsecluster
