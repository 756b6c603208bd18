// Compiled without contraction, as exact.cpp: the same costs on every machine.
#include "sizes/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/exact.hpp"
#include "core/groups.hpp"
#include "core/metric.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kRowsOfBlock = 1024;
constexpr int64_t kPairsOfPortion = 2048;
// Rows of a chunk, and bytes of its picks if every row picked all clusters; pairs whose costs are computed together.
constexpr int64_t kMostRows = 1 << 14, kMostBytes = 1 << 28, kMostPairs = 1 << 21;

// A part of the pairs of one cluster.
struct PairPortion {
    int64_t cluster, begin, end;
};

}  // namespace

Candidates::Candidates(const Rows& rows, const double* weights, const AssignOptions& options)
    : rows_(rows), weights_(weights), options_(options) {
    unit_ = in_space(options.metric, [](auto space) { return decltype(space)::kUnit; });
    double least = INFINITY;
    for (int64_t i = 0; weights && i < rows.n_rows(); ++i)
        if (weights[i] > 0) least = std::min(least, weights[i]);
    for (const double norm2 : rows.norm2()) most_norm_ = std::max(most_norm_, std::sqrt(norm2));
    if (weights && rows.n_rows() > 0) most_weight_ = *std::max_element(weights, weights + rows.n_rows());
    if (std::isfinite(least)) least_weight_ = std::max(least * 0x1p-30, std::numeric_limits<double>::min());
}

void Candidates::start(const Centers& centers, double scale, IndexLimits limits, int64_t length) {
    centers_ = &centers;
    index_.build(centers, scale, limits, options_.n_threads);
    const int64_t n = rows_.n_rows();
    length_ = length;
    lists_.resize(n * length_);
    epochs_.resize(n);
    bounds_.resize(n);
    positions_.resize(n);
    prices_.clear();
    distances_ = 0;
    scratches_.resize(std::max(options_.n_threads, 1));
}

void Candidates::begin_epoch(const std::vector<double>& prices) {
    prices_.push_back(prices);
    largest_price_ = 0;
    for (double price : prices) largest_price_ = std::max(largest_price_, std::abs(price));
}

int64_t Candidates::rows_of_chunk() const {
    const int64_t bytes = n_clusters() * int64_t(sizeof(int32_t));
    return std::clamp<int64_t>(std::min(kMostBytes, options_.head_limit) / bytes, 1, kMostRows);
}

void Candidates::find_chunk(const int64_t* ids, int64_t n_ids, const std::vector<double>& prices) {
    chunk_.picks.resize(n_ids);
    for (int64_t p = 0; p < n_ids; ++p) positions_[ids[p]] = int32_t(p);
    scan(rows_, index_, ids, n_ids, options_.n_threads, scans_,
         [&](const Scanned& scanned, const auto&, int thread) { pick(scanned, prices, scratches_[thread]); });
    const auto epoch = int32_t(prices_.size() - 1);
    for (int64_t first = 0, last; first < n_ids; first = last) {
        int64_t n_pairs = 0;
        for (last = first; last < n_ids; ++last) {
            n_pairs += int64_t(chunk_.picks[last].size());
            if (n_pairs > kMostPairs && last > first) break;
        }
        measure(ids, first, last);
        parallel_blocks((last - first + kRowsOfBlock - 1) / kRowsOfBlock, options_.n_threads, [&](int64_t block, int) {
            std::vector<Candidate> list;
            const int64_t begin = first + block * kRowsOfBlock;
            for (int64_t p = begin; p < std::min(last, begin + kRowsOfBlock); ++p) {
                keep(ids[p], chunk_.picks[p], chunk_.costs.data() + chunk_.begin[p - first], prices, list);
                epochs_[ids[p]] = epoch;
                std::copy(list.begin(), list.end(), lists_.begin() + ids[p] * length_);
            }
        });
    }
}

// The clusters that may be among the best, and the best beyond the list; keys are (cost + price) / weight, less |x|^2.
void Candidates::pick(const Scanned& scanned, const std::vector<double>& prices, Scratch& scratch) {
    const int64_t i = scanned.row, n = n_clusters(), wanted = length_ + 1;
    const double twice = factor(i) == 0 ? 0.0 : 2 / (index_.scale * index_.scale);
    const double error = twice * scanned.error, share = 1 / weight(i);
    scratch.keys.resize(n);
    double* const keys = scratch.keys.data();
    for (int64_t k = 0; k < n; ++k) keys[k] = prices[k] * share - twice * double(scanned.scores[k]);
    double limit = INFINITY;
    if (wanted < n) {
        std::vector<double>& least = scratch.least;
        least.assign(keys, keys + wanted);
        std::make_heap(least.begin(), least.end());
        for (int64_t k = wanted; k < n; ++k) {
            if (!(keys[k] < least.front())) continue;
            std::pop_heap(least.begin(), least.end());
            least.back() = keys[k];
            std::push_heap(least.begin(), least.end());
        }
        // Prices round, too.
        limit = least.front() + 2 * (error + 0x1p-50 * largest_price_ * share);
    }
    std::vector<int32_t>& order = scratch.order;
    order.clear();
    for (int64_t k = 0; k < n; ++k)
        if (keys[k] <= limit) order.push_back(int32_t(k));
    chunk_.picks[positions_[i]].assign(order.begin(), order.end());
}

// What the picks cost.
void Candidates::measure(const int64_t* ids, int64_t first, int64_t last) {
    chunk_.begin.assign(1, 0);
    for (int64_t p = first; p < last; ++p)
        chunk_.begin.push_back(chunk_.begin.back() + int64_t(chunk_.picks[p].size()));
    chunk_.costs.resize(chunk_.begin.back());
    std::vector<int64_t> rows_of_pairs(chunk_.begin.back());
    const Groups groups = group_ids(n_clusters(), [&](const auto& note) {
        for (int64_t p = first; p < last; ++p)
            for (size_t at = 0; at < chunk_.picks[p].size(); ++at) {
                const int64_t pair = chunk_.begin[p - first] + int64_t(at);
                rows_of_pairs[pair] = ids[p];
                note(chunk_.picks[p][at], pair);
            }
    });
    std::vector<PairPortion> portions;
    for (int64_t k = 0; k < n_clusters(); ++k)
        for (int64_t begin = groups.begin[k]; begin < groups.begin[k + 1]; begin += kPairsOfPortion)
            portions.push_back({k, begin, std::min(begin + kPairsOfPortion, groups.begin[k + 1])});
    std::vector<std::vector<double>> spreads(std::max(options_.n_threads, 1));
    std::visit(
        [&](const auto& view) {
            parallel_blocks(int64_t(portions.size()), options_.n_threads, [&](int64_t p, int thread) {
                std::vector<double>& spread = spreads[thread];
                if (spread.empty()) spread.assign(rows_.n_features(), 0.0);
                const Center& center = centers_->items[portions[p].cluster];
                for (int64_t e = 0; e < center.size(); ++e) spread[center.features[e]] = center.values[e];
                for (int64_t g = portions[p].begin; g < portions[p].end; ++g) {
                    const int64_t pair = groups.ids[g], i = rows_of_pairs[pair];
                    chunk_.costs[pair] =
                        factor(i) == 0 ? 0.0 : factor(i) * spread_distance2(view.row(i), spread.data(), center);
                }
                for (int32_t feature : center.features) spread[feature] = 0.0;
            });
        },
        rows_.matrix());
}

// The best of the picks, and the best of the others as a bound.
void Candidates::keep(int64_t row, const std::vector<int32_t>& picks, const double* costs,
                      const std::vector<double>& prices, std::vector<Candidate>& list) {
    list.clear();
    for (size_t at = 0; at < picks.size(); ++at) list.push_back({costs[at], picks[at]});
    const auto value = [&](const Candidate& one) { return one.cost + prices[one.cluster]; };
    std::sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
        return value(a) != value(b) ? value(a) < value(b) : a.cluster < b.cluster;
    });
    bounds_[row] = int64_t(list.size()) > length_ ? value(list[length_]) : INFINITY;
    list.resize(length_);
}

double Candidates::most_cost(const Centers& centers) const {
    double norm = 0;
    for (const Center& center : centers.items) norm = std::max(norm, std::sqrt(center.norm2));
    // Twice: norms and costs are rounded.
    return 2 * most_weight_ * (most_norm_ + norm) * (most_norm_ + norm);
}

std::vector<double> Candidates::rises(const std::vector<double>& prices) const {
    std::vector<double> rises;
    for (const std::vector<double>& before : prices_) {
        double rise = INFINITY;
        for (size_t k = 0; k < before.size(); ++k) rise = std::min(rise, prices[k] - before[k]);
        rises.push_back(rise);
    }
    return rises;
}

double Candidates::cost(int64_t row, int32_t cluster) const {
    if (factor(row) == 0) return 0;
    return factor(row) * std::visit(
                             [&](const auto& view) {
                                 return distance2(view.row(row), rows_.norm2()[row], centers_->items[cluster]);
                             },
                             rows_.matrix());
}

void Candidates::own_costs(const int32_t* labels, double* costs) const {
    own_distances(rows_, *centers_, labels, nullptr, n_rows(), costs, options_.n_threads);
    for (int64_t i = 0; i < n_rows(); ++i) costs[i] = factor(i) == 0 ? 0.0 : factor(i) * costs[i];
}

}  // namespace sparsecluster
