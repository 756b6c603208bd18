#include "sizes/balanced_assign.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kBlock = 4096;   // rows of a task
constexpr int64_t kSample = 2048;  // rows that the prices of many more are guessed from
constexpr int kIdle = 8;  // steps without success
constexpr int64_t kFewScanned = int64_t(1) << 16;  // rows x moves that are cheaper than more price steps
constexpr int64_t kMostScanned = int64_t(1) << 22;  // rows x moves; beyond, what is left over goes by regret
constexpr int kStepsPerCluster = 6;
constexpr double kFar = std::numeric_limits<double>::infinity();

// So few rows too many are moved one by one.
int64_t few_of(int64_t n) { return std::clamp<int64_t>(kFewScanned / std::max<int64_t>(n, 1), 4, 64); }

}  // namespace

void BalancedAssigner::assign(const double* scores, int64_t n, int k, int stride, SizeBounds bounds, int32_t* labels,
                             int n_threads) {
    begin(scores, n, k, stride, bounds, labels);
    if (many(n)) guess_prices();
    parallel_blocks((n + kBlock - 1) / kBlock, n_threads,
                    [&](int64_t block, int) { take_best(block * kBlock, std::min(n, (block + 1) * kBlock)); });
    settle();
}

bool BalancedAssigner::many(int64_t n) { return n >= 4 * kSample; }

void BalancedAssigner::begin(const double* scores, int64_t n, int k, int stride, SizeBounds bounds, int32_t* labels) {
    scores_ = scores, n_ = n, k_ = k, stride_ = stride, bounds_ = bounds, labels_ = labels;
    best_.resize(n);
    if (int(prices_.size()) != k) prices_.assign(k, 0.0);
}

void BalancedAssigner::approach(int64_t few, int steps_per_cluster) {
    sizes_.assign(k_, 0);
    for (int64_t i = 0; i < n_; ++i) ++sizes_[labels_[i]];
    // Where rows are equal, steps can go round in circles.
    int64_t least = INT64_MAX;
    for (int step = 0, idle = 0; step < steps_per_cluster * k_ && idle < kIdle; ++step, ++idle) {
        const int64_t now = violation();
        if (now <= few) return;
        if (now < least) least = now, idle = 0;
        price_step();
    }
}

void BalancedAssigner::settle() {
    approach(few_of(n_), kStepsPerCluster);
    if (violation() == 0) return;
    bool exact = violation() * n_ <= kMostScanned;
    if (exact) measure_losses();
    for (Goal now = goal(); !now.met; now = goal()) {
        exact = exact && augment(now);
        if (!exact) repair(now);
    }
}

// Which clusters have to give or to take rows: too many first go where there are too few.
BalancedAssigner::Goal BalancedAssigner::goal() const {
    Goal found{std::vector<char>(k_, 0), std::vector<char>(k_, 0), false};
    bool over = false, under = false;
    for (int c = 0; c < k_; ++c) {
        found.source[c] = sizes_[c] > bounds_.most;
        found.sink[c] = sizes_[c] < bounds_.least;
        over |= bool(found.source[c]);
        under |= bool(found.sink[c]);
    }
    found.met = !over && !under;
    for (int c = 0; c < k_; ++c) {
        if (!over) found.source[c] = sizes_[c] > bounds_.least;
        if (!under) found.sink[c] = sizes_[c] < bounds_.most;
    }
    return found;
}

// Prices that suit some of the rows, evenly spread, suit most of them.
void BalancedAssigner::guess_prices() {
    const int64_t step = n_ / kSample, size = n_ / step;
    std::vector<double> some(size * k_);
    for (int64_t i = 0; i < size; ++i) std::copy_n(scores_ + i * step * stride_, k_, some.data() + i * k_);
    const double share = double(size) / double(n_);
    const double upper = std::min(double(bounds_.most) * share, double(size));
    const SizeBounds scaled{std::min(int64_t(double(bounds_.least) * share), size / k_),
                            std::max(int64_t(upper) + 1, (size + k_ - 1) / k_)};
    BalancedAssigner sample;
    std::vector<int32_t> labels(size);
    sample.prices_ = prices_;
    sample.begin(some.data(), size, k_, k_, scaled, labels.data());
    sample.take_best(0, size);
    sample.approach(few_of(size), kStepsPerCluster);
    prices_ = sample.prices_;
}

void BalancedAssigner::take_best(int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
        const double* const row = scores_ + i * stride_;
        int at = 0;
        double best = row[0] - prices_[0];
        for (int c = 1; c < k_; ++c)
            if (row[c] - prices_[c] > best) best = row[c] - prices_[c], at = c;
        labels_[i] = at;
        best_[i] = best;
    }
}

int64_t BalancedAssigner::violation() const {
    int64_t over = 0, under = 0;
    for (int64_t size : sizes_) {
        over += std::max<int64_t>(size - bounds_.most, 0);
        under += std::max<int64_t>(bounds_.least - size, 0);
    }
    return std::max(over, under);
}

// Sets right the size of the cluster that is farthest out of its bounds.
void BalancedAssigner::price_step() {
    const auto largest = std::max_element(sizes_.begin(), sizes_.end());
    const auto smallest = std::min_element(sizes_.begin(), sizes_.end());
    if (*largest - bounds_.most >= bounds_.least - *smallest)
        raise_price(int(largest - sizes_.begin()), bounds_.most);
    else
        lower_price(int(smallest - sizes_.begin()), bounds_.least);
}

// The price at which only `target` of the rows of a cluster stay.
void BalancedAssigner::raise_price(int cluster, int64_t target) {
    some_.clear(), margins_.clear(), other_.clear();
    for (int64_t i = 0; i < n_; ++i)
        if (labels_[i] == cluster) some_.push_back(i);
    prices_[cluster] = kFar;  // out of what else there is
    for (const int64_t i : some_) {
        const double* const row = scores_ + i * stride_;
        const double other = best_left(row);
        other_.push_back(other);
        margins_.push_back(row[cluster] - other);
    }
    sorted_ = margins_;
    const auto last = sorted_.begin() + (target - 1);
    std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
    const double lowest_in = *last, highest_out = *std::max_element(last + 1, sorted_.end());
    const double price = highest_out + (lowest_in - highest_out) / 2;
    // Of equal margins at the threshold the first rows stay.
    int64_t ties = target;
    for (const double margin : margins_) ties -= margin > lowest_in;
    for (size_t j = 0; j < some_.size(); ++j) {
        const int64_t i = some_[j];
        const bool tie = margins_[j] == lowest_in, stays = margins_[j] > lowest_in || (tie && ties > 0);
        ties -= tie;
        best_[i] = stays ? score(i, cluster) - price : other_[j];
        for (int c = 0; !stays && labels_[i] == cluster; ++c)
            if (score(i, c) - prices_[c] == other_[j]) move(i, c);
    }
    prices_[cluster] = price;
}

// The largest score of a row less the price; four at a time, which do not wait for each other.
double BalancedAssigner::best_left(const double* row) const {
    double best[4] = {-kFar, -kFar, -kFar, -kFar};
    int c = 0;
    for (; c + 4 <= k_; c += 4)
        for (int lane = 0; lane < 4; ++lane) best[lane] = std::max(best[lane], row[c + lane] - prices_[c + lane]);
    for (; c < k_; ++c) best[0] = std::max(best[0], row[c] - prices_[c]);
    return std::max(std::max(best[0], best[1]), std::max(best[2], best[3]));
}

// The price at which a cluster gets as many more rows as it lacks.
void BalancedAssigner::lower_price(int cluster, int64_t target) {
    const int64_t lacks = target - sizes_[cluster];
    margins_.resize(n_);
    for (int64_t i = 0; i < n_; ++i) margins_[i] = labels_[i] == cluster ? -kFar : score(i, cluster) - best_[i];
    // The largest margins as a heap whose top is the lowest of them.
    sorted_.assign(margins_.begin(), margins_.begin() + lacks);
    std::make_heap(sorted_.begin(), sorted_.end(), std::greater<>());
    double highest_out = -kFar;
    for (int64_t i = lacks; i < n_; ++i) {
        if (margins_[i] <= sorted_.front()) {
            highest_out = std::max(highest_out, margins_[i]);
            continue;
        }
        highest_out = std::max(highest_out, sorted_.front());
        std::pop_heap(sorted_.begin(), sorted_.end(), std::greater<>());
        sorted_.back() = margins_[i];
        std::push_heap(sorted_.begin(), sorted_.end(), std::greater<>());
    }
    const double lowest_in = sorted_.front(), before = prices_[cluster];
    const double price = highest_out > -kFar ? highest_out + (lowest_in - highest_out) / 2 : lowest_in;
    prices_[cluster] = price;
    int64_t ties = lacks;
    for (const double margin : sorted_) ties -= margin > lowest_in;
    for (int64_t i = 0; i < n_; ++i) {
        if (labels_[i] == cluster) {
            best_[i] += before - price;
        } else if (margins_[i] > lowest_in || (margins_[i] == lowest_in && ties-- > 0)) {
            move(i, cluster);
            best_[i] = score(i, cluster) - price;
        }
    }
}

void BalancedAssigner::move(int64_t i, int to) {
    --sizes_[labels_[i]];
    ++sizes_[to];
    labels_[i] = to;
}

// The least loss of a move from each cluster to every other one; of equal ones that of the lowest row.
void BalancedAssigner::measure_losses() {
    loss_.assign(k_ * k_, kFar), loser_.assign(k_ * k_, -1);
    members_.assign(k_, {});
    for (int64_t i = 0; i < n_; ++i) {
        members_[labels_[i]].push_back(i);
        offer_loss(labels_[i], i);
    }
}

void BalancedAssigner::offer_loss(int a, int64_t i) {
    const double* const row = scores_ + i * stride_;
    double* const losses = loss_.data() + a * k_;
    int64_t* const losers = loser_.data() + a * k_;
    for (int b = 0; b < k_; ++b) {
        const double loss = row[a] - row[b];
        if (loss < losses[b] || (loss == losses[b] && i < losers[b])) losses[b] = loss, losers[b] = i;
    }
}

// Moves a row that may have the least losses of its cluster.
void BalancedAssigner::move_loser(int64_t i, int to) {
    const int from = labels_[i];
    move(i, to);
    auto& left = members_[from];
    left.erase(std::lower_bound(left.begin(), left.end(), i));
    auto& joined = members_[to];
    joined.insert(std::lower_bound(joined.begin(), joined.end(), i), i);
    offer_loss(to, i);
    for (int b = 0; b < k_; ++b) {
        if (loser_[from * k_ + b] != i) continue;
        double least = kFar;
        int64_t loser = -1;
        for (const int64_t row : left)
            if (const double loss = score(row, from) - score(row, b); loss < least) least = loss, loser = row;
        loss_[from * k_ + b] = least, loser_[from * k_ + b] = loser;
    }
}

// Moves a row out of a source and one into a sink, by the cheapest way over any clusters. False where rounding leaves
// no way without a circle.
bool BalancedAssigner::augment(const Goal& goal) {
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
    int length = 0;
    for (int c = end; from[c] >= 0; c = from[c])
        if (++length > k_) return false;
    // All rows of the way first: a move changes who has the least loss.
    std::vector<std::pair<int64_t, int>> moves;
    for (int c = end; from[c] >= 0; c = from[c]) moves.push_back({loser_[from[c] * k_ + c], c});
    for (const auto& [row, to] : moves) move_loser(row, to);
    return true;
}

// Moves rows from sources to sinks, those that lose least first, until the goal is another one.
void BalancedAssigner::repair(const Goal& goal) {
    struct Offer {
        double loss;
        int64_t row;
        int to;
        bool operator<(const Offer& other) const { return loss != other.loss ? loss > other.loss : row > other.row; }
    };
    const bool over = violation() > 0 && *std::max_element(sizes_.begin(), sizes_.end()) > bounds_.most;
    const bool under = *std::min_element(sizes_.begin(), sizes_.end()) < bounds_.least;
    auto gives = [&](int c) { return sizes_[c] > (over ? bounds_.most : bounds_.least); };
    auto takes = [&](int c) { return sizes_[c] < (under ? bounds_.least : bounds_.most); };
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
