// The last rows of a balanced assignment, which go along shortest paths over the clusters.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/clones.hpp"
#include "sizes/balanced_assign.hpp"

namespace sparsecluster {

namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

// Of each cluster b, losses[b] becomes what the row loses by a move from a to b, and losers[b] the row, where that is
// less. Rows come in ascending order, so that of equal ones the lowest counts.
template <class T>
[[gnu::always_inline]] inline void offer_losses(const T* scores, int a, int k, int64_t row, double* losses, int64_t* losers) {
    const auto own = double(scores[a]);
    for (int b = 0; b < k; ++b) {
        const double loss = own - double(scores[b]);
        const bool less = loss < losses[b];
        losses[b] = less ? loss : losses[b], losers[b] = less ? row : losers[b];
    }
}
FOR_EACH_PROCESSOR
void offer_rows(const float* scores, int stride, const int32_t* labels, int64_t n, int k, double* losses, int64_t* losers) {
    for (int64_t i = 0; i < n; ++i)
        offer_losses(scores + i * stride, labels[i], k, i, losses + labels[i] * k, losers + labels[i] * k);
}
FOR_EACH_PROCESSOR
void offer_rows(const double* scores, int stride, const int32_t* labels, int64_t n, int k, double* losses, int64_t* losers) {
    for (int64_t i = 0; i < n; ++i)
        offer_losses(scores + i * stride, labels[i], k, i, losses + labels[i] * k, losers + labels[i] * k);
}

// Ways over cluster a, where they are shorter; whether any is.
FOR_EACH_PROCESSOR
bool shorten(double length, int64_t a, const double* losses, int k, double* far, int64_t* from) {
    int64_t changed = 0;
    for (int b = 0; b < k; ++b) {
        const bool less = length + losses[b] < far[b];
        far[b] = less ? length + losses[b] : far[b], from[b] = less ? a : from[b];
        changed |= int64_t(less);
    }
    return changed != 0;
}

}  // namespace

// The least loss of a move from each cluster to every other one; of equal ones that of the lowest row.
template <class T>
void BalancedAssigner<T>::measure_losses() {
    loss_.assign(k_ * k_, kFar), loser_.assign(k_ * k_, -1);
    members_.assign(k_, {});
    for (int64_t i = 0; i < n_; ++i) members_[labels_[i]].push_back(i);
    offer_rows(scores_, stride_, labels_, n_, k_, loss_.data(), loser_.data());
}

template <class T>
void BalancedAssigner<T>::offer_loss(int a, int64_t i) {
    const T* const row = scores_ + i * stride_;
    double* const losses = loss_.data() + a * k_;
    int64_t* const losers = loser_.data() + a * k_;
    for (int b = 0; b < k_; ++b) {
        const double loss = double(row[a]) - double(row[b]);
        if (loss < losses[b] || (loss == losses[b] && i < losers[b])) losses[b] = loss, losers[b] = i;
    }
}

// Moves a row that may have the least losses of its cluster.
template <class T>
void BalancedAssigner<T>::move_loser(int64_t i, int to) {
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
            if (const double loss = double(score(row, from)) - double(score(row, b)); loss < least) least = loss, loser = row;
        loss_[from * k_ + b] = least, loser_[from * k_ + b] = loser;
    }
}

// Moves a row out of a source and one into a sink, by the cheapest way over any clusters. False where rounding leaves
// no way without a circle, or where the loss would not be below that.
template <class T>
bool BalancedAssigner<T>::augment(const Goal& goal, double below) {
    std::vector<double> far(k_, kFar);
    std::vector<int64_t> from(k_, -1);
    for (int c = 0; c < k_; ++c)
        if (goal.source[c]) far[c] = 0;
    bool changed = true;
    for (int round = 0; changed && round < k_; ++round) {
        changed = false;
        for (int64_t a = 0; a < k_; ++a)
            if (far[a] < kFar) changed |= shorten(far[a], a, loss_.data() + a * k_, k_, far.data(), from.data());
    }
    int end = -1;
    for (int c = 0; c < k_; ++c)
        if (goal.sink[c] && !goal.source[c] && far[c] < kFar && (end < 0 || far[c] < far[end])) end = c;
    if (end < 0 || far[end] >= below) return false;
    int length = 0;
    for (int64_t c = end; from[c] >= 0; c = from[c])
        if (++length > k_) return false;
    // All rows of the way first: a move changes who has the least loss.
    std::vector<std::pair<int64_t, int>> moves;
    for (int64_t c = end; from[c] >= 0; c = from[c]) moves.push_back({loser_[from[c] * k_ + c], int(c)});
    for (const auto& [row, to] : moves) move_loser(row, to);
    return true;
}

// Moves the row that loses least out of a source straight into a sink.
template <class T>
void BalancedAssigner<T>::move_cheapest(const Goal& goal) {
    int from = -1, to = -1;
    for (int a = 0; a < k_; ++a)
        for (int b = 0; b < k_; ++b)
            if (a != b && goal.source[a] && goal.sink[b] && loser_[a * k_ + b] >= 0 &&
                (from < 0 || loss_[a * k_ + b] < loss_[from * k_ + to]))
                from = a, to = b;
    // No loss is a number where scores are not: then any row will do.
    if (from < 0) {
        for (int c = 0; c < k_; ++c) {
            if (from < 0 && goal.source[c]) from = c;
            if (to < 0 && goal.sink[c] && c != from) to = c;
        }
        return move_loser(members_[from].front(), to);
    }
    move_loser(loser_[from * k_ + to], to);
}

template class BalancedAssigner<float>;
template class BalancedAssigner<double>;

}  // namespace sparsecluster
