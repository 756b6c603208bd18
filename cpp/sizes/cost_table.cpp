// Compiled without contraction, as exact.cpp: the same costs on every machine.
#include "sizes/cost_table.hpp"

#include <algorithm>
#include <cstring>

#include "core/clones.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

// Centers of a pass: lots of so many, as lanes of vectors.
constexpr int64_t kLanes = 8, kMostLots = 2;
constexpr int64_t kRowsOfBlock = 256;
// As in spread_distance2().
constexpr double kLost = 0x1p-53 / 1e-11;

template <int Bytes>
using Lanes __attribute__((vector_size(Bytes))) = double;
template <int Bytes>
using Bits __attribute__((vector_size(Bytes))) = int64_t;
// Vectors of a lot, and the doubles of a vector.
template <int Bytes>
constexpr int kPieces = int(kLanes * sizeof(double)) / Bytes;
template <int Bytes>
constexpr int kWidth = Bytes / int(sizeof(double));

// An entry that is not zero.
struct GapEntry {
    int64_t feature;
    double value;
};

template <int Bytes, int kVectors>
[[gnu::always_inline]] inline void gaps_of(const GapEntry* entries, int64_t n, const double* spread, double* inside,
                                           double* covered) {
    Lanes<Bytes> in[kVectors] = {}, cover[kVectors] = {};
    for (int64_t e = 0; e < n; ++e) {
        const double* const at = spread + entries[e].feature * kVectors * kWidth<Bytes>;
        for (int v = 0; v < kVectors; ++v) {
            Lanes<Bytes> center;
            std::memcpy(&center, at + v * kWidth<Bytes>, Bytes);
            const Lanes<Bytes> gap = entries[e].value - center;
            in[v] += gap * gap;
            cover[v] += center * center;
        }
    }
    std::memcpy(inside, in, sizeof(in));
    std::memcpy(covered, cover, sizeof(cover));
}

// The same of a row that has all features.
template <int Bytes, int kVectors, class V>
[[gnu::always_inline]] inline void full_gaps_of(const V* values, int64_t n, const double* spread, double* inside) {
    Lanes<Bytes> in[kVectors] = {};
    for (int64_t e = 0; e < n; ++e)
        for (int v = 0; v < kVectors; ++v) {
            Lanes<Bytes> center;
            std::memcpy(&center, spread + (e * kVectors + v) * kWidth<Bytes>, Bytes);
            const Lanes<Bytes> gap = double(values[e]) - center;
            in[v] += gap * gap;
        }
    std::memcpy(inside, in, sizeof(in));
}

template <int Bytes>
[[gnu::always_inline]] inline void add_gaps(int64_t n_lots, const GapEntry* entries, int64_t n, const double* spread,
                                            double* inside, double* covered) {
    if (n_lots == 1) return gaps_of<Bytes, kPieces<Bytes>>(entries, n, spread, inside, covered);
    gaps_of<Bytes, 2 * kPieces<Bytes>>(entries, n, spread, inside, covered);
}

template <int Bytes, class V>
[[gnu::always_inline]] inline void add_full_gaps(int64_t n_lots, const V* values, int64_t n, const double* spread,
                                                 double* inside) {
    if (n_lots == 1) return full_gaps_of<Bytes, kPieces<Bytes>>(values, n, spread, inside);
    full_gaps_of<Bytes, 2 * kPieces<Bytes>>(values, n, spread, inside);
}

// Some centers side by side, by feature.
struct SpreadCenters {
    const Center* centers;
    int64_t count, n_features, lanes;
    const double* spread;
};

// The squared distances of a row to them.
template <class V, class I>
void measure_row(const Row<V, I>& row, const SpreadCenters& some, std::vector<GapEntry>& packed, double* out) {
    double inside[kMostLots * kLanes], covered[kMostLots * kLanes];
    const int64_t n_lots = some.lanes / kLanes;
    if (row.size == some.n_features && std::count(row.values, row.values + row.size, V(0)) == 0) {
        WITH_WIDEST_VECTORS(add_full_gaps<kBytes>(n_lots, row.values, row.size, some.spread, inside));
        std::copy_n(inside, some.count, out);
        return;
    }
    packed.clear();
    for (int64_t e = 0; e < row.size; ++e)
        if (row.values[e] != 0) packed.push_back({int64_t(row.features[e]), double(row.values[e])});
    const auto size = int64_t(packed.size());
    WITH_WIDEST_VECTORS(add_gaps<kBytes>(n_lots, packed.data(), size, some.spread, inside, covered));
    for (int64_t c = 0; c < some.count; ++c) {
        const Center& center = some.centers[c];
        const double sum = inside[c] + (center.norm2 - covered[c]);
        const bool lost = double(center.size()) * kLost * center.norm2 > sum;
        out[c] = lost ? direct_distance2(row, as_row(center)) : sum;
    }
}

// A bit per row: whether any of its values is below that of its label.
template <int Bytes>
[[gnu::always_inline]] inline uint64_t rows_with_lower(const double* costs, int64_t stride, int64_t n,
                                                       const int32_t* labels, const double* prices) {
    uint64_t found = 0;
    for (int64_t i = 0; i < n; ++i, costs += stride) {
        const double own = costs[labels[i]] + prices[labels[i]];
        Bits<Bytes> lower = {};
        for (int64_t k = 0; k < stride; k += kWidth<Bytes>) {
            Lanes<Bytes> cost, price;
            std::memcpy(&cost, costs + k, Bytes);
            std::memcpy(&price, prices + k, Bytes);
            lower |= cost + price < own;
        }
        int64_t any = 0;
        for (int lane = 0; lane < kWidth<Bytes>; ++lane) any |= lower[lane];
        found |= uint64_t(any != 0) << i;
    }
    return found;
}

int64_t stride_for(int64_t n_clusters) { return (n_clusters + kLanes - 1) / kLanes * kLanes; }

}  // namespace

int64_t CostTable::bytes(int64_t n_rows, int64_t n_clusters, int64_t n_features) {
    const int64_t lanes = std::min(stride_for(n_clusters), kMostLots * kLanes);
    return int64_t(sizeof(double)) * (n_rows * stride_for(n_clusters) + n_features * lanes);
}

uint64_t CostTable::with_better(int64_t first, int64_t n, const int32_t* labels,
                                const std::vector<double>& prices) const {
    // Lanes beyond the clusters are out of the question.
    double padded[kMostClusters];
    std::fill(padded + n_clusters_, padded + stride_, INFINITY);
    std::copy_n(prices.data(), n_clusters_, padded);
    uint64_t found = 0;
    WITH_WIDEST_VECTORS(found = rows_with_lower<kBytes>(row(first), stride_, n, labels + first, padded));
    return found;
}

void CostTable::measure(const Rows& rows, const Centers& centers, int n_threads) {
    n_rows_ = rows.n_rows(), n_clusters_ = centers.size(), stride_ = stride_for(n_clusters_);
    costs_.resize(n_rows_ * stride_);
    std::vector<std::vector<GapEntry>> entries(std::max(n_threads, 1));
    for (int64_t first = 0, lanes; first < stride_; first += lanes) {
        lanes = std::min(stride_ - first, kMostLots * kLanes);
        const int64_t count = std::min(n_clusters_ - first, lanes);
        spread_.assign(rows.n_features() * lanes, 0.0);
        for (int64_t c = 0; c < count; ++c) {
            const Center& center = centers.items[first + c];
            for (int64_t e = 0; e < center.size(); ++e) spread_[center.features[e] * lanes + c] = center.values[e];
        }
        const SpreadCenters some{centers.items.data() + first, count, rows.n_features(), lanes, spread_.data()};
        std::visit(
            [&](const auto& view) {
                parallel_blocks((n_rows_ + kRowsOfBlock - 1) / kRowsOfBlock, n_threads, [&](int64_t block, int thread) {
                    std::vector<GapEntry>& packed = entries[thread];
                    const int64_t end = std::min(n_rows_, (block + 1) * kRowsOfBlock);
                    rows.read_ahead(block * kRowsOfBlock, end);
                    for (int64_t i = block * kRowsOfBlock; i < end; ++i)
                        measure_row(view.row(i), some, packed, costs_.data() + i * stride_ + first);
                });
            },
            rows.matrix());
    }
}

}  // namespace sparsecluster
