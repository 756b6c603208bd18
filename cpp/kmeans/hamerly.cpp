// Hamerly 2010: an upper bound to the own center and one lower bound to all others spare most rows the scan; so does half
// the distance of the own center to the nearest other one.
#include <atomic>

#include "index/scan.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/bounds.hpp"
#include "kmeans/center_gaps.hpp"

namespace sparsecluster {

namespace {

int64_t row_size(const Rows& rows, int64_t i) {
    return std::visit([&](const auto& view) { return view.row(i).size; }, rows.matrix());
}

// upper_: to the own center; lower_: to every other one.
class Hamerly final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override {
        const int64_t n = n_rows_;
        if (int64_t(upper_.size()) != n) {
            upper_.resize(n);
            lower_.resize(n);
            index_.build(centers, scale_, limits(), options_.n_threads);
            return rescan(centers, nullptr, n, labels);
        }
        const BoundSpace space(options_.metric, scale_);
        relax(space.shifts(shift), labels);
        const Margin margin(centers, scale_);
        index_.build(centers, scale_, limits(), options_.n_threads);
        std::vector<float> half(centers.size());
        for_half_gaps(centers, index_, space, options_.n_threads, scratches_,
                      [&](int64_t k, const std::vector<float>& gaps) { half[k] = least_but_own(gaps, k); });
        // upper <= max(lower, half), which leaves another center no nearer than 2 half - upper.
        auto safe = [&](int64_t i) {
            const double norm2 = rows_.norm2()[i];
            const float lower = std::max(lower_[i], (2 * half[labels[i]] - upper_[i]) * kDown);
            return space.distance(lower, norm2) >
                   space.distance(upper_[i], norm2) + margin(norm2, row_size(rows_, i));
        };
        std::vector<int64_t> doubtful;
        for (int64_t i = 0; i < n; ++i)
            if (!safe(i)) doubtful.push_back(i);
        std::vector<double> own(doubtful.size());
        own_distances(rows_, centers, labels, doubtful.data(), int64_t(doubtful.size()), own.data(),
                      options_.n_threads);
        int64_t kept = 0;
        for (size_t p = 0; p < doubtful.size(); ++p) {
            const int64_t i = doubtful[p];
            upper_[i] = space.above(std::sqrt(own[p]) * scale_, rows_.norm2()[i]);
            if (!safe(i)) doubtful[kept++] = i;
        }
        AssignStats stats = rescan(centers, doubtful.data(), kept, labels);
        stats.distances += int64_t(doubtful.size());
        stats.path = "bounds";
        stats.skipped = n - kept;
        stats.center_distances = centers.size() * centers.size();
        return stats;
    }

    void forget(int64_t i) override {
        if (upper_.empty()) return;
        upper_[i] = INFINITY;
        lower_[i] = 0;
    }

private:
    void relax(const std::vector<float>& moved_by, const int32_t* labels) {
        // A row's lower bound shrinks by the largest shift of the other centers.
        const auto first = std::max_element(moved_by.begin(), moved_by.end());
        const int32_t farthest = int32_t(first - moved_by.begin());
        float second = 0;
        for (int32_t k = 0; k < int32_t(moved_by.size()); ++k)
            if (k != farthest) second = std::max(second, moved_by[k]);
        for (int64_t i = 0; i < n_rows_; ++i) {
            const float others = labels[i] == farthest ? second : *first;
            upper_[i] = (upper_[i] + moved_by[labels[i]]) * kUp;
            lower_[i] = std::max(0.0f, lower_[i] - others) * kDown;
        }
    }

    AssignStats rescan(const Centers& centers, const int64_t* ids, int64_t n_ids, int32_t* labels) {
        if (n_ids == 0) return {};
        const BoundSpace space(options_.metric, scale_);
        const CenterIndex& index = index_;
        std::atomic<int64_t> moved{0};
        scan(rows_, index, ids, n_ids, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int64_t i = scanned.row;
                 const int32_t label = decide(scanned, row, rows_.norm2()[i], centers, index.norm,
                                              scratches_[thread].candidates);
                 // In doubt the row's own score may be the second best: then both bounds take the best.
                 const float other = label == scanned.top.index ? scanned.top.second : scanned.top.best;
                 const double norm2 = rows_.norm2()[i];
                 upper_[i] = space.above(scanned.upper(scanned.scores[label]), norm2);
                 lower_[i] = index.n_centers > 1 ? space.below(scanned.lower(other), norm2) : INFINITY;
                 if (labels[i] == label) return;
                 labels[i] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });
        return {moved, n_ids * centers.size(), ids ? "bounds" : "full scan"};
    }

    std::vector<float> upper_, lower_;
    CenterIndex index_;
    std::vector<ScanScratch> scratches_;
};

}  // namespace

const Algorithm kHamerly = {
    "hamerly", make_assigner<Hamerly>, [](int64_t n_rows, int64_t) { return 8 * n_rows; }};

}  // namespace sparsecluster
