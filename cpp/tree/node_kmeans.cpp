#include "tree/node_kmeans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kSeedRows = 32;  // per center: rows that seeds are drawn from where there are more
constexpr double kTiny = 1e-14;    // of the norms: a distance that is rounding alone

struct OneRow {
    std::vector<int32_t> features;
    std::vector<double> values;
    int64_t size = 0;
};

OneRow copy_of(const NodeRows& rows, int64_t i) {
    OneRow row;
    rows.rows(i, 1, [&](const RowBlock& block) {
        row.features.assign(block.features + block.begin[0], block.features + block.begin[1]);
        row.values.assign(block.values + block.begin[0], block.values + block.begin[1]);
    });
    row.size = int64_t(row.features.size());
    return row;
}

}  // namespace

NodeKMeans::NodeKMeans(const Rows& rows, const NodeTask& task, const SplitOptions& options, ColumnNumbers& numbers,
                       int n_threads)
    : task_(task), options_(options), n_threads_(n_threads) {
    rows_.load(rows, task.rows, task.n_rows, numbers);
    if (options.weights) {
        weights_.resize(task.n_rows);
        for (int64_t i = 0; i < task.n_rows; ++i) weights_[i] = options.weights[task.rows[i]];
    }
    labels_.resize(task.n_rows);
    own_.resize(task.n_rows);
}

Split NodeKMeans::best_run() {
    NodeRandom random(task_.seed);
    Split best;
    double lowest = 0;
    for (int run_number = 0; run_number < options_.n_init; ++run_number) {
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
    if (k_ == 1) {
        std::fill(labels_.begin(), labels_.end(), 0);
        update();
        return finished(1, true);
    }
    const int free_iterations = task_.bounded && options_.max_iter == 1 ? 0 : 1;
    std::vector<int32_t> before;
    double last_cost = std::numeric_limits<double>::infinity();
    int iteration = 0;
    bool converged = false, labels_are_last = false;
    while (!converged && iteration < options_.max_iter) {
        ++iteration;
        const bool bounded = task_.bounded && iteration > free_iterations;
        before = labels_;
        if (bounded)
            assign_within_bounds();
        else
            assign_freely();
        const bool comparable = iteration > (task_.bounded ? free_iterations + 1 : 1);
        if (comparable && labels_ == before) {
            converged = labels_are_last = true;
            break;
        }
        const double now = cost();
        if (comparable && last_cost - now <= options_.cost_tol * now) converged = true;
        if (bounded || !task_.bounded) last_cost = now;
        if (!task_.bounded) refill_empty();
        if (update() <= options_.shift_tol) converged = true;
    }
    // Without bounds every row belongs to the nearest of the centers that are kept.
    if (!task_.bounded && !labels_are_last) assign_freely();
    return finished(iteration, converged);
}

// --- seeds -------------------------------------------------------------------------------------------------------

std::vector<int64_t> NodeKMeans::seeds(NodeRandom& random) const {
    const int64_t n = rows_.size(), most = kSeedRows * task_.n_children;
    std::vector<int64_t> found;
    if (!options_.plus_plus) {
        found = seeds_at_random(random);
    } else {
        std::vector<int64_t> among(std::min(n, most));
        const double step = double(n) / double(among.size());
        for (int64_t j = 0; j < int64_t(among.size()); ++j)
            among[j] = n <= most ? j : std::min(n - 1, int64_t((double(j) + random.uniform()) * step));
        found = seeds_by_distance(among, random);
        if (int64_t(found.size()) < task_.n_children && n > most) {
            among.resize(n);
            for (int64_t i = 0; i < n; ++i) among[i] = i;
            found = seeds_by_distance(among, random);
        }
    }
    if (found.empty()) found.push_back(0);
    // Fewer distinct rows than children: their sizes are bounded all the same.
    for (int64_t i = 0; task_.bounded && int64_t(found.size()) < task_.n_children; ++i) found.push_back(i % n);
    return found;
}

std::vector<int64_t> NodeKMeans::seeds_at_random(NodeRandom& random) const {
    std::vector<int64_t> left;
    for (int64_t i = 0; i < rows_.size(); ++i)
        if (counts(i)) left.push_back(i);
    const int64_t n = std::min<int64_t>(task_.n_children, int64_t(left.size()));
    for (int64_t j = 0; j < n; ++j) std::swap(left[j], left[j + random.below(int64_t(left.size()) - j)]);
    left.resize(n);
    return left;
}

// k-means++: each row is drawn by its squared distance to the nearest one drawn before.
std::vector<int64_t> NodeKMeans::seeds_by_distance(const std::vector<int64_t>& among, NodeRandom& random) const {
    const auto n = int64_t(among.size());
    std::vector<double> share(n), nearest(n, std::numeric_limits<double>::infinity());
    for (int64_t j = 0; j < n; ++j) share[j] = counts(among[j]) ? weight(among[j]) : 0.0;
    std::vector<double> spread(rows_.n_columns(), 0.0);
    std::vector<int64_t> found;
    while (int64_t(found.size()) < task_.n_children) {
        double total = 0;
        for (double one : share) total += one;
        if (!(total > 0)) break;
        double left = random.uniform() * total;
        int64_t at = -1;
        for (int64_t j = 0; j < n && (at < 0 || left >= 0); ++j)
            if (share[j] > 0) at = j, left -= share[j];
        found.push_back(among[at]);
        if (int64_t(found.size()) == task_.n_children) break;
        const OneRow center = copy_of(rows_, among[at]);
        const double center_norm2 = rows_.norm2(among[at]);
        for (int64_t e = 0; e < center.size; ++e) spread[center.features[e]] = center.values[e];
        for (int64_t j = 0; j < n; ++j) {
            if (share[j] == 0) continue;
            rows_.rows(among[j], 1, [&](const RowBlock& row) {
                double product = 0;
                for (int64_t e = row.begin[0]; e < row.begin[1]; ++e) product += row.values[e] * spread[row.features[e]];
                const double norms = rows_.norm2(among[j]) + center_norm2;
                double distance2 = norms - 2 * product;
                if (distance2 <= 1e-8 * norms) {
                    const Row<double, int32_t> one{row.features + row.begin[0], row.values + row.begin[0],
                                                   row.begin[1] - row.begin[0]};
                    const Row<double, int32_t> other{center.features.data(), center.values.data(), center.size};
                    distance2 = direct_distance2(one, other);
                }
                nearest[j] = std::min(nearest[j], std::max(distance2, 0.0));
            });
            share[j] = weight(among[j]) * nearest[j];
        }
        for (int64_t e = 0; e < center.size; ++e) spread[center.features[e]] = 0;
    }
    return found;
}

void NodeKMeans::start_at(const std::vector<int64_t>& seeds) {
    k_ = int(seeds.size());
    lanes_ = lanes_for(k_);
    centers_.reset(rows_.n_columns(), lanes_);
    for (int c = 0; c < k_; ++c) {
        const OneRow row = copy_of(rows_, seeds[c]);
        const double norm2 = rows_.norm2(seeds[c]);
        const double length = options_.unit && norm2 > 0 ? std::sqrt(norm2) : 1.0;
        for (int64_t e = 0; e < row.size; ++e)
            centers_.get()[int64_t(row.features[e]) * lanes_ + c] = row.values[e] / length;
    }
    set_halves();
}

void NodeKMeans::set_halves() {
    halves_.assign(lanes_, 0.0);
    if (options_.unit) return;
    lane_norms(centers_.get(), rows_.n_columns(), lanes_, halves_.data());
    for (double& half : halves_) half /= 2;
}

// --- assignment --------------------------------------------------------------------------------------------------

void NodeKMeans::assign_freely() {
    parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
        static thread_local std::vector<double> scores;
        scores.resize(NodeRows::kBlock * lanes_);
        rows_.block(index, [&](const RowBlock& block) {
            lane_scores(block, centers_.get(), lanes_, halves_.data(), scores.data());
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

void NodeKMeans::assign_within_bounds() {
    scores_.resize(rows_.size() * lanes_);
    parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
        rows_.block(index, [&](const RowBlock& block) {
            double* const out = scores_.data() + block.first * lanes_;
            lane_scores(block, centers_.get(), lanes_, halves_.data(), out);
            for (int64_t i = 0; !weights_.empty() && i < block.n; ++i)
                for (int c = 0; c < k_; ++c) out[i * lanes_ + c] *= weights_[block.first + i];
        });
    });
    // Prices mean something where the bounds are met with equality; where these are wide, most clusters have none.
    if (task_.bounds.upper - task_.bounds.lower > 1) assigner_.forget();
    assigner_.assign(scores_.data(), rows_.size(), k_, lanes_, task_.bounds, labels_.data(), n_threads_);
    for (int64_t i = 0; i < rows_.size(); ++i) {
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
            const double norms = rows_.norm2(i) + (options_.unit ? 1.0 : 0.0);
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
        total += weight(i) * (rows_.norm2(i) + (options_.unit ? 1.0 : 0.0) - 2 * own_[i]);
    return std::max(total, 0.0);
}

// --- update ------------------------------------------------------------------------------------------------------

void NodeKMeans::add_rows(int from_lane, int to_lane) {
    double* const sums = sums_.get();
    for (int64_t index = 0; index < rows_.n_blocks(); ++index)
        rows_.block(index, [&](const RowBlock& block) {
            for (int64_t i = 0; i < block.n; ++i) {
                const int label = labels_[block.first + i];
                if (label < from_lane || label >= to_lane) continue;
                const double w = weight(block.first + i);
                for (int64_t e = block.begin[i]; e < block.begin[i + 1]; ++e)
                    sums[int64_t(block.features[e]) * lanes_ + label] += w * block.values[e];
            }
        });
}

double NodeKMeans::update() {
    sums_.reset(rows_.n_columns(), lanes_);
    cluster_weight_.assign(lanes_, 0.0);
    for (int64_t i = 0; i < rows_.size(); ++i) cluster_weight_[labels_[i]] += weight(i);
    // Each thread has lanes of its own, eight of which are a cache line; each sum is made in the order of the rows.
    const int n_groups = n_threads_ > 1 && lanes_ >= 16 ? lanes_ / 8 : 1, width = lanes_ / n_groups;
    parallel_blocks(n_groups, n_threads_,
                    [&](int64_t group, int) { add_rows(int(group) * width, int(group + 1) * width); });
    std::vector<double> divisors = cluster_weight_;
    if (options_.unit) {
        std::fill(divisors.begin(), divisors.end(), 0.0);
        lane_norms(sums_.get(), rows_.n_columns(), lanes_, divisors.data());
        for (double& divisor : divisors) divisor = std::sqrt(divisor);
    }
    double shift2 = 0;
    double *const sums = sums_.get(), *const centers = centers_.get();
    for (int lane = 0; lane < lanes_; ++lane)
        if (!(divisors[lane] > 0)) {  // no rows, or no direction: the center stays
            divisors[lane] = 1;
            for (int64_t c = 0; c < rows_.n_columns(); ++c) sums[c * lanes_ + lane] = centers[c * lanes_ + lane];
        }
    for (int64_t c = 0; c < rows_.n_columns(); ++c)
        for (int lane = 0; lane < lanes_; ++lane) sums[c * lanes_ + lane] /= divisors[lane];
    if (options_.shift_tol >= 0)
        for (int64_t at = 0; at < sums_.size(); ++at) shift2 += (sums[at] - centers[at]) * (sums[at] - centers[at]);
    std::swap(sums_, centers_);
    set_halves();
    return options_.shift_tol >= 0 ? shift2 : std::numeric_limits<double>::infinity();
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
    for (int64_t c = 0; c < rows_.n_columns(); ++c)
        for (int lane = 0; lane < k_; ++lane) {
            const double value = centers_.get()[c * lanes_ + lane];
            if (number[lane] < 0 || value == 0) continue;
            split.centers[number[lane]].features.push_back(int32_t(c));
            split.centers[number[lane]].values.push_back(value);
        }
    split.labels.resize(rows_.size());
    for (int64_t i = 0; i < rows_.size(); ++i) split.labels[i] = labels_[i] = number[labels_[i]];
    for (Center& center : split.centers) center.compute_norm();
    const std::vector<double> distances = distances2(split.centers);
    split.costs.assign(n_children, 0.0);
    for (int64_t i = 0; i < rows_.size(); ++i) split.costs[split.labels[i]] += weight(i) * distances[i];
    for (Center& center : split.centers)
        for (int32_t& feature : center.features) feature = rows_.column(feature);
    return split;
}

// Of each row to its own center; directly where the expanded form would lose its digits.
std::vector<double> NodeKMeans::distances2(const std::vector<Center>& centers) const {
    std::vector<double> found(rows_.size());
    parallel_blocks(rows_.n_blocks(), n_threads_, [&](int64_t index, int) {
        rows_.block(index, [&](const RowBlock& block) {
            for (int64_t i = 0; i < block.n; ++i) {
                const Row<double, int32_t> row{block.features + block.begin[i], block.values + block.begin[i],
                                               block.begin[i + 1] - block.begin[i]};
                const Center& center = centers[labels_[block.first + i]];
                found[block.first + i] = distance2(row, rows_.norm2(block.first + i), center);
            }
        });
    });
    return found;
}

}  // namespace sparsecluster
