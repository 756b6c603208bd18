// Elkan 2003, in the order of loops of SparseKmeans (Pham Dang, Lin and Lin, algorithm 2): own distances first,
// then center by center all rows that neither bound rules out.
#include <algorithm>
#include <atomic>

#include "index/scan.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/bounds.hpp"
#include "kmeans/center_gaps.hpp"

namespace sparsecluster {

namespace {

// bounds_: for blocks of rows, center by center, one lower bound a row: [block][center][row in block].
class Elkan final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override {
        const int64_t n = n_rows_, n_centers = centers.size();
        if (int64_t(bounds_.size()) != n * n_centers) return first_pass(centers, labels);
        const BoundSpace space(options_.metric, scale_);
        const std::vector<float> moved_by = space.shifts(shift);
        const Margin margin(centers, scale_);

        // Own distances first, in one grouped pass.
        std::vector<double> own(n);
        own_distances(rows_, centers, labels, nullptr, n, own.data(), options_.n_threads);
        for (double& value : own) value = std::sqrt(value) * scale_;

        const std::vector<float> half = half_distances(centers, space);
        std::atomic<int64_t> moved{0}, computed{n}, skipped{0};
        std::vector<std::vector<double>> dense(std::max(options_.n_threads, 1));
        std::vector<std::vector<int64_t>> unsettled((n + block_rows_ - 1) / block_rows_);
        std::visit(
            [&](const auto& view) {
                parallel_blocks(int64_t(unsettled.size()), options_.n_threads, [&](int64_t b, int thread) {
                    const int64_t begin = b * block_rows_, count = std::min(n - begin, block_rows_);
                    float* const block = bounds_.data() + begin * n_centers;
                    std::vector<double>& spread = dense[thread];
                    if (spread.empty()) spread.assign(rows_.n_features(), 0.0);
                    // Up to `limit` a bound does not rule a center out, up to `reach` a distance does not.
                    std::vector<float> limit(count), reach(count), pad(count);
                    auto set_limits = [&](int64_t r) {
                        reach[r] = round_up(own[begin + r]) + pad[r];
                        limit[r] = space.above(reach[r], rows_.norm2()[begin + r]);
                    };
                    std::vector<int32_t> below(count), before(labels + begin, labels + begin + count);
                    std::vector<char> doubt(count, 0), compared(count, 0);
                    int64_t pairs = 0;
                    for (int64_t r = 0; r < count; ++r) {
                        pad[r] = round_up(margin(rows_.norm2()[begin + r], view.row(begin + r).size));
                        set_limits(r);
                    }
                    for (int64_t k = 0; k < n_centers; ++k) {
                        if (k % 64 == 0 && thread == 0) poll_interrupt();
                        float* const bound = block + k * count;
                        const int64_t n_below = index_below(bound, limit, count, moved_by[k], below);
                        const Center& center = centers.items[k];
                        bool spread_out = false;
                        for (int64_t p = 0; p < n_below; ++p) {
                            const int32_t r = below[p];
                            const int64_t i = begin + r;
                            if (labels[i] == k) continue;
                            if (!half.empty() && half[labels[i] * n_centers + k] > limit[r]) continue;
                            if (!spread_out) {
                                for (int64_t e = 0; e < center.size(); ++e)
                                    spread[center.features[e]] = center.values[e];
                                spread_out = true;
                            }
                            ++pairs;
                            compared[r] = 1;
                            const double distance =
                                std::sqrt(spread_distance2(view.row(i), spread.data(), center)) * scale_;
                            const double norm2 = rows_.norm2()[i];
                            bound[r] = space.below(distance, norm2);
                            if (distance > reach[r]) continue;
                            if (distance >= own[i] - pad[r]) {
                                doubt[r] = 1;  // too near to call here
                                continue;
                            }
                            block[labels[i] * count + r] = space.below(own[i], norm2);
                            labels[i] = int32_t(k);
                            own[i] = distance;
                            set_limits(r);
                        }
                        if (spread_out)
                            for (int32_t feature : center.features) spread[feature] = 0.0;
                    }
                    computed.fetch_add(pairs, std::memory_order_relaxed);
                    skipped.fetch_add(std::count(compared.begin(), compared.end(), char(0)),
                                      std::memory_order_relaxed);
                    int64_t n_moved = 0;
                    for (int64_t r = 0; r < count; ++r) {
                        // The scan below counts the moves of doubtful rows from where they were.
                        if (doubt[r]) {
                            labels[begin + r] = before[r];
                            unsettled[b].push_back(begin + r);
                        } else {
                            n_moved += labels[begin + r] != before[r];
                        }
                    }
                    moved.fetch_add(n_moved, std::memory_order_relaxed);
                });
            },
            rows_.matrix());

        std::vector<int64_t> ids;
        for (const auto& part : unsettled) ids.insert(ids.end(), part.begin(), part.end());
        if (!ids.empty()) moved += rescan(centers, ids.data(), int64_t(ids.size()), labels);
        return {moved, computed + int64_t(ids.size()) * n_centers, "bounds", skipped, int64_t(half.size())};
    }

private:
    int64_t index_below(float* bound, const std::vector<float>& limit, int64_t count, float shift,
                        std::vector<int32_t>& below) const {
        return index_.simd->relax_bounds(bound, limit.data(), count, shift, below.data());
    }

    AssignStats first_pass(const Centers& centers, int32_t* labels) {
        const int64_t n = n_rows_, n_centers = centers.size();
        // Large blocks, so that spreading out a center serves many rows; enough of them to share out.
        block_rows_ = std::clamp<int64_t>(n / (4 * options_.n_threads), 256, 8192);
        bounds_.resize(n * n_centers);
        return {rescan(centers, nullptr, n, labels), n * n_centers};
    }

    // Scans rows against all centers and sets all their bounds; answers how many labels changed.
    int64_t rescan(const Centers& centers, const int64_t* ids, int64_t n_ids, int32_t* labels) {
        CenterIndex& index = index_;
        index.build(centers, scale_, limits(), options_.n_threads);
        const BoundSpace space(options_.metric, scale_);
        std::atomic<int64_t> moved{0};
        scan(rows_, index, ids, n_ids, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int64_t i = scanned.row, begin = i / block_rows_ * block_rows_;
                 const int64_t count = std::min(n_rows_ - begin, block_rows_);
                 float* bound = bounds_.data() + begin * index.n_centers + (i - begin);
                 for (int64_t k = 0; k < index.n_centers; ++k)
                     bound[k * count] = space.below(scanned.lower(scanned.scores[k]), rows_.norm2()[i]);
                 const int32_t label = decide(scanned, row, rows_.norm2()[i], centers, index.norm,
                                              scratches_[thread].candidates);
                 if (labels[i] == label) return;
                 labels[i] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });
        return moved;
    }

    // Nothing where these products would cost more than they can save.
    std::vector<float> half_distances(const Centers& centers, const BoundSpace& space) {
        if (centers.nnz() * 4 > rows_.nnz(n_rows_) || centers.size() * 4 > n_rows_) return {};
        index_.build(centers, scale_, limits(), options_.n_threads);
        return half_gaps(centers, index_, space, options_.n_threads, scratches_);
    }

    int64_t block_rows_ = 0;
    std::vector<float> bounds_;
    CenterIndex index_;
    std::vector<ScanScratch> scratches_;
};

}  // namespace

const Algorithm kElkan = {
    "elkan", make_assigner<Elkan>, [](int64_t n_rows, int64_t n_centers) {
        // A bound per row and center, and half the distances between centers where they pay.
        const int64_t half = n_centers * 4 <= n_rows ? n_centers * n_centers : 0;
        return (n_rows * n_centers + half) * int64_t(sizeof(float));
    }};

}  // namespace sparsecluster
