// Compiled without contraction, as exact.cpp: the same costs on every machine.
#include "sizes/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/exact.hpp"
#include "core/metric.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kChunkRows = 1 << 16;
// Further picks where the kernels cannot tell which are the best.
constexpr int64_t kSpare = 8;
constexpr int64_t kRowsOfBlock = 1024;

}  // namespace

Candidates::Candidates(const Rows& rows, const double* weights, const AssignOptions& options)
    : rows_(rows), weights_(weights), options_(options) {
    unit_ = in_space(options.metric, [](auto space) { return decltype(space)::kUnit; });
    double least = INFINITY;
    for (int64_t i = 0; weights && i < rows.n_rows(); ++i)
        if (weights[i] > 0) least = std::min(least, weights[i]);
    if (std::isfinite(least)) least_weight_ = std::max(least * 0x1p-30, std::numeric_limits<double>::min());
}

void Candidates::start(const Centers& centers, double scale, IndexLimits limits, int64_t length) {
    centers_ = &centers;
    limits_ = limits;
    index_.build(centers, scale, limits, options_.n_threads);
    const int64_t n = rows_.n_rows();
    length_ = length;
    lists_.resize(n * length_);
    grown_.clear();
    sizes_.assign(n, 0);
    epochs_.assign(n, 0);
    bounds_.resize(n);
    positions_.resize(n);
    slot_labels_.resize(n);
    prices_.clear();
    distances_ = 0;
    scratches_.resize(std::max(options_.n_threads, 1));
}

void Candidates::find(const std::vector<int64_t>& ids, const std::vector<double>& prices, const int32_t* labels,
                      int64_t length) {
    if (ids.empty()) return;
    prices_.push_back(prices);
    for (size_t begin = 0; begin < ids.size(); begin += kChunkRows)
        find_chunk(ids.data() + begin, std::min<int64_t>(kChunkRows, int64_t(ids.size() - begin)), prices, labels,
                   std::min(length, n_clusters()));
    distances_ += int64_t(ids.size()) * n_clusters();
}

void Candidates::find_chunk(const int64_t* ids, int64_t n_ids, const std::vector<double>& prices,
                            const int32_t* labels, int64_t length) {
    chunk_.most = std::min(n_clusters(), length + 1 + kSpare) + 1;
    chunk_.clusters.resize(n_ids * chunk_.most);
    chunk_.costs.resize(n_ids * chunk_.most);
    chunk_.n_picked.resize(n_ids);
    chunk_.cut.resize(n_ids);
    for (int64_t p = 0; p < n_ids; ++p) positions_[ids[p]] = int32_t(p);
    scan(rows_, index_, ids, n_ids, options_.n_threads, scans_,
         [&](const Scanned& scanned, const auto&, int thread) {
             pick(scanned, prices, labels, length, scratches_[thread]);
         });
    measure(ids, n_ids);
    const auto epoch = int32_t(prices_.size() - 1);
    std::vector<std::vector<Candidate>> longer(length > length_ ? n_ids : 0);
    parallel_blocks((n_ids + kRowsOfBlock - 1) / kRowsOfBlock, options_.n_threads, [&](int64_t block, int) {
        std::vector<Candidate> list;
        for (int64_t p = block * kRowsOfBlock; p < std::min(n_ids, (block + 1) * kRowsOfBlock); ++p) {
            keep(ids[p], p, prices, labels, length, list);
            epochs_[ids[p]] = epoch;
            sizes_[ids[p]] = int32_t(list.size());
            if (int64_t(list.size()) > length_)
                longer[p] = list;
            else
                std::copy(list.begin(), list.end(), lists_.begin() + ids[p] * length_);
        }
    });
    for (size_t p = 0; p < longer.size(); ++p)
        if (!longer[p].empty()) grown_[ids[p]] = std::move(longer[p]);
}

// The clusters that may be among the `length` + 1 best; keys are (cost + price) / weight, less |x|^2.
void Candidates::pick(const Scanned& scanned, const std::vector<double>& prices, const int32_t* labels,
                      int64_t length, Scratch& scratch) {
    const int64_t i = scanned.row, n = n_clusters(), position = positions_[i];
    const double twice = indifferent(i) ? 0.0 : 2 / (index_.scale * index_.scale);
    const double error = twice * scanned.error, share = 1 / weight(i);
    scratch.keys.resize(n);
    double* const keys = scratch.keys.data();
    for (int64_t k = 0; k < n; ++k) keys[k] = prices[k] * share - twice * double(scanned.scores[k]);
    double limit = INFINITY;
    if (const int64_t wanted = length + 1; wanted < n) {
        scratch.least.assign(keys, keys + n);
        std::nth_element(scratch.least.begin(), scratch.least.begin() + (wanted - 1), scratch.least.end());
        limit = scratch.least[wanted - 1] + 2 * error;
    }
    std::vector<int32_t>& order = scratch.order;
    order.clear();
    for (int64_t k = 0; k < n; ++k)
        if (keys[k] <= limit) order.push_back(int32_t(k));
    chunk_.cut[position] = INFINITY;
    if (const int64_t most = chunk_.most - 1; int64_t(order.size()) > most) {
        std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
        });
        chunk_.cut[position] = weight(i) * (keys[order[most]] - error + rows_.norm2()[i]);
        order.resize(most);
    }
    if (labels && std::find(order.begin(), order.end(), labels[i]) == order.end()) order.push_back(labels[i]);
    chunk_.n_picked[position] = int32_t(order.size());
    std::copy(order.begin(), order.end(), chunk_.clusters.begin() + position * chunk_.most);
}

// What the picks cost.
void Candidates::measure(const int64_t* ids, int64_t n_ids) {
    std::vector<int64_t> listed, positions;
    std::vector<double> distance2;
    for (int64_t slot = 0; slot < chunk_.most; ++slot) {
        listed.clear();
        positions.clear();
        for (int64_t p = 0; p < n_ids; ++p) {
            if (chunk_.n_picked[p] <= slot) continue;
            listed.push_back(ids[p]);
            positions.push_back(p * chunk_.most + slot);
            slot_labels_[ids[p]] = chunk_.clusters[positions.back()];
        }
        if (listed.empty()) return;
        distance2.resize(listed.size());
        own_distances(rows_, *centers_, slot_labels_.data(), listed.data(), int64_t(listed.size()),
                      distance2.data(), options_.n_threads);
        for (size_t p = 0; p < listed.size(); ++p)
            chunk_.costs[positions[p]] = indifferent(listed[p]) ? 0.0 : weight(listed[p]) * distance2[p];
    }
}

// The best of the picks, and a bound of everything else.
void Candidates::keep(int64_t row, int64_t position, const std::vector<double>& prices, const int32_t* labels,
                      int64_t length, std::vector<Candidate>& list) {
    list.clear();
    for (int64_t p = position * chunk_.most; p < position * chunk_.most + chunk_.n_picked[position]; ++p)
        list.push_back({chunk_.costs[p], chunk_.clusters[p]});
    std::sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
        const double value_a = a.cost + prices[a.cluster], value_b = b.cost + prices[b.cluster];
        return value_a != value_b ? value_a < value_b : a.cluster < b.cluster;
    });
    bounds_[row] = chunk_.cut[position];
    if (int64_t(list.size()) <= length) return;
    if (labels) {
        const auto own = std::find_if(list.begin() + length, list.end(), [&](const Candidate& candidate) {
            return candidate.cluster == labels[row];
        });
        if (own != list.end()) std::swap(*own, list[length - 1]);
    }
    for (auto left_out = list.begin() + length; left_out != list.end(); ++left_out)
        bounds_[row] = std::min(bounds_[row], left_out->cost + prices[left_out->cluster]);
    list.resize(length);
}

void Candidates::tighten(const std::vector<int32_t>& clusters, const std::vector<double>& prices) {
    std::vector<double> rises;  // per epoch, of the price that rose least
    for (const std::vector<double>& before : prices_) {
        double rise = INFINITY;
        for (size_t k = 0, c = 0; k < prices.size(); ++k) {
            if (c < clusters.size() && clusters[c] == int32_t(k))
                ++c;
            else
                rise = std::min(rise, prices[k] - before[k]);
        }
        rises.push_back(rise);
    }
    for (int64_t i = 0; i < n_rows(); ++i) {
        bounds_[i] += rises[epochs_[i]];
        epochs_[i] = 0;
    }
    prices_.assign(1, prices);
    if (clusters.empty()) return;
    CenterIndex index;
    index.build(*centers_, clusters, index_.scale, limits_, options_.n_threads);
    const double twice = 2 / (index.scale * index.scale);
    scan(rows_, index, nullptr, n_rows(), options_.n_threads, scans_,
         [&](const Scanned& scanned, const auto&, int) {
             const int64_t i = scanned.row;
             for (size_t c = 0; c < clusters.size(); ++c) {
                 const double cost = indifferent(i) ? 0.0 : rows_.norm2()[i] - twice * (double(scanned.scores[c]) + scanned.error);
                 const double value = weight(i) * cost + prices[clusters[c]];
                 if (value < bounds_[i] && !listed(i, clusters[c])) bounds_[i] = value;
             }
         });
    distances_ += n_rows() * int64_t(clusters.size());
}

std::vector<double> Candidates::shares(const std::vector<double>& prices, double temperature) {
    constexpr double kWhole = 0x1p30, kNothing = 20;
    const int64_t n = n_clusters();
    std::vector<std::vector<int64_t>> sums(std::max(options_.n_threads, 1), std::vector<int64_t>(n, 0));
    const double twice = 2 / (index_.scale * index_.scale);
    scan(rows_, index_, nullptr, n_rows(), options_.n_threads, scans_,
         [&](const Scanned& scanned, const auto&, int thread) {
             const int64_t i = scanned.row;
             const double by_score = indifferent(i) ? 0.0 : weight(i) * twice;
             std::vector<double>& keys = scratches_[thread].keys;
             keys.resize(n);
             double best = INFINITY, total = 0;
             for (int64_t k = 0; k < n; ++k) {
                 keys[k] = (prices[k] - by_score * double(scanned.scores[k])) / temperature;
                 best = std::min(best, keys[k]);
             }
             for (int64_t k = 0; k < n; ++k) {
                 keys[k] = keys[k] - best < kNothing ? std::exp(best - keys[k]) : 0.0;
                 total += keys[k];
             }
             for (int64_t k = 0; k < n; ++k)
                 if (keys[k] > 0) sums[thread][k] += int64_t(keys[k] / total * kWhole);
         });
    distances_ += n_rows() * n;
    std::vector<double> shares(n);
    for (int64_t k = 0; k < n; ++k) {
        for (size_t thread = 1; thread < sums.size(); ++thread) sums[0][k] += sums[thread][k];
        shares[k] = double(std::max<int64_t>(sums[0][k], 1)) / kWhole;
    }
    return shares;
}

double Candidates::cost(const int32_t* labels) const {
    std::vector<double> costs(n_rows());
    std::vector<int64_t> unlisted;
    for (int64_t i = 0; i < n_rows(); ++i) {
        const auto list = of(i);
        const auto own = std::find_if(list.begin(), list.end(),
                                      [&](const Candidate& one) { return one.cluster == labels[i]; });
        if (own != list.end())
            costs[i] = own->cost;
        else
            unlisted.push_back(i);
    }
    std::vector<double> distance2(unlisted.size());
    own_distances(rows_, *centers_, labels, unlisted.data(), int64_t(unlisted.size()), distance2.data(),
                  options_.n_threads);
    for (size_t u = 0; u < unlisted.size(); ++u)
        costs[unlisted[u]] = indifferent(unlisted[u]) ? 0.0 : weight(unlisted[u]) * distance2[u];
    return std::accumulate(costs.begin(), costs.end(), 0.0);
}

std::vector<double> Candidates::falls_for(const std::vector<int32_t>& clusters, const std::vector<int64_t>& wanted,
                                          const std::vector<double>& prices, const std::vector<double>& best,
                                          const int32_t* labels) {
    CenterIndex index;
    index.build(*centers_, clusters, index_.scale, limits_, options_.n_threads);
    // The smallest gaps, as heaps: which ones they are does not depend on how the rows were shared out.
    std::vector<std::vector<std::vector<double>>> gaps(
        std::max(options_.n_threads, 1), std::vector<std::vector<double>>(clusters.size()));
    const double twice = 2 / (index.scale * index.scale);
    const auto note = [](std::vector<double>& heap, double gap, int64_t most) {
        if (int64_t(heap.size()) == most) {
            if (gap >= heap.front()) return;
            std::pop_heap(heap.begin(), heap.end());
            heap.pop_back();
        }
        heap.push_back(gap);
        std::push_heap(heap.begin(), heap.end());
    };
    scan(rows_, index, nullptr, n_rows(), options_.n_threads, scans_,
         [&](const Scanned& scanned, const auto&, int thread) {
             const int64_t i = scanned.row;
             for (size_t c = 0; c < clusters.size(); ++c) {
                 if (labels[i] == clusters[c]) continue;
                 const double cost =
                     indifferent(i) ? 0.0
                                    : std::max(0.0, rows_.norm2()[i] - twice * double(scanned.scores[c]));
                 note(gaps[thread][c], weight(i) * cost + prices[clusters[c]] - best[i], wanted[c]);
             }
         });
    distances_ += n_rows() * int64_t(clusters.size());
    std::vector<double> falls;
    for (size_t c = 0; c < clusters.size(); ++c) {
        std::vector<double>& all = gaps[0][c];
        for (size_t thread = 1; thread < gaps.size(); ++thread)
            for (double gap : gaps[thread][c]) note(all, gap, wanted[c]);
        falls.push_back(all.empty() ? 0.0 : std::max(0.0, all.front()));
    }
    return falls;
}

}  // namespace sparsecluster
