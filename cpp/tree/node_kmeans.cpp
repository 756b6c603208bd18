#include "tree/node_kmeans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "sizes/best_lane.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kSeedRows = 8;    // per center: rows that seeds are drawn from where there are more
constexpr int64_t kSeedBlock = 64;  // rows that a thread compares with a seed at a time
constexpr int64_t kSampleRows = 512;  // per child: rows that centers are found with where there are twice as many
constexpr int64_t kSharp = 2;       // rows between bounds that leave no choice of sizes
constexpr int64_t kApproach = 50;   // one of so many rows may be too many for its cluster on the way
constexpr int64_t kRowsAhead = 6;   // rows that are asked for before they are needed
constexpr double kTiny = 1e-14;     // of the norms: a distance that is rounding alone
constexpr double kLost = 1e-6;      // of the norms: a cost whose digits are lost in their sum
constexpr double kJitter = 0x1p-14;  // of the scores: what tells equal rows apart
constexpr double kTight = 1e-2;     // of the norms: a cost that float32 does not resolve
constexpr int64_t kColumns = 4096;  // of the table of centers that are set at a time

// Bounds to meet on the way: exact sizes matter at the end alone.
SizeBounds loosened(SizeBounds bounds) {
    constexpr double kSlack = 0.05;
    if (bounds.most - bounds.least > kSharp) return bounds;
    return {bounds.least - int64_t(double(bounds.least) * kSlack), bounds.most + int64_t(double(bounds.most) * kSlack)};
}

template <class V>
LocalVector copy_of(const NodeRows<V>& rows, int64_t i) {
    LocalVector row;
    rows.rows(i, 1, [&](const NodeBlock<V>& block) {
        const int64_t first = block.begin[0], n = block.begin[1] - first;
        row.reserve(n);
        std::copy_n(block.features + first, n, row.columns.get());
        std::copy_n(block.values + first, n, row.values.get());
        row.size = n;
    });
    row.norm2 = rows.norm2(i);
    return row;
}

// Four sums, which do not wait for each other.
template <class V>
double product(const NodeBlock<V>& row, const double* spread) {
    double sums[4] = {0, 0, 0, 0};
    int64_t e = row.begin[0];
    for (; e + 4 <= row.begin[1]; e += 4)
        for (int lane = 0; lane < 4; ++lane) sums[lane] += double(row.values[e + lane]) * spread[row.features[e + lane]];
    for (; e < row.begin[1]; ++e) sums[0] += double(row.values[e]) * spread[row.features[e]];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

template <class V>
Split NodeKMeans<V>::split(const Rows& rows, const NodeTask& task, const SplitOptions& options, int n_threads) {
    task_ = &task, options_ = &options, n_threads_ = n_threads, all_rows_ = &rows;
    sample_.clear();
    const int64_t most = kSampleRows * task.n_children;
    if (task.bounded && task.n_rows >= 2 * most) {
        const int64_t step = task.n_rows / most;
        for (int64_t i = 0; i < task.n_rows; i += step) sample_.push_back(task.rows[i]);
    } else {
        load(task.rows, task.n_rows);
    }
    NodeRandom random(task.seed);
    Split best;
    double lowest = 0;
    for (int run_number = 0; run_number < options.n_init; ++run_number) {
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
    rows_.load(*all_rows_, ids, n, n_threads_);
    weights_.clear();
    for (int64_t i = 0; options_->weights && i < n; ++i) weights_.push_back(options_->weights[ids[i]]);
    norms_ = 0;
    for (int64_t i = 0; i < n; ++i) norms_ += weight(i) * rows_.norm2(i);
    labels_.resize(n);
    own_.resize(n);
    bounds_ = task_->bounds;
    if (n == task_->n_rows) return;
    // A sample has its share of the rows of each child.
    const double share = double(n) / double(task_->n_rows);
    bounds_.least = std::min(int64_t(double(bounds_.least) * share), n / task_->n_children);
    bounds_.most = std::max(int64_t(double(bounds_.most) * share) + 1, n / task_->n_children + 1);
}

template <class V>
Split NodeKMeans<V>::run(uint64_t seed) {
    NodeRandom random(seed);
    precise_ = !task_->bounded;
    if (!sample_.empty()) load(sample_.data(), int64_t(sample_.size()));
    start_at(seeds(random));
    n_iter_ = 0, converged_ = k_ == 1;
    if (k_ == 1)
        std::fill(labels_.begin(), labels_.end(), 0);
    else if (task_->bounded)
        iterate_within_bounds(options_->max_iter);
    else
        iterate_freely();
    if (!sample_.empty()) leave_sample();
    if (task_->bounded && k_ > 1) assign_within_bounds(true);
    n_iter_ = std::max(n_iter_, 1);
    sum_all();
    set_centers();
    // Without bounds every row belongs to the nearest of the centers that are kept; with bounds centers are those of
    // their rows.
    if (!task_->bounded) assign_freely();
    sums_.release(k_);
    return finished();
}

// From the centers of the sample to those of all rows.
template <class V>
void NodeKMeans<V>::leave_sample() {
    sums_.release(k_);
    for (int c = 0; c < k_; ++c)
        for (int64_t j = 0; j < lists_[c].size; ++j) lists_[c].columns[j] = rows_.column(lists_[c].columns[j]);
    load(task_->rows, task_->n_rows);
    for (int c = 0; c < k_; ++c)
        for (int64_t j = 0; j < lists_[c].size; ++j) lists_[c].columns[j] = rows_.local(lists_[c].columns[j]);
    sums_.reset(k_, rows_.n_columns());
    summed_.clear();
    set_centers();
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
void NodeKMeans<V>::iterate_within_bounds(int max_iter) {
    roughly_.assigner.forget(), precisely_.assigner.forget();
    double last_cost = std::numeric_limits<double>::infinity();
    while (!converged_ && n_iter_ < max_iter) {
        ++n_iter_;
        std::swap(before_, labels_);
        labels_.resize(before_.size());
        // The first assignment is free, because rows that are centers say little about most others.
        if (n_iter_ == 1)
            assign_freely();
        else
            assign_within_bounds(false);
        if (n_iter_ > 2 && labels_ == before_) break;
        update();
        const double now = bounded_cost();
        if (!precise_ && now <= kTight * norms_) precise_ = true, set_centers();
        if (n_iter_ > 2) converged_ = last_cost - now <= options_->cost_tol * now;
        if (n_iter_ > 1) last_cost = now;
        if (options_->shift_tol >= 0 && shift2() <= options_->shift_tol) converged_ = true;
    }
    converged_ = converged_ || n_iter_ < max_iter;
}

// --- seeds -------------------------------------------------------------------------------------------------------

template <class V>
std::vector<int64_t> NodeKMeans<V>::seeds(NodeRandom& random) {
    const int64_t n = rows_.size(), most = kSeedRows * task_->n_children;
    std::vector<int64_t> found;
    if (!options_->plus_plus) {
        found = seeds_at_random(random);
    } else {
        std::vector<int64_t> among(std::min(n, most));
        const double step = double(n) / double(among.size());
        for (int64_t j = 0; j < int64_t(among.size()); ++j)
            among[j] = n <= most ? j : std::min(n - 1, int64_t((double(j) + random.uniform()) * step));
        found = seeds_by_distance(among, random);
        if (int64_t(found.size()) < task_->n_children && n > most) {
            among.resize(n);
            for (int64_t i = 0; i < n; ++i) among[i] = i;
            found = seeds_by_distance(among, random);
        }
    }
    if (found.empty()) found.push_back(0);
    // Fewer distinct rows than children: their sizes are bounded all the same.
    for (int64_t i = 0; task_->bounded && int64_t(found.size()) < task_->n_children; ++i) found.push_back(i % n);
    return found;
}

template <class V>
std::vector<int64_t> NodeKMeans<V>::seeds_at_random(NodeRandom& random) const {
    std::vector<int64_t> left;
    for (int64_t i = 0; i < rows_.size(); ++i)
        if (counts(i)) left.push_back(i);
    const int64_t n = std::min<int64_t>(task_->n_children, int64_t(left.size()));
    for (int64_t j = 0; j < n; ++j) std::swap(left[j], left[j + random.below(int64_t(left.size()) - j)]);
    left.resize(n);
    return left;
}

// k-means++: each row is drawn by its squared distance to the nearest one drawn before.
template <class V>
std::vector<int64_t> NodeKMeans<V>::seeds_by_distance(const std::vector<int64_t>& among, NodeRandom& random) {
    const auto n = int64_t(among.size());
    std::vector<double> share(n), nearest(n, std::numeric_limits<double>::infinity());
    for (int64_t j = 0; j < n; ++j) share[j] = counts(among[j]) ? weight(among[j]) : 0.0;
    if (int64_t(spread_.size()) < rows_.n_columns()) spread_.resize(rows_.n_columns(), 0.0);
    std::vector<int64_t> found;
    while (int64_t(found.size()) < task_->n_children) {
        double total = 0;
        for (double one : share) total += one;
        if (!(total > 0)) break;
        double left = random.uniform() * total;
        int64_t at = -1;
        for (int64_t j = 0; j < n && (at < 0 || left >= 0); ++j)
            if (share[j] > 0) at = j, left -= share[j];
        found.push_back(among[at]);
        if (int64_t(found.size()) == task_->n_children) break;
        const LocalVector center = copy_of(rows_, among[at]);
        for (int64_t e = 0; e < center.size; ++e) spread_[center.columns[e]] = center.values[e];
        const Row<double, int32_t> other{center.columns.get(), center.values.get(), center.size};
        auto compare = [&](int64_t j) {
            rows_.rows(among[j], 1, [&](const NodeBlock<V>& row) {
                const double norms = rows_.norm2(among[j]) + center.norm2;
                double distance2 = norms - 2 * product(row, spread_.data());
                if (distance2 <= 1e-8 * norms) {
                    const Row<V, int32_t> one{row.features + row.begin[0], row.values + row.begin[0],
                                                   row.begin[1] - row.begin[0]};
                    distance2 = direct_distance2(one, other);
                }
                nearest[j] = std::min(nearest[j], std::max(distance2, 0.0));
            });
            share[j] = weight(among[j]) * nearest[j];
        };
        parallel_blocks((n + kSeedBlock - 1) / kSeedBlock, n_threads_, [&](int64_t block, int) {
            for (int64_t j = block * kSeedBlock; j < std::min(n, (block + 1) * kSeedBlock); ++j)
                if (share[j] != 0) compare(j);
        });
        for (int64_t e = 0; e < center.size; ++e) spread_[center.columns[e]] = 0;
    }
    return found;
}

template <class V>
void NodeKMeans<V>::start_at(const std::vector<int64_t>& seeds) {
    k_ = int(seeds.size());
    sums_.reset(k_, rows_.n_columns());
    summed_.clear();
    lists_.resize(std::max<size_t>(lists_.size(), k_));
    divisors_.assign(k_, 1.0);
    for (int c = 0; c < k_; ++c) {
        lists_[c] = copy_of(rows_, seeds[c]);
        if (options_->unit && lists_[c].norm2 > 0) divisors_[c] = std::sqrt(lists_[c].norm2);
    }
    set_centers();
    if (options_->shift_tol >= 0) {
        last_.reserve(rows_.n_columns(), lanes_for<double>(k_));
        std::fill_n(last_.column(0), last_.size(), 0.0);
        shift2();
    }
}

// --- assignment --------------------------------------------------------------------------------------------------

template <class V>
void NodeKMeans<V>::assign_freely() {
    scored([&]<class T>(const Scoring<T>& scoring) {
        const int lanes = scoring.centers.lanes();
        std::vector<T> none(lanes, T(0));
        std::fill(none.begin() + k_, none.end(), std::numeric_limits<T>::infinity());
        parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
            static thread_local std::vector<T> scores, best;
            scores.resize(NodeRows<V>::kBlock * lanes), best.resize(NodeRows<V>::kBlock);
            rows_.block(index, [&](const NodeBlock<V>& block) {
                lane_scores(block, scoring.centers, scores.data());
                best_lanes(scores.data(), nullptr, block.n, lanes, none.data(), labels_.data() + block.first, best.data());
                std::copy_n(best.data(), block.n, own_.data() + block.first);
            });
        });
    });
}

template <class V>
void NodeKMeans<V>::assign_within_bounds(bool exactly) {
    const int64_t n = rows_.size();
    const SizeBounds bounds = exactly ? bounds_ : loosened(bounds_);
    scored([&]<class T>(Scoring<T>& scoring) {
        const int lanes = scoring.centers.lanes();
        BalancedAssigner<T>& assigner = scoring.assigner;
        scoring.scores.reserve(n * lanes);
        T* const scores = scoring.scores.get();
        // Prices mean something where the bounds are met with equality; where these are wide, most clusters have none.
        if (bounds_.most - bounds_.least > kSharp) assigner.forget();
        const bool many = BalancedAssigner<T>::many(n);
        const T jitter = T((sizeof(T) == 4 ? kJitter : kJitter * kJitter * kJitter) * score_scale());
        assigner.begin(scores, n, k_, lanes, bounds, labels_.data(), n_threads_);
        parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
            rows_.block(index, [&](const NodeBlock<V>& block) {
                T* const out = scores + block.first * lanes;
                lane_scores(block, scoring.centers, out);
                for (int64_t i = 0; !weights_.empty() && i < block.n; ++i)
                    for (int c = 0; c < k_; ++c) out[i * lanes + c] *= T(weights_[block.first + i]);
                lane_jitter(block.first, block.n, lanes, jitter, out);
                if (!many) assigner.take_best(block.first, block.first + block.n);
            });
        });
        if (many) {
            assigner.guess_prices();
            parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
                assigner.take_best(index * NodeRows<V>::kBlock, std::min(n, (index + 1) * NodeRows<V>::kBlock));
            });
        }
        if (exactly) {
            assigner.settle();
        } else {
            assigner.approach(n / kApproach, 0);
            assigner.move_excess();
        }
    });
}

// About as large as scores are.
template <class V>
double NodeKMeans<V>::score_scale() const {
    double weights = 0, largest = options_->unit ? 1.0 : 0.0;
    for (int64_t i = 0; i < rows_.size(); ++i) weights += weight(i);
    if (!(weights > 0)) return 0;
    for (int c = 0; c < k_; ++c) largest = std::max(largest, std::sqrt(lists_[c].norm2) / divisors_[c]);
    return weights / double(rows_.size()) * std::sqrt(norms_ / weights) * largest;
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
        for (int64_t i = 0; i < rows_.size(); ++i) {
            if (sizes[labels_[i]] < 2 || !counts(i)) continue;
            const double norms = rows_.norm2(i) + (options_->unit ? 1.0 : 0.0);
            const double distance2 = norms - 2 * own_[i];
            if (distance2 > kTiny * rows_.norm2(i) && weight(i) * distance2 > most)
                most = weight(i) * distance2, farthest = i;
        }
        if (farthest < 0) return;
        --sizes[labels_[farthest]];
        sizes[labels_[farthest] = c] = 1;
    }
}

template <class V>
double NodeKMeans<V>::free_cost() const {
    double total = 0;
    for (int64_t i = 0; i < rows_.size(); ++i)
        total += weight(i) * (rows_.norm2(i) + (options_->unit ? 1.0 : 0.0) - 2 * own_[i]);
    return std::max(total, 0.0);
}

template <class V>
double NodeKMeans<V>::bounded_cost() const {
    double total = norms_;
    for (int c = 0; c < k_; ++c) {
        if (options_->unit)
            total += cluster_weight_[c] - 2 * std::sqrt(lists_[c].norm2);
        else if (cluster_weight_[c] > 0)
            total -= lists_[c].norm2 / cluster_weight_[c];
    }
    return std::max(total, 0.0);
}

// --- update ------------------------------------------------------------------------------------------------------

template <class V>
void NodeKMeans<V>::update() {
    int64_t moved = rows_.size();
    if (!summed_.empty()) {
        moved = 0;
        for (int64_t i = 0; i < rows_.size(); ++i) moved += labels_[i] != summed_[i];
    }
    if (2 * moved < rows_.size())
        sum_moved();
    else
        sum_all();
    set_centers();
}

// Each cluster is summed by one thread, in the order of its rows.
template <class V>
void NodeKMeans<V>::sum_all() {
    const int64_t n = rows_.size();
    ends_.assign(k_ + 1, 0);
    for (int32_t label : labels_) ++ends_[label + 1];
    for (int c = 0; c < k_; ++c) ends_[c + 1] += ends_[c];
    members_.resize(n);
    for (int64_t i = 0; i < n; ++i) members_[ends_[labels_[i]]++] = int32_t(i);
    const int64_t entries_per_row = rows_.n_entries() / std::max<int64_t>(n, 1);
    parallel_blocks(k_, n_threads_, [&](int64_t c, int) {
        const int64_t first = c == 0 ? 0 : ends_[c - 1];
        sums_.clear(int(c), (ends_[c] - first) * entries_per_row);
        for (int64_t j = first; j < ends_[c]; ++j) {
            rows_.prefetch(members_[std::min(j + kRowsAhead, n - 1)]);
            rows_.rows(members_[j], 1, [&](const NodeBlock<V>& row) { sums_.add(int(c), row, 0, weight(members_[j])); });
        }
        sums_.list(int(c), lists_[c]);
    });
    summed_ = labels_;
}

// On the way only: what rounding leaves behind is gone with the next `sum_all`.
template <class V>
void NodeKMeans<V>::sum_moved() {
    members_.clear();
    for (int64_t i = 0; i < rows_.size(); ++i)
        if (labels_[i] != summed_[i]) members_.push_back(int32_t(i));
    parallel_blocks(k_, n_threads_, [&](int64_t c, int) {
        for (const int32_t i : members_) {
            if (summed_[i] != c && labels_[i] != c) continue;
            const double times = labels_[i] == c ? weight(i) : -weight(i);
            rows_.rows(i, 1, [&](const NodeBlock<V>& row) { sums_.add(int(c), row, 0, times); });
        }
        sums_.list(int(c), lists_[c]);
    });
    for (const int32_t i : members_) summed_[i] = labels_[i];
}

// Centers from lists, and what they are divided by once there are sums.
template <class V>
void NodeKMeans<V>::set_centers() {
    std::vector<double> halves(k_, 0.0);
    if (!summed_.empty()) {
        cluster_weight_.assign(k_, 0.0);
        for (int64_t i = 0; i < rows_.size(); ++i) cluster_weight_[labels_[i]] += weight(i);
        for (int c = 0; c < k_; ++c) divisors_[c] = options_->unit ? std::sqrt(lists_[c].norm2) : cluster_weight_[c];
    }
    for (int c = 0; c < k_; ++c) {
        if (divisors_[c] > 0) {
            if (!options_->unit) halves[c] = lists_[c].norm2 / divisors_[c] / divisors_[c] / 2;
        } else {
            divisors_[c] = 1;
            // Nobody goes to a center that has no place, unless sizes want it.
            if (!task_->bounded) halves[c] = std::numeric_limits<double>::infinity();
        }
    }
    scored([&]<class T>(Scoring<T>& scoring) {
        LaneTable<T>& table = scoring.centers;
        const int lanes = lanes_for<T>(k_);
        table.reserve(rows_.n_columns(), lanes);
        std::copy(halves.begin(), halves.end(), table.halves.begin());
        bool ascending = true;
        for (int c = 0; c < k_; ++c) ascending &= lists_[c].ascending;
        const int64_t n_columns = rows_.n_columns(), width = ascending ? kColumns : std::max<int64_t>(n_columns, 1);
        parallel_blocks((n_columns + width - 1) / width, n_threads_, [&](int64_t block, int) {
            const int64_t first = block * width, end = std::min(n_columns, first + width);
            std::fill(table.column(first), table.column(end), T(0));
            for (int c = 0; c < k_; ++c) {
                const int32_t* const columns = lists_[c].columns.get();
                const double* const values = lists_[c].values.get();
                int64_t from = 0, to = lists_[c].size;
                if (ascending) {
                    from = std::lower_bound(columns, columns + to, first) - columns;
                    to = std::lower_bound(columns + from, columns + to, end) - columns;
                }
                for (int64_t j = from; j < to; ++j) table.column(columns[j])[c] = T(values[j] / divisors_[c]);
            }
        });
    });
}

template <class V>
double NodeKMeans<V>::shift2() {
    double total = 0;
    scored([&]<class T>(const Scoring<T>& scoring) {
        for (int64_t column = 0; column < rows_.n_columns(); ++column)
            for (int c = 0; c < k_; ++c) {
                const double now = scoring.centers.column(column)[c], gap = now - last_.column(column)[c];
                last_.column(column)[c] = now;
                total += gap * gap;
            }
    });
    return total;
}

// --- results -----------------------------------------------------------------------------------------------------

template <class V>
Split NodeKMeans<V>::finished() {
    Split split;
    split.n_iter = n_iter_, split.converged = converged_;
    std::vector<int32_t> number(k_, -1);
    for (int32_t label : labels_) number[label] = 0;
    for (int c = 0; c < k_; ++c) {
        if (number[c] < 0) continue;
        number[c] = int32_t(split.centers.size());
        split.centers.push_back(center_of(c));
    }
    split.costs = costs(number, split.centers);
    split.labels.resize(rows_.size());
    for (int64_t i = 0; i < rows_.size(); ++i) split.labels[i] = number[labels_[i]];
    for (Center& center : split.centers)
        for (int32_t& feature : center.features) feature = rows_.column(feature);
    return split;
}

template <class V>
Center NodeKMeans<V>::center_of(int c) {
    Center center;
    const LocalVector& list = lists_[c];
    center.features.resize(list.size), center.values.resize(list.size);
    if (list.ascending) {
        std::copy_n(list.columns.get(), list.size, center.features.data());
        std::copy_n(list.values.get(), list.size, center.values.data());
    } else {
        if (int64_t(spread_.size()) < rows_.n_columns()) spread_.resize(rows_.n_columns(), 0.0);
        occurring_.reserve(rows_.n_columns());
        for (int64_t j = 0; j < list.size; ++j)
            occurring_.mark(list.columns[j]), spread_[list.columns[j]] = list.values[j];
        int64_t at = 0;
        occurring_.take([&](int32_t column) {
            center.features[at] = column, center.values[at++] = spread_[column];
            spread_[column] = 0;
        });
    }
    for (double& value : center.values) value /= divisors_[c];
    center.compute_norm();
    return center;
}

// Per child: from its sum, where centers are those of their rows and that keeps the digits; else row by row.
template <class V>
std::vector<double> NodeKMeans<V>::costs(const std::vector<int32_t>& number, const std::vector<Center>& centers) const {
    std::vector<double> found(centers.size(), 0.0);
    if (task_->bounded) {
        bool clear = true;
        std::vector<double> norms(k_, 0.0);
        for (int64_t i = 0; i < rows_.size(); ++i) norms[labels_[i]] += weight(i) * rows_.norm2(i);
        for (int c = 0; c < k_; ++c) {
            if (number[c] < 0) continue;
            const double total = norms[c] + (options_->unit ? cluster_weight_[c] : 0.0);
            const double length = std::sqrt(lists_[c].norm2);
            const double kept = options_->unit ? 2 * length : cluster_weight_[c] > 0 ? length * length / cluster_weight_[c] : 0;
            found[number[c]] = total - kept;
            clear = clear && total - kept >= kLost * total;
        }
        if (clear) return found;
        std::fill(found.begin(), found.end(), 0.0);
    }
    std::vector<double> distances(rows_.size());
    parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
        rows_.block(index, [&](const NodeBlock<V>& block) {
            for (int64_t i = 0; i < block.n; ++i) {
                const int64_t begin = block.begin[i];
                const Row<V, int32_t> row{block.features + begin, block.values + begin, block.begin[i + 1] - begin};
                distances[block.first + i] =
                    distance2(row, rows_.norm2(block.first + i), centers[number[labels_[block.first + i]]]);
            }
        });
    });
    for (int64_t i = 0; i < rows_.size(); ++i) found[number[labels_[i]]] += weight(i) * distances[i];
    return found;
}

template class NodeKMeans<float>;
template class NodeKMeans<double>;

}  // namespace sparsecluster
