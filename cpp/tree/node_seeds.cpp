#include "tree/node_seeds.hpp"

#include <algorithm>
#include <limits>

#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kSeedRows = 4;    // per center: rows that seeds are drawn from where there are more
constexpr int64_t kSeedBlock = 64;  // rows that a thread compares with a seed at a time
constexpr double kClose = 1e-8;     // of the norms: a squared distance whose digits are lost in their sum

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

template <class V>
std::vector<int64_t> at_random(const NodePoints<V>& points, int n_seeds, SeededRandom& random) {
    std::vector<int64_t> left;
    for (int64_t i = 0; i < points.size(); ++i)
        if (points.counts(i)) left.push_back(i);
    const int64_t n = std::min<int64_t>(n_seeds, int64_t(left.size()));
    for (int64_t j = 0; j < n; ++j) std::swap(left[j], left[j + random.below(int64_t(left.size()) - j)]);
    left.resize(n);
    return left;
}

}  // namespace

template <class V>
std::vector<int64_t> NodeSeeds<V>::draw(const NodePoints<V>& points, const QuantizedRows* quantized, int n_seeds,
                                        bool plus_plus, bool all, SeededRandom& random) {
    const int64_t n = points.size(), most = kSeedRows * n_seeds;
    std::vector<int64_t> found;
    if (!plus_plus) {
        found = at_random(points, n_seeds, random);
    } else {
        std::vector<int64_t> among(std::min(n, most));
        const double step = double(n) / double(among.size());
        for (int64_t j = 0; j < int64_t(among.size()); ++j)
            among[j] = n <= most ? j : std::min(n - 1, int64_t((double(j) + random.uniform()) * step));
        found = by_distance(points, quantized, n_seeds, among, random);
        if (int64_t(found.size()) < n_seeds && n > most) {
            among.resize(n);
            for (int64_t i = 0; i < n; ++i) among[i] = i;
            found = by_distance(points, quantized, n_seeds, among, random);
        }
    }
    if (found.empty()) found.push_back(0);
    for (int64_t i = 0; all && int64_t(found.size()) < n_seeds; ++i) found.push_back(i % n);
    return found;
}

// k-means++: each row is drawn by its squared distance to the nearest one drawn before.
template <class V>
std::vector<int64_t> NodeSeeds<V>::by_distance(const NodePoints<V>& points, const QuantizedRows* quantized,
                                               int n_seeds, const std::vector<int64_t>& among, SeededRandom& random) {
    const auto n = int64_t(among.size());
    std::vector<double> share(n), nearest(n, std::numeric_limits<double>::infinity());
    for (int64_t j = 0; j < n; ++j) share[j] = points.counts(among[j]) ? points.weight(among[j]) : 0.0;
    if (int64_t(spread_.size()) < points.rows.n_columns()) spread_.resize(points.rows.n_columns(), 0.0);
    std::vector<int64_t> found;
    std::vector<int32_t> columns;
    std::vector<V> values;
    while (int64_t(found.size()) < n_seeds) {
        double total = 0;
        for (double one : share) total += one;
        if (!(total > 0)) break;
        double left = random.uniform() * total;
        int64_t at = -1;
        for (int64_t j = 0; j < n && (at < 0 || left >= 0); ++j)
            if (share[j] > 0) at = j, left -= share[j];
        found.push_back(among[at]);
        if (int64_t(found.size()) == n_seeds) break;
        points.rows.rows(among[at], 1, [&](const NodeBlock<V>& seed) {
            columns.assign(seed.features + seed.begin[0], seed.features + seed.begin[1]);
            values.assign(seed.values + seed.begin[0], seed.values + seed.begin[1]);
        });
        for (size_t e = 0; e < columns.size(); ++e) spread_[columns[e]] = double(values[e]);
        const Row<V, int32_t> seed{columns.data(), values.data(), int64_t(columns.size())};
        auto compare = [&](int64_t j) {
            if (quantized) {
                nearest[j] = std::min(nearest[j], quantized->distance2(among[j], found.back()));
                share[j] = points.weight(among[j]) * nearest[j];
                return;
            }
            points.rows.rows(among[j], 1, [&](const NodeBlock<V>& row) {
                const double norms = points.rows.norm2(among[j]) + points.rows.norm2(found.back());
                double distance2 = norms - 2 * product(row, spread_.data());
                if (distance2 <= kClose * norms) {
                    const int64_t begin = row.begin[0];
                    distance2 = direct_distance2(
                        Row<V, int32_t>{row.features + begin, row.values + begin, row.begin[1] - begin}, seed);
                }
                nearest[j] = std::min(nearest[j], std::max(distance2, 0.0));
            });
            share[j] = points.weight(among[j]) * nearest[j];
        };
        parallel_blocks((n + kSeedBlock - 1) / kSeedBlock, points.n_threads, [&](int64_t block, int) {
            for (int64_t j = block * kSeedBlock; j < std::min(n, (block + 1) * kSeedBlock); ++j)
                if (share[j] != 0) compare(j);
        });
        for (const int32_t column : columns) spread_[column] = 0;
    }
    return found;
}

template class NodeSeeds<float>;
template class NodeSeeds<double>;

}  // namespace sparsecluster
