#include "tree/node_kmeans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kSeedRows = 16;  // per center: rows that seeds are drawn from where there are more
constexpr int64_t kSeedBlock = 64;  // rows that a thread compares with a seed at a time
constexpr int64_t kApproach = 50;   // one of so many rows may be too many for its cluster on the way
constexpr int kSteps = 6;           // of prices per child and iteration on the way
constexpr double kTiny = 1e-14;    // of the norms: a distance that is rounding alone

// Bounds to meet on the way: exact sizes matter at the end alone.
SizeBounds loosened(SizeBounds bounds) {
    constexpr double kSlack = 0.05;
    if (bounds.most - bounds.least > 1) return bounds;
    return {bounds.least - int64_t(double(bounds.least) * kSlack), bounds.most + int64_t(double(bounds.most) * kSlack)};
}

struct OneRow {
    std::vector<int32_t> features;
    std::vector<double> values;
    int64_t size = 0;
};

OneRow copy_of(const NodeRows& rows, int64_t i) {
    OneRow row;
    rows.rows(i, 1, [&](const NodeBlock& block) {
        row.features.assign(block.features + block.begin[0], block.features + block.begin[1]);
        row.values.assign(block.values + block.begin[0], block.values + block.begin[1]);
    });
    row.size = int64_t(row.features.size());
    return row;
}

}  // namespace

Split NodeKMeans::split(const Rows& rows, const NodeTask& task, const SplitOptions& options, int n_threads) {
    task_ = &task, options_ = &options, n_threads_ = n_threads;
    rows_.load(rows, task.rows, task.n_rows, numbers_, n_threads);
    weights_.clear();
    for (int64_t i = 0; options.weights && i < task.n_rows; ++i) weights_.push_back(options.weights[task.rows[i]]);
    labels_.resize(task.n_rows);
    own_.resize(task.n_rows);
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

Split NodeKMeans::run(uint64_t seed) {
    NodeRandom random(seed);
    start_at(seeds(random));
    assigner_.forget();
    const bool bounded = task_->bounded;
    double last_cost = std::numeric_limits<double>::infinity();
    int iteration = 0;
    bool converged = k_ == 1;
    while (!converged && iteration < options_->max_iter) {
        ++iteration;
        std::swap(before_, labels_);
        labels_.resize(before_.size());
        // The first assignment is free, because rows that are centers say little about most others.
        if (bounded && iteration > 1)
            assign_within_bounds(false);
        else
            assign_freely();
        const double now = cost();
        if (iteration > (bounded ? 2 : 1)) {
            if (labels_ == before_) break;
            converged = last_cost - now <= options_->cost_tol * now;
        }
        if (!bounded || iteration > 1) last_cost = now;
        if (!bounded) refill_empty();
        if (update() <= options_->shift_tol) converged = true;
    }
    converged = converged || iteration < options_->max_iter;
    // Without bounds every row belongs to the nearest of the centers that are kept; with bounds centers are those of
    // their rows.
    if (k_ == 1) std::fill(labels_.begin(), labels_.end(), 0);
    if (bounded && k_ > 1) assign_within_bounds(true);
    finish_centers();
    if (!bounded && k_ > 1) assign_freely();
    return finished(std::max(iteration, 1), converged);
}

// --- seeds -------------------------------------------------------------------------------------------------------

std::vector<int64_t> NodeKMeans::seeds(NodeRandom& random) {
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

std::vector<int64_t> NodeKMeans::seeds_at_random(NodeRandom& random) const {
    std::vector<int64_t> left;
    for (int64_t i = 0; i < rows_.size(); ++i)
        if (counts(i)) left.push_back(i);
    const int64_t n = std::min<int64_t>(task_->n_children, int64_t(left.size()));
    for (int64_t j = 0; j < n; ++j) std::swap(left[j], left[j + random.below(int64_t(left.size()) - j)]);
    left.resize(n);
    return left;
}

// k-means++: each row is drawn by its squared distance to the nearest one drawn before.
std::vector<int64_t> NodeKMeans::seeds_by_distance(const std::vector<int64_t>& among, NodeRandom& random) {
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
        const OneRow center = copy_of(rows_, among[at]);
        const double center_norm2 = rows_.norm2(among[at]);
        for (int64_t e = 0; e < center.size; ++e) spread_[center.features[e]] = center.values[e];
        const Row<double, int32_t> other{center.features.data(), center.values.data(), center.size};
        auto compare = [&](int64_t j) {
            rows_.rows(among[j], 1, [&](const NodeBlock& row) {
                double product = 0;
                for (int64_t e = row.begin[0]; e < row.begin[1]; ++e) product += row.values[e] * spread_[row.features[e]];
                const double norms = rows_.norm2(among[j]) + center_norm2;
                double distance2 = norms - 2 * product;
                if (distance2 <= 1e-8 * norms) {
                    const Row<double, int32_t> one{row.features + row.begin[0], row.values + row.begin[0],
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
        for (int64_t e = 0; e < center.size; ++e) spread_[center.features[e]] = 0;
    }
    return found;
}

void NodeKMeans::start_at(const std::vector<int64_t>& seeds) {
    k_ = int(seeds.size());
    lanes_ = lanes_for(k_);
    sums_.reset(rows_.n_columns(), lanes_);
    scale_.reset(lanes_);
    summed_.clear();
    for (int c = 0; c < k_; ++c) {
        const OneRow row = copy_of(rows_, seeds[c]);
        const double norm2 = rows_.norm2(seeds[c]);
        scale_.factors[c] = options_->unit && norm2 > 0 ? 1 / std::sqrt(norm2) : 1.0;
        scale_.halves[c] = options_->unit ? 0.0 : norm2 / 2;
        for (int64_t e = 0; e < row.size; ++e) sums_.get()[int64_t(row.features[e]) * lanes_ + c] = row.values[e];
    }
    if (options_->shift_tol >= 0) {
        last_.reset(rows_.n_columns(), lanes_);
        std::copy_n(sums_.get(), sums_.size(), last_.get());
    }
}

// --- assignment --------------------------------------------------------------------------------------------------

void NodeKMeans::assign_freely() {
    parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
        static thread_local std::vector<double> scores;
        scores.resize(NodeRows::kBlock * lanes_);
        rows_.block(index, [&](const NodeBlock& block) {
            lane_scores(block, sums_.get(), lanes_, scale_, scores.data());
            for (int64_t i = 0; i < block.n; ++i) {
                const double* const row = scores.data() + i * lanes_;
                int at = 0;
                for (int c = 1; c < k_; ++c)
                    if (row[c] > row[at]) at = c;
                labels_[block.first + i] = at;
                own_[block.first + i] = row[at];
            }
        });
    });
}

void NodeKMeans::assign_within_bounds(bool exactly) {
    const int64_t n = rows_.size();
    const SizeBounds bounds = exactly ? task_->bounds : loosened(task_->bounds);
    scores_.resize(n * lanes_);
    // Prices mean something where the bounds are met with equality; where these are wide, most clusters have none.
    if (task_->bounds.most - task_->bounds.least > 1) assigner_.forget();
    const bool many = BalancedAssigner::many(n);
    assigner_.begin(scores_.data(), n, k_, lanes_, bounds, labels_.data());
    parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
        rows_.block(index, [&](const NodeBlock& block) {
            double* const out = scores_.data() + block.first * lanes_;
            lane_scores(block, sums_.get(), lanes_, scale_, out);
            for (int64_t i = 0; !weights_.empty() && i < block.n; ++i)
                for (int c = 0; c < k_; ++c) out[i * lanes_ + c] *= weights_[block.first + i];
            if (!many) assigner_.take_best(block.first, block.first + block.n);
        });
    });
    if (many) {
        assigner_.guess_prices();
        parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
            assigner_.take_best(index * NodeRows::kBlock, std::min(n, (index + 1) * NodeRows::kBlock));
        });
    }
    if (exactly)
        assigner_.settle();
    else if (!many)
        assigner_.approach(n / kApproach, kSteps);
    for (int64_t i = 0; i < n; ++i) {
        const double w = weight(i);
        own_[i] = w > 0 ? scores_[i * lanes_ + labels_[i]] / w : 0.0;
    }
}

// Gives a cluster without rows the one that is farthest from its center, if any is apart from it.
void NodeKMeans::refill_empty() {
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

double NodeKMeans::cost() const {
    double total = 0;
    for (int64_t i = 0; i < rows_.size(); ++i)
        total += weight(i) * (rows_.norm2(i) + (options_->unit ? 1.0 : 0.0) - 2 * own_[i]);
    return std::max(total, 0.0);
}

// --- update ------------------------------------------------------------------------------------------------------

double NodeKMeans::update() {
    int64_t moved = rows_.size();
    if (!summed_.empty()) {
        moved = 0;
        for (int64_t i = 0; i < rows_.size(); ++i) moved += labels_[i] != summed_[i];
    }
    if (2 * moved < rows_.size())
        sum_moved();
    else
        sum_all();
    set_scale();
    return options_->shift_tol >= 0 ? shift2() : std::numeric_limits<double>::infinity();
}

void NodeKMeans::sum_all() {
    sums_.reset(rows_.n_columns(), lanes_);
    // Each thread has lanes of its own, eight of which are a cache line; each sum is made in the order of the rows.
    const int n_groups = n_threads_ > 1 && lanes_ >= 16 ? lanes_ / 8 : 1, width = lanes_ / n_groups;
    parallel_blocks(n_groups, n_threads_, [&](int64_t group, int) {
        const int from = int(group) * width;
        double* const sums = sums_.get();
        for (int64_t index = 0; index < rows_.n_blocks(); ++index)
            rows_.block(index, [&](const NodeBlock& block) {
                for (int64_t i = 0; i < block.n; ++i) {
                    const int label = labels_[block.first + i];
                    if (label < from || label >= from + width) continue;
                    const double w = weight(block.first + i);
                    for (int64_t e = block.begin[i]; e < block.begin[i + 1]; ++e)
                        sums[int64_t(block.features[e]) * lanes_ + label] += w * block.values[e];
                }
            });
    });
    summed_ = labels_;
}

// On the way only: what rounding leaves behind is gone with the next `sum_all`.
void NodeKMeans::sum_moved() {
    double* const sums = sums_.get();
    for (int64_t i = 0; i < rows_.size(); ++i) {
        if (labels_[i] == summed_[i]) continue;
        const int from = summed_[i], to = labels_[i];
        const double w = weight(i);
        rows_.rows(i, 1, [&](const NodeBlock& row) {
            for (int64_t e = row.begin[0]; e < row.begin[1]; ++e) {
                double* const at = sums + int64_t(row.features[e]) * lanes_;
                const double value = w * row.values[e];
                at[from] -= value;
                at[to] += value;
            }
        });
        summed_[i] = to;
    }
}

void NodeKMeans::set_scale() {
    cluster_weight_.assign(lanes_, 0.0);
    for (int64_t i = 0; i < rows_.size(); ++i) cluster_weight_[labels_[i]] += weight(i);
    std::vector<double> norm2(lanes_, 0.0);
    lane_norms(sums_.get(), rows_.n_columns(), lanes_, norm2.data());
    for (int lane = 0; lane < lanes_; ++lane) {
        const double divisor = options_->unit ? std::sqrt(norm2[lane]) : cluster_weight_[lane];
        scale_.factors[lane] = divisor > 0 ? 1 / divisor : 0.0;
        scale_.halves[lane] = options_->unit ? 0.0 : norm2[lane] * scale_.factors[lane] * scale_.factors[lane] / 2;
        // Nobody goes to a center that has no place, unless sizes want it.
        if (!(divisor > 0) && !task_->bounded) scale_.halves[lane] = std::numeric_limits<double>::infinity();
    }
}

double NodeKMeans::shift2() {
    double total = 0;
    for (int64_t c = 0; c < rows_.n_columns(); ++c)
        for (int lane = 0; lane < k_; ++lane) {
            const int64_t at = c * lanes_ + lane;
            const double now = sums_.get()[at] * scale_.factors[lane], gap = now - last_.get()[at];
            last_.get()[at] = now;
            total += gap * gap;
        }
    return total;
}

void NodeKMeans::finish_centers() {
    sum_all();
    set_scale();
    std::vector<double> divisors = cluster_weight_, norm2(lanes_, 0.0);
    if (options_->unit) {
        lane_norms(sums_.get(), rows_.n_columns(), lanes_, norm2.data());
        for (int lane = 0; lane < lanes_; ++lane) divisors[lane] = std::sqrt(norm2[lane]);
    }
    for (int lane = 0; lane < lanes_; ++lane) {
        scale_.factors[lane] = 1;
        if (!(divisors[lane] > 0)) divisors[lane] = 1;
    }
    lane_divide(sums_.get(), rows_.n_columns(), lanes_, divisors.data());
    if (!options_->unit) {
        lane_norms(sums_.get(), rows_.n_columns(), lanes_, norm2.data());
        for (int lane = 0; lane < lanes_; ++lane)
            if (scale_.halves[lane] < std::numeric_limits<double>::infinity()) scale_.halves[lane] = norm2[lane] / 2;
    }
    summed_.clear();
}

// --- results -----------------------------------------------------------------------------------------------------

Split NodeKMeans::finished(int n_iter, bool converged) {
    Split split;
    split.n_iter = n_iter, split.converged = converged;
    std::vector<int32_t> number(k_, -1);
    for (int32_t label : labels_) number[label] = 0;
    int n_children = 0;
    for (int32_t& one : number)
        if (one == 0) one = n_children++;
    split.centers.resize(n_children);
    std::vector<int64_t> counts(lanes_, 0);
    const double* const table = sums_.get();
    for (int64_t c = 0; c < rows_.n_columns(); ++c)
        for (int lane = 0; lane < lanes_; ++lane) counts[lane] += table[c * lanes_ + lane] != 0;
    std::vector<int32_t*> features(k_, nullptr);
    std::vector<double*> values(k_, nullptr);
    for (int lane = 0; lane < k_; ++lane) {
        if (number[lane] < 0) continue;
        Center& center = split.centers[number[lane]];
        center.features.resize(counts[lane]), center.values.resize(counts[lane]);
        features[lane] = center.features.data(), values[lane] = center.values.data();
    }
    for (int64_t c = 0; c < rows_.n_columns(); ++c)
        for (int lane = 0; lane < k_; ++lane)
            if (const double value = table[c * lanes_ + lane]; value != 0 && features[lane])
                *features[lane]++ = int32_t(c), *values[lane]++ = value;
    for (Center& center : split.centers) center.compute_norm();
    const std::vector<double> distances = distances2(split.centers, number);
    split.costs.assign(n_children, 0.0);
    split.labels.resize(rows_.size());
    for (int64_t i = 0; i < rows_.size(); ++i) {
        split.labels[i] = number[labels_[i]];
        split.costs[split.labels[i]] += weight(i) * distances[i];
    }
    for (Center& center : split.centers)
        for (int32_t& feature : center.features) feature = rows_.column(feature);
    return split;
}

// Of each row to its own center; directly where the expanded form would lose its digits. Children are numbered as
// `number` says for each lane.
std::vector<double> NodeKMeans::distances2(const std::vector<Center>& centers, const std::vector<int32_t>& number) const {
    std::vector<double> found(rows_.size());
    parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
        rows_.block(index, [&](const NodeBlock& block) {
            for (int64_t i = 0; i < block.n; ++i) {
                const int64_t begin = block.begin[i], end = block.begin[i + 1];
                const int lane = labels_[block.first + i];
                const Center& center = centers[number[lane]];
                double product = 0;
                for (int64_t e = begin; e < end; ++e)
                    product += block.values[e] * sums_.get()[int64_t(block.features[e]) * lanes_ + lane];
                const double norms = rows_.norm2(block.first + i) + center.norm2, expanded = norms - 2 * product;
                const double error = double(end - begin + center.size() + 8) * 0x1p-52 * norms;
                const Row<double, int32_t> row{block.features + begin, block.values + begin, end - begin};
                found[block.first + i] = error > 1e-8 * expanded ? direct_distance2(row, as_row(center)) : expanded;
            }
        });
    });
    return found;
}

}  // namespace sparsecluster
