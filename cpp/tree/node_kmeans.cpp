#include "tree/node_kmeans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "sizes/best_lane.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kSampleRows = 512;  // per child: rows that centers are found with where there are twice as many
constexpr int64_t kStep = 2;          // the first centers are found with one of so many blocks of rows
constexpr int64_t kFirstBlocks = 2;   // if that leaves so many
constexpr int kFirstIterations = 3;   // that see these rows alone
constexpr int64_t kSharp = 2;         // rows between bounds that leave no choice of sizes
constexpr int64_t kApproach = 50;     // one of so many rows may be too many for its cluster on the way
constexpr double kTiny = 1e-14;       // of the norms: a distance that is rounding alone
constexpr double kJitter = 0x1p-14;   // of the scores: what tells equal rows apart
constexpr double kTight = 1e-2;       // of the norms: a cost that float32 does not resolve

// Bounds to meet on the way: exact sizes matter at the end alone.
SizeBounds loosened(SizeBounds bounds) {
    constexpr double kSlack = 0.05;
    if (bounds.most - bounds.least > kSharp) return bounds;
    return {bounds.least - int64_t(double(bounds.least) * kSlack), bounds.most + int64_t(double(bounds.most) * kSlack)};
}

// The bounds of the clusters of n of all rows, which have their share of each.
SizeBounds share_of(SizeBounds bounds, int64_t n, int64_t n_all, int64_t k) {
    if (n == n_all) return bounds;
    const double share = double(n) / double(n_all);
    return {std::min(int64_t(double(bounds.least) * share), n / k),
            std::max(int64_t(double(bounds.most) * share) + 1, n / k + 1)};
}

bool within(const Split& split, SizeBounds bounds) {
    std::vector<int64_t> sizes(split.costs.size(), 0);
    for (int32_t label : split.labels) ++sizes[label];
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    return sizes.size() > 1 && *least >= bounds.least && *most <= bounds.most;
}

}  // namespace

template <class V>
Split NodeKMeans<V>::split(const Rows& rows, const NodeTask& task, const SplitOptions& options, int n_threads) {
    options_ = &options, n_threads_ = n_threads, all_rows_ = &rows;
    if (task.bounding != Bounding::if_needed) return split_once(task);
    // Most nodes keep wide bounds by themselves; then each row is with the nearest center.
    NodeTask other = task;
    other.bounding = Bounding::none;
    Split found = split_once(other);
    if (within(found, task.bounds)) return found;
    other.bounding = Bounding::always;
    return split_once(other);
}

template <class V>
Split NodeKMeans<V>::split_once(const NodeTask& task) {
    task_ = &task;
    sample_.clear();
    const int64_t most = kSampleRows * task.n_children;
    if (task.bounded() && task.n_rows >= 2 * most) {
        const int64_t step = task.n_rows / most;
        for (int64_t i = 0; i < task.n_rows; i += step) sample_.push_back(task.rows[i]);
    } else {
        load(task.rows, task.n_rows);
    }
    SeededRandom random(task.seed);
    Split best;
    double lowest = 0;
    for (int run_number = 0; run_number < options_->n_init; ++run_number) {
        Split found = run(random.next());
        double total = 0;
        for (double one : found.costs) total += one;
        const bool better = run_number == 0 || found.costs.size() > best.costs.size() ||
                            (found.costs.size() == best.costs.size() && total < lowest);
        if (better) best = std::move(found), lowest = total;
        if (best.costs.size() == 1) break;  // nothing to tell apart
    }
    return best;
}

template <class V>
void NodeKMeans<V>::load(const int32_t* ids, int64_t n) {
    points_.load(*all_rows_, ids, n, *options_, n_threads_);
    labels_.resize(n);
    own_.resize(n);
    bounds_ = task_->bounds;
    bounds_ = share_of(bounds_, n, task_->n_rows, task_->n_children);
}

// Whether float32 holds the squares of the rows, and of sums of them all.
template <class V>
bool NodeKMeans<V>::float_holds() const {
    constexpr double kLeast = 0x1p-80, kMost = 0x1p80;
    double most = 0;
    for (int64_t i = 0; i < task_->n_rows; ++i) most = std::max(most, all_rows_->norm2()[task_->rows[i]]);
    return most == 0 || (most > kLeast && most * double(task_->n_rows) * double(task_->n_rows) < kMost);
}

template <class V>
Split NodeKMeans<V>::run(uint64_t seed) {
    SeededRandom random(seed);
    precise_ = !task_->bounded() || !float_holds();
    if (!sample_.empty()) load(sample_.data(), int64_t(sample_.size()));
    quantized_ = !precise_ && quantized_rows_.load(points_);
    const QuantizedRows* const quantized = quantized_ ? &quantized_rows_ : nullptr;
    start_at(seeds_.draw(points_, quantized, task_->n_children, options_->plus_plus, task_->bounded(), random));
    n_iter_ = 0, converged_ = k_ == 1;
    if (k_ == 1)
        std::fill(labels_.begin(), labels_.end(), 0);
    else if (task_->bounded())
        iterate_within_bounds();
    else
        iterate_freely();
    if (!sample_.empty()) leave_sample();
    if (task_->bounded() && k_ > 1) assign_within_bounds(true);
    n_iter_ = std::max(n_iter_, 1);
    found_.find(points_, labels_, k_, task_->keep_total);
    // Without bounds every row belongs to the nearest of the centers that are kept; with bounds centers are those of
    // their rows.
    if (!task_->bounded()) keep_centers(), assign_freely();
    return finished();
}

// From the centers of the sample to those of all rows.
template <class V>
void NodeKMeans<V>::leave_sample() {
    const std::vector<int32_t> columns = points_.rows.columns();
    quantized_ = false;
    scored([&]<class T>(Scoring<T>& scoring) {
        LaneTable<T> of_sample;
        std::swap(of_sample, scoring.sums.table);
        load(task_->rows, task_->n_rows);
        scoring.sums.reset(points_, k_);
        LaneTable<T>& table = scoring.sums.table;
        table.clear();
        table.scales = of_sample.scales, table.halves = of_sample.halves;
        for (size_t c = 0; c < columns.size(); ++c)
            std::copy_n(of_sample.column(int64_t(c)), table.lanes(), table.column(points_.rows.local(columns[c])));
    });
    if (k_ == 1) return std::fill(labels_.begin(), labels_.end(), 0);
    assign_within_bounds(false);
    update();
}

template <class V>
void NodeKMeans<V>::iterate_freely() {
    double last_cost = std::numeric_limits<double>::infinity();
    while (!converged_ && n_iter_ < options_->max_iter) {
        ++n_iter_;
        std::swap(before_, labels_);
        labels_.resize(before_.size());
        assign_freely();
        const double now = free_cost();
        if (n_iter_ > 1) {
            if (labels_ == before_) break;
            converged_ = last_cost - now <= options_->cost_tol * now;
        }
        last_cost = now;
        refill_empty();
        update();
        if (options_->shift_tol >= 0 && shift2() <= options_->shift_tol) converged_ = true;
    }
    converged_ = converged_ || n_iter_ < options_->max_iter;
}

template <class V>
void NodeKMeans<V>::iterate_within_bounds() {
    roughly_.assigner.forget(), precisely_.assigner.forget();
    double last_cost = std::numeric_limits<double>::infinity();
    while (!converged_ && n_iter_ < options_->max_iter) {
        ++n_iter_;
        std::swap(before_, labels_);
        labels_.resize(before_.size());
        // The first assignment is free, because rows that are centers say little about most others.
        const bool few = n_iter_ <= kFirstIterations && points_.rows.n_blocks() >= 2 * kFirstBlocks;
        const int64_t step = few ? kStep : 1;
        if (n_iter_ == 1)
            assign_freely(step);
        else
            assign_within_bounds(false, step);
        if (n_iter_ > 2 && !few && labels_ == before_) break;
        update(step);
        if (few) continue;
        const double now = bounded_cost();
        if (!precise_ && now <= kTight * points_.norms) {
            precise_ = true, quantized_ = false;
            precisely_.sums.reset(points_, k_);
            update();
        }
        if (n_iter_ > 2 && last_cost < std::numeric_limits<double>::infinity()) converged_ = last_cost - now <= options_->cost_tol * now;
        if (n_iter_ > 1) last_cost = now;
        if (options_->shift_tol >= 0 && shift2() <= options_->shift_tol) converged_ = true;
    }
    converged_ = converged_ || n_iter_ < options_->max_iter;
}

template <class V>
void NodeKMeans<V>::start_at(const std::vector<int64_t>& seeds) {
    k_ = int(seeds.size());
    lengths_.resize(k_);
    scored([&]<class T>(Scoring<T>& scoring) {
        scoring.sums.reset(points_, k_);
        scoring.sums.set_rows(points_, seeds);
        LaneTable<T>& table = scoring.sums.table;
        for (int c = 0; c < k_; ++c) {
            const double norm2 = points_.rows.norm2(seeds[c]);
            lengths_[c] = points_.unit ? double(norm2 > 0) : std::sqrt(norm2);
            if (points_.unit && norm2 > 0) table.scales[c] = T(1 / std::sqrt(norm2));
            if (!points_.unit) table.halves[c] = T(norm2 / 2);
        }
        if constexpr (sizeof(T) == 4)
            if (quantized_) quantized_rows_.set_centers(table);
    });
    if (options_->shift_tol >= 0) {
        last_.reserve(points_.rows.n_columns(), lanes_for<double>(k_));
        last_.clear();
        shift2();
    }
}

// --- assignment --------------------------------------------------------------------------------------------------

template <class V>
template <class T>
void NodeKMeans<V>::score(const NodeBlock<V>& block, const LaneTable<T>& table, T* out) const {
    if constexpr (sizeof(T) == 4)
        if (quantized_) return quantized_rows_.scores(block.first, block.n, out);
    lane_scores(block, table, out);
}

template <class V>
void NodeKMeans<V>::assign_freely(int64_t step) {
    scored([&]<class T>(const Scoring<T>& scoring) {
        const LaneTable<T>& table = scoring.sums.table;
        const int lanes = table.lanes();
        std::vector<T> none(lanes, T(0));
        std::fill(none.begin() + k_, none.end(), std::numeric_limits<T>::infinity());
        parallel_blocks((points_.rows.n_blocks() + step - 1) / step, n_threads_, [&](int64_t index, int) {
            static thread_local std::vector<T> scores, best;
            scores.resize(NodeRows<V>::kBlock * lanes), best.resize(NodeRows<V>::kBlock);
            points_.rows.block(index * step, [&](const NodeBlock<V>& block) {
                score(block, table, scores.data());
                best_lanes(scores.data(), nullptr, block.n, lanes, none.data(), labels_.data() + block.first, best.data());
                std::copy_n(best.data(), block.n, own_.data() + block.first);
            });
        });
    });
}

template <class V>
void NodeKMeans<V>::assign_within_bounds(bool exactly, int64_t step) {
    constexpr int64_t kBlock = NodeRows<V>::kBlock;
    const int64_t n_blocks = (points_.rows.n_blocks() + step - 1) / step;
    const int64_t last_block = (n_blocks - 1) * step * kBlock;
    const int64_t n = (n_blocks - 1) * kBlock + std::min(kBlock, points_.size() - last_block);
    const SizeBounds bounds = exactly ? bounds_ : loosened(share_of(bounds_, n, points_.size(), k_));
    some_labels_.resize(step > 1 ? n : 0);
    int32_t* const labels = step > 1 ? some_labels_.data() : labels_.data();
    scored([&]<class T>(Scoring<T>& scoring) {
        const LaneTable<T>& table = scoring.sums.table;
        const int lanes = table.lanes();
        BalancedAssigner<T>& assigner = scoring.assigner;
        scoring.scores.reserve(n * lanes);
        T* const scores = scoring.scores.get();
        // Prices mean something where the bounds are met with equality; where these are wide, most clusters have none.
        if (bounds_.most - bounds_.least > kSharp) assigner.forget();
        const bool many = BalancedAssigner<T>::many(n);
        const T jitter = T((sizeof(T) == 4 ? kJitter : kJitter * kJitter * kJitter) * score_scale());
        assigner.begin(scores, n, k_, lanes, bounds, labels, n_threads_);
        parallel_blocks(n_blocks, n_threads_, [&](int64_t index, int) {
            points_.rows.block(index * step, [&](const NodeBlock<V>& block) {
                const int64_t first = index * kBlock;
                T* const out = scores + first * lanes;
                score(block, table, out);
                for (int64_t i = 0; !points_.weights.empty() && i < block.n; ++i)
                    for (int c = 0; c < k_; ++c) out[i * lanes + c] *= T(points_.weights[block.first + i]);
                lane_jitter(block.first, block.n, lanes, jitter, out);
                if (!many) assigner.take_best(first, first + block.n);
            });
        });
        if (many) {
            assigner.guess_prices();
            parallel_blocks(n_blocks, n_threads_, [&](int64_t index, int) {
                assigner.take_best(index * kBlock, std::min(n, (index + 1) * kBlock));
            });
        }
        if (exactly) {
            assigner.settle();
        } else {
            if (assigner.approach(n / kApproach, 0) > n / kApproach) assigner.move_excess();
        }
    });
    for (int64_t i = 0; i < int64_t(some_labels_.size()); ++i)
        labels_[i / kBlock * step * kBlock + i % kBlock] = some_labels_[i];
}

// About as large as scores are.
template <class V>
double NodeKMeans<V>::score_scale() const {
    if (!(points_.total_weight > 0)) return 0;
    const double largest = points_.unit ? 1.0 : *std::max_element(lengths_.begin(), lengths_.end());
    return points_.total_weight / double(points_.size()) * std::sqrt(points_.norms / points_.total_weight) * largest;
}

// Gives a cluster without rows the one that is farthest from its center, if any is apart from it.
template <class V>
void NodeKMeans<V>::refill_empty() {
    std::vector<int64_t> sizes(k_, 0);
    for (int32_t label : labels_) ++sizes[label];
    for (int c = 0; c < k_; ++c) {
        if (sizes[c] > 0) continue;
        int64_t farthest = -1;
        double most = 0;
        for (int64_t i = 0; i < points_.size(); ++i) {
            if (sizes[labels_[i]] < 2 || !points_.counts(i)) continue;
            const double distance2 = points_.norms_with_center(i) - 2 * own_[i];
            if (distance2 > kTiny * points_.rows.norm2(i) && points_.weight(i) * distance2 > most)
                most = points_.weight(i) * distance2, farthest = i;
        }
        if (farthest < 0) return;
        --sizes[labels_[farthest]];
        sizes[labels_[farthest] = c] = 1;
    }
}

template <class V>
double NodeKMeans<V>::free_cost() const {
    double total = 0;
    for (int64_t i = 0; i < points_.size(); ++i)
        total += points_.weight(i) * (points_.norms_with_center(i) - 2 * own_[i]);
    return std::max(total, 0.0);
}

template <class V>
double NodeKMeans<V>::bounded_cost() const {
    double total = points_.norms;
    for (int c = 0; c < k_; ++c) {
        if (points_.unit)
            total += cluster_weight_[c] - 2 * lengths_[c];
        else
            total -= cluster_weight_[c] * lengths_[c] * lengths_[c];
    }
    return std::max(total, 0.0);
}

// --- update ------------------------------------------------------------------------------------------------------

template <class V>
void NodeKMeans<V>::update(int64_t step) {
    constexpr int64_t kBlock = NodeRows<V>::kBlock;
    cluster_weight_.assign(k_, 0.0);
    for (int64_t first = 0; first < points_.size(); first += step * kBlock)
        for (int64_t i = first; i < std::min(first + kBlock, points_.size()); ++i)
            cluster_weight_[labels_[i]] += points_.weight(i);
    scored([&]<class T>(Scoring<T>& scoring) {
        LaneTable<T>& table = scoring.sums.table;
        bool summed = false;
        if constexpr (sizeof(T) == 4)
            if ((summed = quantized_)) quantized_rows_.sum(labels_, k_, step, kBlock, n_threads_, table);
        if (!summed && step > 1) scoring.sums.sum_some(points_, labels_, step);
        if (!summed && step == 1) scoring.sums.sum(points_, labels_);
        std::vector<double> norms2(table.lanes());
        lane_norms2(table, norms2.data());
        for (int c = 0; c < k_; ++c) {
            const double length = std::sqrt(norms2[c]), divisor = points_.unit ? length : cluster_weight_[c];
            table.scales[c] = T(divisor > 0 ? 1 / divisor : 1);
            lengths_[c] = points_.unit || !(divisor > 0) ? length : length / divisor;
            table.halves[c] = points_.unit ? T(0) : T(lengths_[c] * lengths_[c] / 2);
            // Nobody goes to a center that has no place, unless sizes want it.
            if (!(divisor > 0) && !task_->bounded()) table.halves[c] = std::numeric_limits<T>::infinity();
        }
        if constexpr (sizeof(T) == 4)
            if (quantized_) quantized_rows_.set_centers(table);
    });
}

// Scores are those of the centers that are kept, as they are, from now on.
template <class V>
void NodeKMeans<V>::keep_centers() {
    LaneTable<double>& table = precisely_.sums.table;
    table.reserve(points_.rows.n_columns(), lanes_for<double>(k_));
    table.clear();
    precisely_.sums.forget_labels();
    for (int c = 0; c < k_; ++c) {
        const Center& center = found_.centers[c];
        for (int64_t e = 0; e < center.size(); ++e) table.column(center.features[e])[c] = center.values[e];
        if (!points_.unit) table.halves[c] = center.norm2 / 2;
        if (!((points_.unit ? found_.norms2 : found_.weights)[c] > 0))
            table.halves[c] = std::numeric_limits<double>::infinity();
    }
}

template <class V>
double NodeKMeans<V>::shift2() {
    double total = 0;
    scored([&]<class T>(const Scoring<T>& scoring) {
        const LaneTable<T>& table = scoring.sums.table;
        for (int64_t column = 0; column < points_.rows.n_columns(); ++column)
            for (int c = 0; c < k_; ++c) {
                const double now = table.column(column)[c] * table.scales[c], gap = now - last_.column(column)[c];
                last_.column(column)[c] = now;
                total += gap * gap;
            }
    });
    return total;
}

// Children that got no rows are left out.
template <class V>
Split NodeKMeans<V>::finished() {
    Split split;
    split.n_iter = n_iter_, split.converged = converged_;
    std::vector<double> costs;
    if (task_->bounded()) costs = found_.costs_from_sums(points_, labels_);
    if (costs.empty()) costs = found_.costs_of_rows(points_, labels_);
    for (double& cost : costs) cost *= points_.weight_scale;
    if (task_->keep_total) {
        split.total = found_.total(points_);
        for (double& sum : split.total) sum *= points_.weight_scale;
    }
    std::vector<int32_t> number(k_, -1);
    for (int32_t label : labels_) number[label] = 0;
    for (int c = 0; c < k_; ++c) {
        if (number[c] < 0) continue;
        number[c] = int32_t(split.centers.size());
        for (int32_t& feature : found_.centers[c].features) feature = points_.rows.column(feature);
        split.centers.push_back(std::move(found_.centers[c]));
        split.costs.push_back(costs[c]);
    }
    split.labels.resize(points_.size());
    for (int64_t i = 0; i < points_.size(); ++i) split.labels[i] = number[labels_[i]];
    return split;
}

template class NodeKMeans<float>;
template class NodeKMeans<double>;

}  // namespace sparsecluster
