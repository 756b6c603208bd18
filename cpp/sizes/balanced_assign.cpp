#include "sizes/balanced_assign.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "core/parallel.hpp"
#include "sizes/best_lane.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kBlock = 4096;   // rows of a task
constexpr int64_t kSample = 2048;  // rows that the prices of many more are guessed from
constexpr int kIdle = 8;  // steps without success
constexpr double kWorthwhile = 0.75;  // of the rows too many: what a sweep may leave for another one to follow
constexpr int64_t kFewScanned = int64_t(1) << 20;  // rows x moves that are cheaper than more price steps
constexpr int64_t kMostScanned = int64_t(1) << 22;  // rows x moves; beyond, what is left over goes by regret
constexpr int kStepsPerCluster = 1;
constexpr int kMovesPerCluster = 4;
constexpr double kGain = 1e-12;  // more than rounding
template <class T>
constexpr T kFar = std::numeric_limits<T>::infinity();

// A row and what it loses, in one number that orders them: by the loss as float32, where both zeros are one, then by the row.
uint64_t offer(double loss, int64_t row) {
    const auto bits = std::bit_cast<uint32_t>(float(loss) + 0.0f);
    return uint64_t(bits >> 31 ? ~bits : bits | 0x80000000u) << 32 | uint64_t(row);
}

int64_t row_of(uint64_t offer) { return int64_t(offer & UINT32_MAX); }

// So few rows too many are moved one by one.
int64_t few_of(int64_t n) { return std::clamp<int64_t>(kFewScanned / std::max<int64_t>(n, 1), 4, 32); }

}  // namespace

template <class T>
void BalancedAssigner<T>::assign(const T* scores, int64_t n, int k, int stride, SizeBounds bounds, int32_t* labels,
                             int n_threads) {
    begin(scores, n, k, stride, bounds, labels, n_threads);
    if (many(n)) guess_prices();
    parallel_blocks((n + kBlock - 1) / kBlock, n_threads,
                    [&](int64_t block, int) { take_best(block * kBlock, std::min(n, (block + 1) * kBlock)); });
    settle();
}

template <class T>
bool BalancedAssigner<T>::many(int64_t n) { return n >= 4 * kSample; }

template <class T>
void BalancedAssigner<T>::begin(const T* scores, int64_t n, int k, int stride, SizeBounds bounds, int32_t* labels,
                             int n_threads) {
    scores_ = scores, n_ = n, k_ = k, stride_ = stride, bounds_ = bounds, labels_ = labels, n_threads_ = n_threads;
    best_.resize(n);
    if (int(prices_.size()) != stride) prices_.assign(stride, T(0));
    // Sweeps only raise prices, of which the differences count.
    const T lowest = *std::min_element(prices_.begin(), prices_.begin() + k);
    for (T& price : prices_) price -= lowest;
    // Lanes beyond the clusters are out of the question.
    std::fill(prices_.begin() + k, prices_.end(), kFar<T>);
}

template <class T>
int64_t BalancedAssigner<T>::approach(int64_t few, int steps_per_cluster) {
    count_sizes();
    // All at once, as long as that gets far: where many rows are equal, they go from one cluster to the next together.
    int64_t now = excess();
    for (int64_t before = INT64_MAX; now > few && double(now) < kWorthwhile * double(before); now = excess()) {
        before = now;
        sweep();
    }
    // Then the worst one, time and again.
    int64_t least = INT64_MAX;
    for (int step = 0, idle = 0; step < steps_per_cluster * k_ && idle < kIdle; ++step, ++idle, now = excess()) {
        if (now <= few) break;
        if (now < least) least = now, idle = 0;
        raise_price(int(std::max_element(sizes_.begin(), sizes_.end()) - sizes_.begin()), bounds_.most);
    }
    return now;
}

// Lists the rows of clusters that have too many, in ascending order; answers how many these are. Below, what belongs to one of
// these rows is filed by its cluster: there are as many places for each cluster as it has rows.
template <class T>
int64_t BalancedAssigner<T>::list_crowded() {
    crowded_.resize(k_), place_.resize(k_);
    int64_t places = 0;
    for (int c = 0; c < k_; ++c) {
        crowded_[c] = sizes_[c] > bounds_.most, place_[c] = places;
        if (crowded_[c]) places += sizes_[c];
    }
    some_.resize(n_ + 1);
    int64_t size = 0;
    for (int64_t i = 0; i < n_; ++i) some_[size] = i, size += crowded_[labels_[i]];
    other_.resize(size), other_labels_.resize(size);
    return size;
}

// Rows that clusters have too many go, those that lose least first, to the best cluster that has room, round by round.
template <class T>
void BalancedAssigner<T>::move_excess() {
    // An offer names its row by its number on the list.
    auto keep_best = [](uint64_t* offers, int64_t size, int64_t most) {
        if (size > most) std::nth_element(offers, offers + most, offers + size);
        return std::min(size, most);
    };
    while (excess() > 0) {
        open_ = prices_;
        for (int c = 0; c < k_; ++c)
            if (sizes_[c] >= bounds_.most) open_[c] = kFar<T>;
        const int64_t size = list_crowded();
        best_lanes(scores_, some_.data(), size, stride_, open_.data(), other_labels_.data(), other_.data());
        leaving_.resize(size), coming_.resize(size);
        for (int64_t j = 0; j < size; ++j) {
            const int64_t i = some_[j];
            leaving_[place_[labels_[i]]++] = offer(best_[i] - other_[j], j);
        }
        // Of each cluster those that lose least, one cluster after the other; then by where they go.
        int64_t n_leaving = 0;
        arrivals_.assign(k_ + 1, 0);
        for (int c = 0; c < k_; ++c) {
            if (!crowded_[c]) continue;
            uint64_t* const offers = leaving_.data() + place_[c] - sizes_[c];
            const int64_t kept = keep_best(offers, sizes_[c], sizes_[c] - bounds_.most);
            for (int64_t e = 0; e < kept; ++e) ++arrivals_[other_labels_[row_of(offers[e])] + 1];
            std::copy_n(offers, kept, leaving_.data() + n_leaving);
            n_leaving += kept;
        }
        for (int c = 0; c < k_; ++c) arrivals_[c + 1] += arrivals_[c];
        for (int64_t e = 0; e < n_leaving; ++e) coming_[arrivals_[other_labels_[row_of(leaving_[e])]]++] = leaving_[e];
        for (int c = 0; c < k_; ++c) {
            const int64_t first = c == 0 ? 0 : arrivals_[c - 1];
            uint64_t* const offers = coming_.data() + first;
            const int64_t kept = keep_best(offers, arrivals_[c] - first, bounds_.most - sizes_[c]);
            for (int64_t e = 0; e < kept; ++e) {
                const int64_t j = row_of(offers[e]);
                best_[some_[j]] = other_[j];
                move(some_[j], c);
            }
        }
    }
}

template <class T>
void BalancedAssigner<T>::settle() {
    const int64_t few = few_of(n_);
    approach(few, kStepsPerCluster);
    int64_t least = INT64_MAX;
    for (int step = 0, idle = 0; step < kStepsPerCluster * k_ && idle < kIdle; ++step, ++idle) {
        const int64_t now = violation();
        if (now <= few || now == excess()) break;
        if (now < least) least = now, idle = 0;
        lower_price(int(std::min_element(sizes_.begin(), sizes_.end()) - sizes_.begin()), bounds_.least);
    }
    if (violation() * n_ > kMostScanned) move_excess();
    const bool choice = bounds_.most - bounds_.least == 1;
    if (violation() == 0 && !choice) return;
    measure_losses();
    bool exact = true;
    for (Goal now = goal(); !now.met; now = goal()) {
        exact = exact && augment(now, kFar<double>);
        if (!exact) move_cheapest(now);
    }
    // Which clusters have the one row more: as long as that gains anything.
    for (int move = 0; exact && choice && move < kMovesPerCluster * k_; ++move) {
        Goal other{std::vector<char>(k_, 0), std::vector<char>(k_, 0), true};
        for (int c = 0; c < k_; ++c) {
            other.source[c] = sizes_[c] == bounds_.most;
            other.sink[c] = sizes_[c] == bounds_.least;
        }
        if (!augment(other, -kGain)) break;
    }
}

// Which clusters have to give or to take rows: too many first go where there are too few.
template <class T>
typename BalancedAssigner<T>::Goal BalancedAssigner<T>::goal() const {
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
template <class T>
void BalancedAssigner<T>::guess_prices() {
    const int64_t step = n_ / kSample, size = n_ / step;
    std::vector<T> some(size * stride_);
    for (int64_t i = 0; i < size; ++i) std::copy_n(scores_ + i * step * stride_, stride_, some.data() + i * stride_);
    const double share = double(size) / double(n_);
    const double upper = std::min(double(bounds_.most) * share, double(size));
    const SizeBounds scaled{std::min(int64_t(double(bounds_.least) * share), size / k_),
                            std::max(int64_t(upper) + 1, (size + k_ - 1) / k_)};
    BalancedAssigner sample;
    std::vector<int32_t> labels(size);
    sample.prices_ = prices_;
    sample.begin(some.data(), size, k_, stride_, scaled, labels.data(), 1);
    sample.take_best(0, size);
    sample.approach(few_of(size), kStepsPerCluster);
    prices_ = sample.prices_;
}

template <class T>
void BalancedAssigner<T>::take_best(int64_t first, int64_t end) {
    best_lanes(scores_ + first * stride_, nullptr, end - first, stride_, prices_.data(), labels_ + first,
               best_.data() + first);
}

template <class T>
void BalancedAssigner<T>::count_sizes() {
    sizes_.assign(k_, 0);
    for (int64_t i = 0; i < n_; ++i) ++sizes_[labels_[i]];
}

// Rows that clusters have too many.
template <class T>
int64_t BalancedAssigner<T>::excess() const {
    int64_t rows = 0;
    for (int64_t size : sizes_) rows += std::max<int64_t>(size - bounds_.most, 0);
    return rows;
}

template <class T>
int64_t BalancedAssigner<T>::violation() const {
    int64_t under = 0;
    for (int64_t size : sizes_) under += std::max<int64_t>(bounds_.least - size, 0);
    return std::max(excess(), under);
}

// Raises the prices of all clusters that have too many rows.
template <class T>
void BalancedAssigner<T>::sweep() {
    const int64_t size = list_crowded();
    open_ = prices_;
    for (int c = 0; c < k_; ++c)
        if (crowded_[c]) open_[c] = kFar<T>;
    auto look = [&](const std::vector<T>& prices) {
        parallel_blocks((size + kBlock - 1) / kBlock, n_threads_, [&](int64_t block, int) {
            const int64_t first = block * kBlock, n = std::min(kBlock, size - first);
            best_lanes(scores_, some_.data() + first, n, stride_, prices.data(), other_labels_.data() + first,
                       other_.data() + first);
        });
    };
    look(open_);
    margins_.resize(size);
    for (int64_t j = 0; j < size; ++j) margins_[place_[labels_[some_[j]]]++] = best_[some_[j]] - other_[j];
    for (int c = 0; c < k_; ++c)
        if (crowded_[c])
            prices_[c] += price_to_lose(margins_.data() + place_[c] - sizes_[c], sizes_[c], sizes_[c] - bounds_.most);
    look(prices_);
    for (int64_t j = 0; j < size; ++j) {
        const int64_t i = some_[j];
        best_[i] = other_[j];
        move(i, other_labels_[j]);
    }
}

// By how much a cluster has to be dearer for so many of its rows to leave.
template <class T>
T BalancedAssigner<T>::price_to_lose(T* margins, int64_t size, int64_t n_rows) const {
    T* const last = margins + (n_rows - 1);
    std::nth_element(margins, last, margins + size);
    const T highest_out = *last, lowest_in = *std::min_element(last + 1, margins + size);
    return highest_out + (lowest_in - highest_out) / 2;
}

// The price at which only `target` of the rows of a cluster stay.
template <class T>
void BalancedAssigner<T>::raise_price(int cluster, int64_t target) {
    some_.resize(n_ + 1);
    int64_t size = 0;
    for (int64_t i = 0; i < n_; ++i) some_[size] = i, size += labels_[i] == cluster;
    prices_[cluster] = kFar<T>;  // out of what else there is
    other_.resize(size), other_labels_.resize(size), margins_.clear();
    best_lanes(scores_, some_.data(), size, stride_, prices_.data(), other_labels_.data(), other_.data());
    for (int64_t j = 0; j < size; ++j) margins_.push_back(score(some_[j], cluster) - other_[j]);
    sorted_ = margins_;
    const auto last = sorted_.begin() + (target - 1);
    std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
    const T lowest_in = *last, highest_out = *std::max_element(last + 1, sorted_.end());
    const T price = highest_out + (lowest_in - highest_out) / 2;
    // Of equal margins at the threshold the first rows stay.
    int64_t ties = target;
    for (const T margin : margins_) ties -= margin > lowest_in;
    for (int64_t j = 0; j < size; ++j) {
        const int64_t i = some_[j];
        const bool tie = margins_[j] == lowest_in, stays = margins_[j] > lowest_in || (tie && ties > 0);
        ties -= tie;
        best_[i] = stays ? score(i, cluster) - price : other_[j];
        if (!stays) move(i, other_labels_[j]);
    }
    prices_[cluster] = price;
}

// The price at which a cluster gets as many more rows as it lacks.
template <class T>
void BalancedAssigner<T>::lower_price(int cluster, int64_t target) {
    const int64_t lacks = target - sizes_[cluster];
    margins_.resize(n_);
    for (int64_t i = 0; i < n_; ++i) margins_[i] = labels_[i] == cluster ? -kFar<T> : score(i, cluster) - best_[i];
    // The largest margins as a heap whose top is the lowest of them.
    sorted_.assign(margins_.begin(), margins_.begin() + lacks);
    std::make_heap(sorted_.begin(), sorted_.end(), std::greater<>());
    T highest_out = -kFar<T>;
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
    const T lowest_in = sorted_.front(), before = prices_[cluster];
    const T price = highest_out > -kFar<T> ? highest_out + (lowest_in - highest_out) / 2 : lowest_in;
    prices_[cluster] = price;
    int64_t ties = lacks;
    for (const T margin : sorted_) ties -= margin > lowest_in;
    for (int64_t i = 0; i < n_; ++i) {
        if (labels_[i] == cluster) {
            best_[i] += before - price;
        } else if (margins_[i] > lowest_in || (margins_[i] == lowest_in && ties-- > 0)) {
            move(i, cluster);
            best_[i] = score(i, cluster) - price;
        }
    }
}

template <class T>
void BalancedAssigner<T>::move(int64_t i, int to) {
    --sizes_[labels_[i]];
    ++sizes_[to];
    labels_[i] = to;
}

template class BalancedAssigner<float>;
template class BalancedAssigner<double>;

}  // namespace sparsecluster
