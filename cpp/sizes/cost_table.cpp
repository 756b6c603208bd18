// Compiled without contraction, as exact.cpp: the same costs on every machine.
#include "sizes/cost_table.hpp"

#include <algorithm>
#include <cstring>

#include "core/clones.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

// Centers of a pass, as lanes of vectors.
constexpr int64_t kLanes = 8, kMostVectors = 2;
constexpr int64_t kRowsOfBlock = 256;
// As in spread_distance2().
constexpr double kLost = 0x1p-53 / 1e-11;

using Lanes = double __attribute__((vector_size(64)));

// An entry that is not zero.
struct GapEntry {
    int64_t feature;
    double value;
};

template <int kVectors>
__attribute__((always_inline)) inline void gaps_of(const GapEntry* entries, int64_t n, const double* spread,
                                                   double* inside, double* covered) {
    Lanes in[kVectors] = {}, cover[kVectors] = {};
    for (int64_t e = 0; e < n; ++e) {
        const double* const at = spread + entries[e].feature * kVectors * kLanes;
        for (int v = 0; v < kVectors; ++v) {
            Lanes center;
            std::memcpy(&center, at + v * kLanes, sizeof(Lanes));
            const Lanes gap = entries[e].value - center;
            in[v] += gap * gap;
            cover[v] += center * center;
        }
    }
    std::memcpy(inside, in, sizeof(in));
    std::memcpy(covered, cover, sizeof(cover));
}

// Per center: the squared gaps to a row at its entries, and the squares of the center there.
FOR_EACH_PROCESSOR
void add_gaps(int64_t n_vectors, const GapEntry* entries, int64_t n, const double* spread, double* inside,
              double* covered) {
    if (n_vectors == 1) return gaps_of<1>(entries, n, spread, inside, covered);
    gaps_of<2>(entries, n, spread, inside, covered);
}

int64_t stride_for(int64_t n_clusters) { return (n_clusters + kLanes - 1) / kLanes * kLanes; }

}  // namespace

int64_t CostTable::bytes(int64_t n_rows, int64_t n_clusters, int64_t n_features) {
    const int64_t lanes = std::min(stride_for(n_clusters), kMostVectors * kLanes);
    return int64_t(sizeof(double)) * (n_rows * stride_for(n_clusters) + n_features * lanes);
}

void CostTable::measure(const Rows& rows, const Centers& centers, int n_threads) {
    n_rows_ = rows.n_rows(), n_clusters_ = centers.size(), stride_ = stride_for(n_clusters_);
    costs_.resize(n_rows_ * stride_);
    std::vector<std::vector<GapEntry>> entries(std::max(n_threads, 1));
    for (int64_t first = 0, lanes; first < stride_; first += lanes) {
        lanes = std::min(stride_ - first, kMostVectors * kLanes);
        const int64_t count = std::min(n_clusters_ - first, lanes);
        spread_.assign(rows.n_features() * lanes, 0.0);
        for (int64_t c = 0; c < count; ++c) {
            const Center& center = centers.items[first + c];
            for (int64_t e = 0; e < center.size(); ++e) spread_[center.features[e] * lanes + c] = center.values[e];
        }
        std::visit(
            [&](const auto& view) {
                parallel_blocks((n_rows_ + kRowsOfBlock - 1) / kRowsOfBlock, n_threads, [&](int64_t block, int thread) {
                    std::vector<GapEntry>& packed = entries[thread];
                    const int64_t end = std::min(n_rows_, (block + 1) * kRowsOfBlock);
                    rows.read_ahead(block * kRowsOfBlock, end);
                    for (int64_t i = block * kRowsOfBlock; i < end; ++i) {
                        const auto row = view.row(i);
                        packed.clear();
                        for (int64_t e = 0; e < row.size; ++e)
                            if (row.values[e] != 0) packed.push_back({int64_t(row.features[e]), double(row.values[e])});
                        double inside[kMostVectors * kLanes], covered[kMostVectors * kLanes];
                        add_gaps(lanes / kLanes, packed.data(), int64_t(packed.size()), spread_.data(), inside, covered);
                        const bool everywhere = int64_t(packed.size()) == rows.n_features();
                        double* const out = costs_.data() + i * stride_ + first;
                        for (int64_t c = 0; c < count; ++c) {
                            const Center& center = centers.items[first + c];
                            const double sum = inside[c] + (center.norm2 - covered[c]);
                            if (everywhere)
                                out[c] = inside[c];
                            else if (double(center.size()) * kLost * center.norm2 > sum)
                                out[c] = direct_distance2(row, as_row(center));
                            else
                                out[c] = sum;
                        }
                    }
                });
            },
            rows.matrix());
    }
}

}  // namespace sparsecluster
