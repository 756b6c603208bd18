#include "sizes/balanced_assign.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kBlock = 4096;      // rows of a task
constexpr int64_t kSample = 4096;     // rows that the prices of many more are guessed from
constexpr int64_t kFew = 8;           // rows too many that are moved one by one at once, in place of more price steps
constexpr int64_t kMostScanned = int64_t(1) << 22;  // rows x moves; beyond, what is left over goes by regret
constexpr int kStepsPerCluster = 6;
constexpr double kFar = std::numeric_limits<double>::infinity();

template <class Work>
void over_blocks(int64_t n, int n_threads, const Work& work) {
    parallel_blocks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
        work(block * kBlock, std::min(n, (block + 1) * kBlock));
    });
}

}  // namespace

void BoundedAssigner::assign(const double* scores, int64_t n, int k, int stride, SizeBounds bounds, int32_t* labels,
                             int n_threads) {
    scores_ = scores, n_ = n, k_ = k, stride_ = stride, bounds_ = bounds, labels_ = labels;
    best_.resize(n), margin_.resize(n), other_.resize(n), second_.resize(n);
    if (int(prices_.size()) != k) {
        prices_.assign(k, 0.0);
        if (n >= 2 * kSample) start_from_sample(n_threads);
    }
    take_best(n_threads);
    for (int step = 0; step < kStepsPerCluster * k && violation() > kFew; ++step) {
        const int cluster = worst();
        price_step(cluster, sizes_[cluster] > bounds.upper ? bounds.upper : bounds.lower, n_threads);
    }
    if (violation() == 0) return;
    bool exact = violation() * n <= kMostScanned;
    if (exact) measure_losses(std::vector<char>(k, 1));
    for (Goal now = goal(); !now.met; now = goal()) {
        exact = exact && augment(now);
        if (!exact) repair(now);
    }
}

// Which clusters have to give or to take rows: too many first go where there are too few.
BoundedAssigner::Goal BoundedAssigner::goal() const {
    Goal found{std::vector<char>(k_, 0), std::vector<char>(k_, 0), false};
    bool over = false, under = false;
    for (int c = 0; c < k_; ++c) {
        over |= bool(found.source[c] = sizes_[c] > bounds_.upper);
        under |= bool(found.sink[c] = sizes_[c] < bounds_.lower);
    }
    found.met = !over && !under;
    for (int c = 0; c < k_; ++c) {
        if (!over) found.source[c] = sizes_[c] > bounds_.lower;
        if (!under) found.sink[c] = sizes_[c] < bounds_.upper;
    }
    return found;
}

// Prices that suit some of the rows, evenly spread, suit most of them.
void BoundedAssigner::start_from_sample(int n_threads) {
    const int64_t step = n_ / kSample, size = n_ / step;
    std::vector<double> some(size * k_);
    for (int64_t i = 0; i < size; ++i) std::copy_n(scores_ + i * step * stride_, k_, some.data() + i * k_);
    const double share = double(size) / double(n_);
    const double upper = std::min(double(bounds_.upper) * share, double(size));
    const SizeBounds scaled{std::min(int64_t(double(bounds_.lower) * share), size / k_),
                            std::max(int64_t(upper) + 1, (size + k_ - 1) / k_)};
    BoundedAssigner sample;
    std::vector<int32_t> labels(size);
    sample.assign(some.data(), size, k_, k_, scaled, labels.data(), n_threads);
    prices_ = sample.prices_;
}

void BoundedAssigner::take_best(int n_threads) {
    over_blocks(n_, n_threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const double* const row = scores_ + i * stride_;
            int at = 0;
            double best = row[0] - prices_[0];
            for (int c = 1; c < k_; ++c)
                if (row[c] - prices_[c] > best) best = row[c] - prices_[c], at = c;
            labels_[i] = at;
            best_[i] = best;
        }
    });
    sizes_.assign(k_, 0);
    for (int64_t i = 0; i < n_; ++i) ++sizes_[labels_[i]];
}

int64_t BoundedAssigner::violation() const {
    int64_t over = 0, under = 0;
    for (int64_t size : sizes_) {
        over += std::max<int64_t>(size - bounds_.upper, 0);
        under += std::max<int64_t>(bounds_.lower - size, 0);
    }
    return std::max(over, under);
}

int BoundedAssigner::worst() const {
    int found = 0;
    int64_t most = -1;
    for (int c = 0; c < k_; ++c) {
        const int64_t off = std::max(sizes_[c] - bounds_.upper, bounds_.lower - sizes_[c]);
        if (off > most) most = off, found = c;
    }
    return found;
}

// Sets the price of a cluster so that it gets `target` rows.
void BoundedAssigner::price_step(int cluster, int64_t target, int n_threads) {
    over_blocks(n_, n_threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const double* const row = scores_ + i * stride_;
            double other = best_[i];
            if (labels_[i] == cluster) {
                int at = cluster == 0 ? 1 : 0;
                other = row[at] - prices_[at];
                for (int c = at + 1; c < k_; ++c)
                    if (c != cluster && row[c] - prices_[c] > other) other = row[c] - prices_[c], at = c;
                second_[i] = at;
                other_[i] = other;
            }
            margin_[i] = row[cluster] - other;
        }
    });
    sorted_.assign(margin_.begin(), margin_.begin() + n_);
    // The target-th largest margin, and the next smaller one.
    const auto last = sorted_.begin() + (target - 1);
    std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
    const double lowest_in = *last, highest_out = target < n_ ? *std::max_element(last + 1, sorted_.end()) : lowest_in;
    const double price = highest_out + (lowest_in - highest_out) / 2;
    prices_[cluster] = price;
    // Where margins are equal at the threshold, those that are in the cluster stay first.
    int64_t ties = target, ties_inside = 0;
    for (int64_t i = 0; i < n_; ++i) {
        ties -= margin_[i] > lowest_in;
        ties_inside += margin_[i] == lowest_in && labels_[i] == cluster;
    }
    int64_t keep = std::min(ties, ties_inside), take = ties - keep;
    for (int64_t i = 0; i < n_; ++i) {
        const bool inside = labels_[i] == cluster;
        bool in = margin_[i] > lowest_in;
        if (margin_[i] == lowest_in) {
            int64_t& left = inside ? keep : take;
            in = left > 0;
            left -= in;
        }
        if (in) {
            if (!inside) move(i, cluster);
            best_[i] = score(i, cluster) - price;
        } else if (inside) {
            move(i, second_[i]);
            best_[i] = other_[i];
        }
    }
}

void BoundedAssigner::move(int64_t i, int to) {
    --sizes_[labels_[i]];
    ++sizes_[to];
    labels_[i] = to;
}

// The least loss of a move from each of these clusters to every other one.
void BoundedAssigner::measure_losses(const std::vector<char>& of_clusters) {
    loss_.resize(k_ * k_), loser_.resize(k_ * k_);
    for (int a = 0; a < k_; ++a)
        if (of_clusters[a]) {
            std::fill_n(loss_.begin() + a * k_, k_, kFar);
            std::fill_n(loser_.begin() + a * k_, k_, -1);
        }
    for (int64_t i = 0; i < n_; ++i) {
        const int a = labels_[i];
        if (!of_clusters[a]) continue;
        const double* const row = scores_ + i * stride_;
        double* const losses = loss_.data() + a * k_;
        for (int b = 0; b < k_; ++b)
            if (row[a] - row[b] < losses[b]) losses[b] = row[a] - row[b], loser_[a * k_ + b] = i;
    }
}

// Moves a row out of a source and one into a sink, by the cheapest way over any clusters. False where rounding leaves
// no way without a circle.
bool BoundedAssigner::augment(const Goal& goal) {
    std::vector<double> far(k_, kFar);
    std::vector<int> from(k_, -1);
    for (int c = 0; c < k_; ++c)
        if (goal.source[c]) far[c] = 0;
    bool changed = true;
    for (int round = 0; changed && round < k_; ++round) {
        changed = false;
        for (int a = 0; a < k_; ++a)
            for (int b = 0; b < k_ && far[a] < kFar; ++b)
                if (a != b && !goal.source[b] && far[a] + loss_[a * k_ + b] < far[b])
                    far[b] = far[a] + loss_[a * k_ + b], from[b] = a, changed = true;
    }
    int end = -1;
    for (int c = 0; c < k_; ++c)
        if (goal.sink[c] && !goal.source[c] && far[c] < kFar && (end < 0 || far[c] < far[end])) end = c;
    if (end < 0) return false;
    std::vector<char> touched(k_, 0);
    int length = 0;
    for (int c = end; from[c] >= 0; c = from[c])
        if (++length > k_) return false;
    for (int c = end; from[c] >= 0; c = from[c]) {
        move(loser_[from[c] * k_ + c], c);
        touched[c] = touched[from[c]] = 1;
    }
    measure_losses(touched);
    return true;
}

// Moves rows from sources to sinks, those that lose least first, until the goal is another one.
void BoundedAssigner::repair(const Goal& goal) {
    struct Offer {
        double loss;
        int64_t row;
        int to;
        bool operator<(const Offer& other) const { return loss != other.loss ? loss > other.loss : row > other.row; }
    };
    const bool over = violation() > 0 && *std::max_element(sizes_.begin(), sizes_.end()) > bounds_.upper;
    const bool under = *std::min_element(sizes_.begin(), sizes_.end()) < bounds_.lower;
    auto gives = [&](int c) { return sizes_[c] > (over ? bounds_.upper : bounds_.lower); };
    auto takes = [&](int c) { return sizes_[c] < (under ? bounds_.lower : bounds_.upper); };
    auto offer = [&](int64_t i) {
        Offer found{kFar, i, -1};
        for (int c = 0; c < k_; ++c)
            if (takes(c) && c != labels_[i] && score(i, labels_[i]) - score(i, c) < found.loss)
                found.loss = score(i, labels_[i]) - score(i, c), found.to = c;
        return found;
    };
    std::vector<Offer> offers;
    for (int64_t i = 0; i < n_; ++i)
        if (goal.source[labels_[i]]) offers.push_back(offer(i));
    std::priority_queue<Offer> queue(std::less<Offer>(), std::move(offers));
    while (!queue.empty()) {
        const Offer now = queue.top();
        queue.pop();
        if (now.to < 0 || !gives(labels_[now.row])) continue;
        if (takes(now.to)) {
            move(now.row, now.to);
        } else if (const Offer next = offer(now.row); next.to >= 0) {
            queue.push(next);
        }
    }
}

}  // namespace sparsecluster
