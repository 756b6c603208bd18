// The three assignment algorithms on top of the scan (scan.hpp) and of exact distances (exact.hpp).
#include "assign.hpp"

#include <atomic>
#include <cmath>

#include "scan.hpp"

namespace sparsecluster {

namespace {

constexpr float kUp = 1.0f + 0x1p-22f;
constexpr float kDown = 1.0f - 0x1p-22f;

// A float that is not below (not above) a non-negative double.
float round_up(double value) { return float(value) * kUp; }
float round_down(double value) { return float(value) * kDown; }

// By how much a lower bound must exceed an upper one before a center is skipped: more than the window in
// which settle() looks at differences, so that skipping never changes which centers it gets to see.
struct Margin {
    Margin(const Centers& centers, double scale) : scale(scale) {
        for (const Center& center : centers.items) {
            max_norm = std::max(max_norm, std::sqrt(center.norm2) * scale);
            max_size = std::max(max_size, center.size());
        }
    }
    double operator()(double norm2, int64_t row_size) const {
        return (std::sqrt(norm2) * scale + max_norm) * std::sqrt(double(row_size + max_size + 16) * 0x1p-50);
    }
    double scale;
    double max_norm = 0;
    int64_t max_size = 0;
};

std::vector<float> scaled_shift(const std::vector<double>& shift, double scale) {
    std::vector<float> scaled(shift.size());
    for (size_t k = 0; k < shift.size(); ++k) scaled[k] = round_up(shift[k] * scale);
    return scaled;
}

int64_t row_size(const Rows& rows, int64_t i) {
    return std::visit([&](const auto& view) { return view.row(i).size; }, rows.matrix);
}

class Lloyd final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign(const Centers& centers, const std::vector<double>&, int32_t* labels) override {
        const CenterIndex index(centers, rows_.scale, options_.head_limit, options_.n_threads);
        std::atomic<int64_t> moved{0};
        scan(rows_, index, nullptr, rows_.n_rows(), options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int32_t label = decide(scanned, row, rows_.norm2[scanned.row], centers, index,
                                              scratches_[thread].candidates);
                 if (labels[scanned.row] == label) return;
                 labels[scanned.row] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });
        return {moved, rows_.n_rows() * centers.size()};
    }

private:
    std::vector<ScanScratch> scratches_;
};

// upper_: to the own center; lower_: to every other one.
class Hamerly final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override {
        const int64_t n = rows_.n_rows();
        if (upper_.empty()) {
            upper_.resize(n);
            lower_.resize(n);
            return rescan(centers, nullptr, n, labels);
        }
        const std::vector<float> moved_by = scaled_shift(shift, rows_.scale);
        relax(moved_by, labels);
        const Margin margin(centers, rows_.scale);
        auto safe = [&](int64_t i) {
            return double(lower_[i]) > double(upper_[i]) + margin(rows_.norm2[i], row_size(rows_, i));
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
            upper_[i] = round_up(std::sqrt(own[p]) * rows_.scale);
            if (!safe(i)) doubtful[kept++] = i;
        }
        AssignStats stats = rescan(centers, doubtful.data(), kept, labels);
        stats.distances += int64_t(doubtful.size());
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
        for (int64_t i = 0; i < rows_.n_rows(); ++i) {
            const float others = labels[i] == farthest ? second : *first;
            upper_[i] = (upper_[i] + moved_by[labels[i]]) * kUp;
            lower_[i] = std::max(0.0f, lower_[i] - others) * kDown;
        }
    }

    AssignStats rescan(const Centers& centers, const int64_t* ids, int64_t n_ids, int32_t* labels) {
        if (n_ids == 0) return {};
        const CenterIndex index(centers, rows_.scale, options_.head_limit, options_.n_threads);
        std::atomic<int64_t> moved{0};
        scan(rows_, index, ids, n_ids, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int64_t i = scanned.row;
                 const int32_t label = decide(scanned, row, rows_.norm2[i], centers, index,
                                              scratches_[thread].candidates);
                 // In doubt the row's own score may be the second best: then both bounds take the best.
                 const float other = label == scanned.top.index ? scanned.top.second : scanned.top.best;
                 upper_[i] = round_up(scanned.upper(scanned.scores[label]));
                 lower_[i] = index.n_centers > 1 ? round_down(scanned.lower(other)) : INFINITY;
                 if (labels[i] == label) return;
                 labels[i] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });
        return {moved, n_ids * centers.size()};
    }

    std::vector<float> upper_, lower_;
    std::vector<ScanScratch> scratches_;
};

// bounds_: for blocks of rows, center by center, one lower bound a row: [block][center][row in block].
class Elkan final : public Assigner {
public:
    using Assigner::Assigner;

    AssignStats assign(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override {
        if (bounds_.empty()) return first_pass(centers, labels);
        const int64_t n = rows_.n_rows(), n_centers = centers.size();
        const std::vector<float> moved_by = scaled_shift(shift, rows_.scale);
        const Margin margin(centers, rows_.scale);

        // Own distances first, in one grouped pass.
        std::vector<double> own(n);
        own_distances(rows_, centers, labels, nullptr, n, own.data(), options_.n_threads);
        for (double& value : own) value = std::sqrt(value) * rows_.scale;

        const std::vector<float> half = half_distances(centers);
        std::atomic<int64_t> moved{0}, computed{n};
        std::vector<std::vector<double>> dense(std::max(options_.n_threads, 1));
        std::vector<std::vector<int64_t>> unsettled((n + block_rows_ - 1) / block_rows_);
        std::visit(
            [&](const auto& view) {
                parallel_blocks(int64_t(unsettled.size()), options_.n_threads, [&](int64_t b, int thread) {
                    const int64_t begin = b * block_rows_, count = std::min(n - begin, block_rows_);
                    float* const block = bounds_.data() + begin * n_centers;
                    std::vector<double>& spread = dense[thread];
                    if (spread.empty()) spread.assign(rows_.n_features(), 0.0);
                    std::vector<float> limit(count), pad(count);
                    std::vector<int32_t> below(count), before(labels + begin, labels + begin + count);
                    std::vector<char> doubt(count, 0);
                    int64_t pairs = 0;
                    for (int64_t r = 0; r < count; ++r) {
                        pad[r] = round_up(margin(rows_.norm2[begin + r], view.row(begin + r).size));
                        limit[r] = round_up(own[begin + r]) + pad[r];
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
                            const double distance =
                                std::sqrt(distance_to(view.row(i), spread, center.norm2)) * rows_.scale;
                            bound[r] = round_down(distance);
                            if (distance > limit[r]) continue;
                            if (distance >= own[i] - pad[r]) {
                                doubt[r] = 1;  // too near to call here
                                continue;
                            }
                            block[labels[i] * count + r] = round_down(own[i]);
                            labels[i] = int32_t(k);
                            own[i] = distance;
                            limit[r] = round_up(distance) + pad[r];
                        }
                        if (spread_out)
                            for (int32_t feature : center.features) spread[feature] = 0.0;
                    }
                    computed.fetch_add(pairs, std::memory_order_relaxed);
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
            rows_.matrix);

        std::vector<int64_t> ids;
        for (const auto& part : unsettled) ids.insert(ids.end(), part.begin(), part.end());
        if (!ids.empty()) moved += rescan(centers, ids.data(), int64_t(ids.size()), labels);
        return {moved, computed + int64_t(ids.size()) * n_centers};
    }

private:
    template <class V, class I>
    static double distance_to(const Row<V, I>& row, const std::vector<double>& spread, double norm2) {
        double inside = 0, covered = 0;
        for (int64_t e = 0; e < row.size; ++e) {
            const double c = spread[row.features[e]];
            const double gap = double(row.values[e]) - c;
            inside += gap * gap;
            covered += c * c;
        }
        return inside + std::max(0.0, norm2 - covered);
    }

    static int64_t index_below(float* bound, const std::vector<float>& limit, int64_t count, float shift,
                               std::vector<int32_t>& below) {
        return kernels().relax_bounds(bound, limit.data(), count, shift, below.data());
    }

    AssignStats first_pass(const Centers& centers, int32_t* labels) {
        const int64_t n = rows_.n_rows(), n_centers = centers.size();
        // Large blocks, so that spreading out a center serves many rows; enough of them to share out.
        block_rows_ = std::clamp<int64_t>(n / (4 * options_.n_threads), 256, 8192);
        bounds_.resize(n * n_centers);
        return {rescan(centers, nullptr, n, labels), n * n_centers};
    }

    // Scans rows against all centers and sets all their bounds; answers how many labels changed.
    int64_t rescan(const Centers& centers, const int64_t* ids, int64_t n_ids, int32_t* labels) {
        const CenterIndex index(centers, rows_.scale, options_.head_limit, options_.n_threads);
        std::atomic<int64_t> moved{0};
        scan(rows_, index, ids, n_ids, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const int64_t i = scanned.row, begin = i / block_rows_ * block_rows_;
                 const int64_t count = std::min(rows_.n_rows() - begin, block_rows_);
                 float* bound = bounds_.data() + begin * index.n_centers + (i - begin);
                 for (int64_t k = 0; k < index.n_centers; ++k)
                     bound[k * count] = round_down(scanned.lower(scanned.scores[k]));
                 const int32_t label = decide(scanned, row, rows_.norm2[i], centers, index,
                                              scratches_[thread].candidates);
                 if (labels[i] == label) return;
                 labels[i] = label;
                 moved.fetch_add(1, std::memory_order_relaxed);
             });
        return moved;
    }

    // Lower bounds of half the distances between centers, n_centers^2, or nothing where these products
    // would cost more than they can save.
    std::vector<float> half_distances(const Centers& centers) {
        const int64_t n_centers = centers.size();
        if (centers.nnz() * 4 > rows_.nnz() || n_centers * 4 > rows_.n_rows()) return {};
        std::vector<int64_t> indptr(1, 0);
        std::vector<int32_t> features;
        std::vector<double> values;
        for (const Center& center : centers.items) {
            features.insert(features.end(), center.features.begin(), center.features.end());
            values.insert(values.end(), center.values.begin(), center.values.end());
            indptr.push_back(int64_t(features.size()));
        }
        Rows center_rows(Matrix<double, int32_t>{n_centers, centers.n_features, indptr.data(),
                                                 features.data(), values.data()});
        center_rows.inspect(options_.n_threads);
        center_rows.scale = rows_.scale;
        const CenterIndex index(centers, rows_.scale, options_.head_limit, options_.n_threads);
        std::vector<float> half(n_centers * n_centers);
        scan(center_rows, index, nullptr, n_centers, options_.n_threads, scratches_,
             [&](const Scanned& scanned, const auto&, int) {
                 for (int64_t k = 0; k < n_centers; ++k)
                     half[scanned.row * n_centers + k] =
                         round_down(0.5 * scanned.lower(scanned.scores[k]));
             });
        return half;
    }

    int64_t block_rows_ = 0;
    std::vector<float> bounds_;
    std::vector<ScanScratch> scratches_;
};

}  // namespace

std::unique_ptr<Assigner> make_lloyd(const Rows& rows, AssignOptions options) {
    return std::make_unique<Lloyd>(rows, options);
}
std::unique_ptr<Assigner> make_hamerly(const Rows& rows, AssignOptions options) {
    return std::make_unique<Hamerly>(rows, options);
}
std::unique_ptr<Assigner> make_elkan(const Rows& rows, AssignOptions options) {
    return std::make_unique<Elkan>(rows, options);
}

int64_t elkan_bytes(int64_t n_rows, int64_t n_centers) {
    return n_rows * n_centers * int64_t(sizeof(float));
}

}  // namespace sparsecluster
