#include "tree/node_centers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/clones.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kRowsAhead = 6;  // rows that are asked for before they are needed
constexpr int64_t kFew = 4;        // columns per entry up to which all are looked at
constexpr double kLost = 1e-6;     // of the norms: a cost whose digits are lost in their sum

// Adds the entries of a row to the totals of their columns.
template <class V>
[[gnu::always_inline]] inline void add_row(const int32_t* features, const V* values, int64_t n, double times, double* totals) {
    constexpr int kTogether = 8;
    int64_t e = 0;
    for (; e + kTogether <= n; e += kTogether) {
        double added[kTogether];
        for (int lane = 0; lane < kTogether; ++lane) added[lane] = times * double(values[e + lane]);
        // Two features are one word to read.
        for (int lane = 0; lane < kTogether; lane += 2) {
            uint64_t two;
            std::memcpy(&two, features + e + lane, 8);
            static_assert(std::endian::native == std::endian::little);
            totals[uint32_t(two)] += added[lane], totals[two >> 32] += added[lane + 1];
        }
    }
    for (; e < n; ++e) totals[features[e]] += times * double(values[e]);
}
FOR_EACH_PROCESSOR
void add_entries(const int32_t* features, const float* values, int64_t n, double times, double* totals) {
    add_row(features, values, n, times, totals);
}
FOR_EACH_PROCESSOR
void add_entries(const int32_t* features, const double* values, int64_t n, double times, double* totals) {
    add_row(features, values, n, times, totals);
}

}  // namespace

template <class V>
void NodeCenters<V>::find(const NodePoints<V>& points, const std::vector<int32_t>& labels, int k,
                          bool keep_sums) {
    const int64_t n = points.size();
    ends_.assign(k + 1, 0);
    for (int32_t label : labels) ++ends_[label + 1];
    for (int c = 0; c < k; ++c) ends_[c + 1] += ends_[c];
    members_.resize(n);
    for (int64_t i = 0; i < n; ++i) members_[ends_[labels[i]]++] = int32_t(i);
    centers.assign(k, {}), weights.assign(k, 0.0), norms2.assign(k, 0.0);
    sums_.assign(keep_sums ? k : 0, {});
    scratch_.resize(std::max<size_t>(scratch_.size(), size_t(points.n_threads)));
    parallel_blocks(k, points.n_threads, [&](int64_t c, int thread) { find_one(points, int(c), scratch_[thread]); });
}

template <class V>
void NodeCenters<V>::find_one(const NodePoints<V>& points, int c, Scratch& own) {
    const int64_t n_columns = points.rows.n_columns(), first = c == 0 ? 0 : ends_[c - 1], end = ends_[c];
    if (int64_t(own.totals.size()) < n_columns) own.totals.resize(n_columns, 0.0);
    own.occurring.reserve(n_columns);
    double* const totals = own.totals.data();
    const int64_t per_row = points.rows.n_entries() / std::max<int64_t>(points.size(), 1);
    const bool all = kFew * per_row * (end - first) >= n_columns;
    double weight = 0;
    for (int64_t j = first; j < end; ++j) {
        const int64_t i = members_[j];
        points.rows.prefetch(members_[std::min(j + kRowsAhead, points.size() - 1)]);
        const double times = points.weight(i);
        weight += times;
        points.rows.rows(i, 1, [&](const NodeBlock<V>& row) {
            const int64_t begin = row.begin[0];
            add_entries(row.features + begin, row.values + begin, row.begin[1] - begin, times, totals);
            for (int64_t e = row.begin[0]; !all && e < row.begin[1]; ++e) own.occurring.mark(row.features[e]);
        });
    }
    Center& center = centers[c];
    if (all) {
        int64_t size = 0;
        for (int64_t column = 0; column < n_columns; ++column) size += totals[column] != 0;
        center.features.resize(size + 1), center.values.resize(size + 1);
        int64_t at = 0;
        for (int64_t column = 0; column < n_columns; ++column) {
            center.features[at] = int32_t(column), center.values[at] = totals[column];
            at += totals[column] != 0;
        }
        center.features.resize(size), center.values.resize(size);
        std::fill_n(totals, n_columns, 0.0);
    } else {
        own.occurring.take([&](int64_t column) {
            if (totals[column] == 0) return;
            center.features.push_back(int32_t(column)), center.values.push_back(totals[column]);
            totals[column] = 0;
        });
    }
    center.compute_norm();
    norms2[c] = center.norm2, weights[c] = weight;
    if (!sums_.empty()) sums_[c] = center.values;
    const double divisor = points.unit ? std::sqrt(norms2[c]) : weight;
    if (!(divisor > 0)) return;
    for (double& value : center.values) value /= divisor;
    center.compute_norm();
}

template <class V>
std::vector<double> NodeCenters<V>::total(const NodePoints<V>& points) const {
    std::vector<double> found(points.rows.n_features(), 0.0);
    for (size_t c = 0; c < sums_.size(); ++c)
        for (size_t e = 0; e < sums_[c].size(); ++e) found[points.rows.column(centers[c].features[e])] += sums_[c][e];
    return found;
}

template <class V>
std::vector<double> NodeCenters<V>::costs_from_sums(const NodePoints<V>& points,
                                                    const std::vector<int32_t>& labels) const {
    std::vector<double> found(centers.size(), 0.0);
    for (int64_t i = 0; i < points.size(); ++i) found[labels[i]] += points.weight(i) * points.rows.norm2(i);
    for (size_t c = 0; c < centers.size(); ++c) {
        const double total = found[c] + (points.unit ? weights[c] : 0.0);
        const double kept = points.unit ? 2 * std::sqrt(norms2[c]) : weights[c] > 0 ? norms2[c] / weights[c] : 0;
        if (total - kept < kLost * total) return {};
        found[c] = total - kept;
    }
    return found;
}

template <class V>
std::vector<double> NodeCenters<V>::costs_of_rows(const NodePoints<V>& points,
                                                  const std::vector<int32_t>& labels) const {
    std::vector<double> distances(points.size()), found(centers.size(), 0.0);
    parallel_blocks(points.rows.n_blocks(), points.n_threads, [&](int64_t index, int) {
        points.rows.block(index, [&](const NodeBlock<V>& block) {
            for (int64_t i = 0; i < block.n; ++i) {
                const int64_t begin = block.begin[i], at = block.first + i;
                const Row<V, int32_t> row{block.features + begin, block.values + begin, block.begin[i + 1] - begin};
                distances[at] = distance2(row, points.rows.norm2(at), centers[labels[at]]);
            }
        });
    });
    for (int64_t i = 0; i < points.size(); ++i) found[labels[i]] += points.weight(i) * distances[i];
    return found;
}

template class NodeCenters<float>;
template class NodeCenters<double>;

}  // namespace sparsecluster
