// Compiled without contraction, as exact.cpp.
#include "kmeans/minibatch.hpp"

#include <cmath>
#include <mutex>

#include "core/clones.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr double kUnit = 0x1p-53;
// A table of all sums may take about what the last cache of a processor holds.
constexpr int64_t kTableLimit = int64_t(64) << 20;
// Scores that differ by less are looked at again, more than the window in which settle() sees ties.
constexpr double kWindow = 0x1p-38;
// A running square that may be more wrong than this is computed anew.
constexpr double kStale = 0x1p-41;
// Below this share of the norms an expanded distance has lost too many digits.
constexpr double kCancelled = 0x1p-26;

// The scores of all centers, and the best of them.
FOR_EACH_PROCESSOR
double score_all(const double* products, const double* inverse, const double* half, int64_t n, double* scores) {
    constexpr int64_t kLanes = 16;
    double best[kLanes];
    for (double& lane : best) lane = -INFINITY;
    for (int64_t k = 0; k < n; ++k) scores[k] = products[k] * inverse[k] - half[k];
    int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes)
        for (int64_t lane = 0; lane < kLanes; ++lane)
            best[lane] = best[lane] < scores[k + lane] ? scores[k + lane] : best[lane];
    for (; k < n; ++k) best[0] = best[0] < scores[k] ? scores[k] : best[0];
    for (double lane : best) best[0] = best[0] < lane ? lane : best[0];
    return best[0];
}

template <class V, class I, class Visit>
void for_features(const Row<V, I>& row, const Visit& visit) {
    for (int64_t e = 0; e < row.size; ++e) visit(row.features[e]);
}

// The first entry of a row from this feature on.
template <class V, class I>
int64_t first_from(const Row<V, I>& row, int64_t feature) {
    return std::lower_bound(row.features, row.features + row.size, feature) - row.features;
}

// Where ranges of features begin, and the last ends, that hold about equally many entries.
template <class V, class I>
std::vector<int64_t> ranges_of(const Matrix<V, I>& view) {
    constexpr int64_t kEntries = 1 << 14, kMost = 16, kSample = 1 << 10;
    const int64_t n_ranges = std::clamp<int64_t>(view.nnz() / kEntries, 1, kMost);
    std::vector<int64_t> seen, begin(1, 0);
    for (int64_t i = 0; n_ranges > 1 && i < view.n_rows; i += std::max<int64_t>(view.n_rows / kSample, 1)) {
        const auto row = view.row(i);
        for (int64_t e = i % 8; e < row.size; e += 8) seen.push_back(row.features[e]);
    }
    for (int64_t range = 1; range < n_ranges && !seen.empty(); ++range) {
        const auto at = seen.begin() + int64_t(seen.size()) * range / n_ranges;
        std::nth_element(seen.begin(), at, seen.end());
        if (*at > begin.back()) begin.push_back(*at);
    }
    begin.push_back(view.n_features);
    return begin;
}

}  // namespace

MiniBatch::MiniBatch(const Centers& sums, std::vector<double> counts, Metric metric, CenterLimit limit,
                     int64_t head_limit)
    : sums_(sums.size(), std::min(head_limit, kTableLimit)), counts_(std::move(counts)), squares_(sums.size()),
      metric_(metric), limit_(limit), head_limit_(head_limit) {
    starts_.items.resize(sums.size());
    sums_.widen(sums.n_features);
    for (int32_t k = 0; k < sums.size(); ++k) {
        const Center& sum = sums.items[k];
        for (int64_t e = 0; e < sum.size(); ++e) sums_.set(sum.features[e], k, sum.values[e]);
        refresh_square(k, sum);
        if (counts_[k] == 0) starts_.items[k] = sum;
    }
    if (limit_.active()) limited_ = centers();
}

void MiniBatch::refresh_square(int64_t k, const Center& sum) {
    double square = 0;
    for (double value : sum.values) square += value * value;
    squares_[k] = {square, 0, kUnit * double(sum.size() + 2) * square};
}

void MiniBatch::forget_start(int32_t k) {
    for (int32_t feature : starts_.items[k].features) sums_.set(feature, k, 0.0);
    starts_.items[k] = {};
    squares_[k] = {};
}

void MiniBatch::widen(int64_t n_features) {
    sums_.widen(n_features);
    limited_.n_features = n_features;
}

MiniBatch::Scale MiniBatch::scale(int64_t k) const {
    const double square = std::max(0.0, squares_[k].value());
    return {in_space(metric_, [&](auto space) { return space.scale(square, counts_[k]); })};
}

Centers MiniBatch::sums() const {
    Centers sums;
    sums.n_features = n_features();
    sums.items.resize(size());
    for (int64_t f = 0; f < n_features(); ++f)
        sums_.visit(f, [&](int32_t k, double sum) {
            sums.items[k].features.push_back(int32_t(f));
            sums.items[k].values.push_back(sum);
        });
    return sums;
}

Centers MiniBatch::centers() const {
    Centers centers = sums();
    for (int64_t k = 0; k < size(); ++k) {
        const double divisor = scale(k).divisor;
        for (double& value : centers.items[k].values) value /= divisor;
        centers.items[k].compute_norm();
    }
    return centers;
}

BatchStats MiniBatch::move(Batch batch, const Rows& rows, const double* weights, const int32_t* labels,
                           int n_threads) {
    const HoldInterrupts hold;
    for (const auto& features : batch.unknown)
        for (int64_t feature : features) sums_.make_room(feature);
    const std::vector<double>& own = batch.own;
    BatchStats stats;
    stats.distance2 = std::move(batch.distance2);
    std::vector<Move> moves(size());
    const auto has_place = [&](double norm2) {
        return in_space(metric_, [&](auto space) { return space.has_place(norm2); });
    };
    for (int64_t i = 0; i < rows.n_rows(); ++i) {
        if (!has_place(rows.norm2()[i])) continue;
        const double share = weights ? weights[i] : 1.0;
        if (!(share > 0)) continue;
        Move& move = moves[labels[i]];
        if (move.weight == 0) move.first = i;
        move.weight += share;
        move.product += share * own[i];
    }
    for (int32_t k = 0; k < size(); ++k) {
        moves[k].before = scale(k);
        // What a center to start from was is gone when its first rows come.
        if (moves[k].weight > 0 && counts_[k] == 0)
            forget_start(k);
        else
            moves[k].kept = squares_[k].value();
    }
    add(rows, weights, labels, n_threads);
    for (int64_t k = 0; k < size(); ++k) counts_[k] += moves[k].weight;
    refresh_stale_squares();
    stats.shift.assign(size(), 0.0);
    for (int32_t k = 0; k < size(); ++k) {
        const Move& move = moves[k];
        if (!(move.weight > 0)) continue;
        if (!has_place(squares_[k].value())) {
            // Rows that add up to nothing have no direction: the first of them stands for all.
            stats.shift[k] = move.before.distance(1.0, own[move.first] / move.before.divisor);
            place({k}, rows, &move.first, counts_[k]);
        } else {
            // The new center is what was kept and the rows, divided.
            const Scale after = scale(k);
            const double inner = (move.kept + move.product) / move.before.divisor / after.divisor;
            stats.shift[k] = move.before.distance(after.norm2, inner);
        }
    }
    if (limit_.active()) limit_centers(moves, stats);
    return stats;
}

// Squares that may have lost too many digits, because most of a sum was taken away again.
void MiniBatch::refresh_stale_squares() {
    auto stale = [](const RunningSquare& square) { return square.error > kStale * square.value(); };
    if (std::none_of(squares_.begin(), squares_.end(), stale)) return;
    const Centers sums = this->sums();
    for (int64_t k = 0; k < size(); ++k)
        if (stale(squares_[k])) refresh_square(k, sums.items[k]);
}

Batch MiniBatch::assign(const Rows& rows, int32_t* labels, int n_threads) {
    Batch batch;
    batch.own.resize(rows.n_rows());
    batch.distance2.resize(rows.n_rows());
    batch.unknown.resize(std::max(n_threads, 1));
    if (worth_an_index(rows))
        assign_by_index(rows, labels, n_threads, batch);
    else
        assign_by_sums(rows, labels, n_threads, batch);
    return batch;
}

bool MiniBatch::worth_an_index(const Rows& rows) const {
    // Products with a sum that an index is worth: it takes writing out all sums, but then reads less for a row.
    constexpr int64_t kProducts = 40;
    const int64_t work = rows.nnz() * size() / kProducts;
    return work > sums_.n_known() && work > sums_.n_sums();
}

// The centers written out, then as any other assignment.
void MiniBatch::assign_by_index(const Rows& rows, int32_t* labels, int n_threads, Batch& batch) {
    std::unique_ptr<Workspace> workspace = std::move(workspace_);
    if (!workspace) workspace = std::make_unique<Workspace>();
    CenterIndex& index = workspace->index;
    std::vector<ScanScratch>& scans = workspace->scans;
    const Centers centers = this->centers();
    index.build(centers, common_scale(rows, centers), {head_limit_, direct_limit(rows.nnz())}, n_threads);
    scan(rows, index, nullptr, rows.n_rows(), n_threads, scans,
         [&](const Scanned& scanned, const auto& row, int thread) {
             const int64_t i = scanned.row;
             const int32_t k = decide(scanned, row, rows.norm2()[i], centers, index.norm, scans[thread].candidates);
             labels[i] = k;
             batch.own[i] = sums_.product(row, k, batch.unknown[thread]);
             batch.distance2[i] = distance2(row, rows.norm2()[i], batch.own[i], k, [&]() -> const Center& {
                 return centers.items[k];
             });
         });
    workspace_ = std::move(workspace);
}

// Scores are x.c - |c|^2 / 2, from products with the sums. Where the best is not beyond doubt, the centers are
// written out and settle() decides.
void MiniBatch::assign_by_sums(const Rows& rows, int32_t* labels, int n_threads, Batch& batch) const {
    constexpr int64_t kBlock = 64;
    const int64_t n = rows.n_rows(), n_centers = size();
    std::vector<double> inverse(n_centers), half(n_centers);
    double max_norm = 0, doubt = 0;
    for (int64_t k = 0; k < n_centers; ++k) {
        const Scale at = scale(k);
        inverse[k] = 1 / at.divisor;
        half[k] = 0.5 * at.norm2;
        max_norm = std::max(max_norm, std::sqrt(at.norm2));
        doubt = std::max(doubt, squares_[k].error / at.divisor / at.divisor);
    }
    Centers written;
    std::once_flag once;
    auto written_out = [&]() -> const Centers& {
        std::call_once(once, [&] { written = centers(); });
        return written;
    };
    struct Scratch {
        FeatureSums::Scratch sums;
        std::vector<double> scores;
        std::vector<int32_t> candidates;
    };
    std::vector<Scratch> scratches(std::max(n_threads, 1));
    auto assign_row = [&](const auto& row, int64_t i, int thread) {
        Scratch& scratch = scratches[thread];
        sums_.multiply(row, scratch.sums, batch.unknown[thread]);
        scratch.scores.resize(n_centers);
        const double best = score_all(scratch.sums.products.data(), inverse.data(), half.data(), n_centers,
                                      scratch.scores.data());
        const double reach = 2 * max_norm * (max_norm + std::sqrt(rows.norm2()[i]));
        const double least = best - ((kWindow + kUnit * double(row.size)) * reach + 2 * doubt);
        scratch.candidates.clear();
        for (int64_t k = 0; k < n_centers; ++k)
            if (scratch.scores[k] >= least) scratch.candidates.push_back(int32_t(k));
        const int32_t k = scratch.candidates.size() == 1
                              ? scratch.candidates[0]
                              : settle(row, rows.norm2()[i], written_out(), scratch.candidates);
        labels[i] = k;
        batch.own[i] = scratch.sums.products[k];
        batch.distance2[i] = distance2(row, rows.norm2()[i], batch.own[i], k, [&]() -> const Center& {
            return written_out().items[k];
        });
    };
    std::visit(
        [&](const auto& view) {
            parallel_blocks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
                const int64_t end = std::min(n, (block + 1) * kBlock);
                for (int64_t i = block * kBlock; i < end; ++i) {
                    if (i + 2 < end)
                        for_features(view.row(i + 2), [&](int64_t feature) { sums_.prefetch(feature); });
                    if (i + 1 < end)
                        for_features(view.row(i + 1), [&](int64_t feature) { sums_.prefetch_sums(feature); });
                    assign_row(view.row(i), i, thread);
                }
            });
        },
        rows.matrix());
}

// Of a row to center k, from its product with the sum; directly where that has lost too many digits.
template <class V, class I, class Written>
double MiniBatch::distance2(const Row<V, I>& row, double norm2, double product, int64_t k,
                            const Written& written) const {
    const Scale at = scale(k);
    const double norms = norm2 + at.norm2, expanded = norms - 2 * product / at.divisor;
    return expanded < kCancelled * norms ? direct_distance2(row, as_row(written())) : expanded;
}

// Adds the rows to the sums of their clusters, in ranges of features that threads can share out: by the batch
// alone, whatever the number of threads.
void MiniBatch::add(const Rows& rows, const double* weights, const int32_t* labels, int n_threads) {
    constexpr int64_t kAhead = 6;
    const int64_t n = rows.n_rows(), n_centers = size();
    std::vector<int64_t> n_rows(n_centers, 0);
    for (int64_t i = 0; i < n; ++i) ++n_rows[labels[i]];
    std::visit(
        [&](const auto& view) {
            const std::vector<int64_t> begin = ranges_of(view);
            const int64_t n_ranges = int64_t(begin.size()) - 1;
            // Per range and cluster: what the squares change by, and how wrong that may be.
            std::vector<double> gains(n_ranges * n_centers, 0.0), slacks(n_ranges * n_centers, 0.0);
            parallel_blocks(n_ranges, n_threads, [&](int64_t range, int) {
                double* const gain = gains.data() + range * n_centers;
                double* const slack = slacks.data() + range * n_centers;
                auto entries_of = [&](const auto& row) {
                    if (n_ranges == 1) return std::make_pair(int64_t(0), row.size);
                    return std::make_pair(first_from(row, begin[range]), first_from(row, begin[range + 1]));
                };
                for (int64_t i = 0; i < n; ++i) {
                    const double share = weights ? weights[i] : 1.0;
                    if (!(share > 0)) continue;
                    const auto row = view.row(i);
                    const int32_t k = labels[i];
                    double row_gain = 0, magnitude = 0;
                    const auto [from, to] = entries_of(row);
                    for (int64_t e = from; e < to; ++e) {
                        if (e + 2 * kAhead < to) sums_.prefetch(row.features[e + 2 * kAhead]);
                        if (e + kAhead < to) sums_.prefetch_sums(row.features[e + kAhead], k);
                        const double term = share * double(row.values[e]);
                        const double before = sums_.add(row.features[e], k, term);
                        row_gain += term * (2 * before + term);
                        magnitude += std::abs(term) * (2 * std::abs(before) + std::abs(term));
                    }
                    gain[k] += row_gain;
                    slack[k] += kUnit * double(to - from + n_rows[k] + 8) * magnitude;
                }
            });
            for (int64_t k = 0; k < n_centers; ++k)
                for (int64_t range = 0; range < n_ranges; ++range)
                    squares_[k].add(gains[range * n_centers + k], slacks[range * n_centers + k]);
        },
        rows.matrix());
}

// Makes the sum of a cluster so many times a center; `features` are those that it has now.
void MiniBatch::write(int32_t cluster, const std::vector<int32_t>& features, const Center& center, double times) {
    for (int32_t feature : features) sums_.set(feature, cluster, 0.0);
    Center sum = center;
    for (int64_t e = 0; e < sum.size(); ++e) {
        sum.values[e] *= times;
        sums_.set(sum.features[e], cluster, sum.values[e]);
    }
    refresh_square(cluster, sum);
    if (limit_.active()) limited_.items[cluster] = center;
}

void MiniBatch::place(const std::vector<int32_t>& clusters, const Rows& rows, const int64_t* ids, double count) {
    const Centers before = sums();
    for (size_t c = 0; c < clusters.size(); ++c) {
        Center center;
        std::visit(
            [&](const auto& view) {
                const auto row = view.row(ids[c]);
                for (int64_t e = 0; e < row.size; ++e) {
                    if (row.values[e] == 0) continue;
                    center.features.push_back(int32_t(row.features[e]));
                    center.values.push_back(double(row.values[e]));
                }
            },
            rows.matrix());
        center = center_of(std::move(center), metric_, limit_);
        const int32_t k = clusters[c];
        write(k, before.items[k].features, center, count > 0 ? count : 1.0);
        counts_[k] = count;
        starts_.items[k] = count > 0 ? Center() : center;
    }
}

// Brings the centers that moved back to what they may be.
void MiniBatch::limit_centers(const std::vector<Move>& moves, BatchStats& stats) {
    const Centers sums = this->sums();
    for (int32_t k = 0; k < size(); ++k) {
        if (!(moves[k].weight > 0)) continue;
        Center center = sums.items[k];
        const double divisor = scale(k).divisor;
        for (double& value : center.values) value /= divisor;
        center = center_of(std::move(center), metric_, limit_);
        stats.shift[k] = std::sqrt(shift2(limited_.items[k], center));
        write(k, sums.items[k].features, center, divisor);
    }
}

}  // namespace sparsecluster
