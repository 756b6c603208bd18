// For each row the nearest cluster beside its own, by the mean squared distance to all rows of a cluster: |x - m|^2 plus
// the cluster's spread around its mean m. This is what silhouettes need, without a distance between two rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/exact.hpp"
#include "core/rows.hpp"
#include "index/center_index.hpp"
#include "index/scan.hpp"

namespace sparsecluster {

// The squared distance, in float64, by which clusters are told apart that float32 leaves in doubt.
template <class V, class I>
double deciding_distance2(const Row<V, I>& row, double norm2, const Center& center, double scale = 1.0) {
    const double norms = scale * scale * norm2 + center.norm2;
    const double expanded = norms - 2 * scale * dot(row, center);
    const bool lost = expanded < 0x1p-10 * norms;
    return lost ? direct_distance2(row, as_row(center), scale) : expanded;
}

// Clusters as they are told apart: the score of a row x, x.m - (|m|^2 + spread) / 2, is largest for the nearest one.
struct SpreadClusters {
    std::vector<double> spread;  // added to squared distances; an infinite one leaves the cluster out
    std::vector<double> half;    // taken off products
    double largest = 0;          // of these, if finite

    void set(const Centers& centers, const double* spreads) {
        spread.assign(spreads, spreads + centers.size());
        half.resize(spread.size());
        largest = 0;
        for (size_t k = 0; k < spread.size(); ++k) {
            half[k] = 0.5 * (centers.items[k].norm2 + spread[k]);
            if (half[k] < INFINITY) largest = std::max(largest, half[k]);
        }
    }
};

// A row with the products that a scan found, in units of the data.
struct ScannedProducts {
    const Scanned& scanned;
    double unit;   // of the products
    double norm2;  // of the row

    double score(const SpreadClusters& clusters, int64_t place, int64_t cluster) const {
        return unit * scanned.scores[place] - clusters.half[cluster];
    }
    // Bounds that of scores, and of distances that decide between clusters; a product is no larger than the halves of
    // the two squared norms.
    double error(const SpreadClusters& clusters) const {
        return unit * scanned.error + kRounding * (clusters.largest + norm2);
    }

    static constexpr double kRounding = 1e-14;  // of the terms of a score, in float64
};

// The nearest cluster, or -1, and what no score with another one exceeds.
struct Neighbor {
    int32_t cluster = -1;
    double others = -INFINITY;
};

// The nearest cluster beside a row's own (-1: it has none), the first of equal ones. The products are those of all
// clusters; `scale` is what the row is multiplied by.
template <class V, class I>
Neighbor nearest_beside(int32_t own, const ScannedProducts& found, const Row<V, I>& row, double row_norm2,
                        const Centers& centers, const SpreadClusters& clusters, std::vector<double>& scores,
                        double scale = 1.0) {
    const int64_t n_centers = centers.size();
    const double error = found.error(clusters);
    scores.resize(n_centers);
    for (int64_t k = 0; k < n_centers; ++k) scores[k] = found.score(clusters, k, k);
    if (own >= 0) scores[own] = -INFINITY;
    double best = -INFINITY;
    for (int64_t k = 0; k < n_centers; ++k) best = std::max(best, scores[k]);
    const auto distance2 = [&](int64_t k) {
        return deciding_distance2(row, row_norm2, centers.items[k], scale) + clusters.spread[k];
    };
    Neighbor nearest;
    double least = INFINITY;
    for (int64_t k = 0; k < n_centers; ++k) {
        if (scores[k] == -INFINITY || scores[k] < best - 2 * error) {
            nearest.others = std::max(nearest.others, scores[k] + error);
            continue;
        }
        if (nearest.cluster < 0) {
            nearest.cluster = int32_t(k);
            continue;
        }
        if (least == INFINITY) least = distance2(nearest.cluster);
        const double next = distance2(k);
        const int32_t farther = next < least ? nearest.cluster : int32_t(k);
        if (next < least) least = next, nearest.cluster = int32_t(k);
        nearest.others = std::max(nearest.others, scores[farther] + error);
    }
    return nearest;
}

class NearestCluster {
public:
    // `spread` has a number per center that is added to its squared distances; an infinite one leaves the center out.
    // Rows and centers must outlive this object. SIMD rows of centers take at most `head_limit` bytes.
    NearestCluster(const Rows& rows, const Centers& centers, const double* spread, int64_t head_limit, int n_threads);

    // Rows begin .. end, multiplied by `scales` (may be null). nearest[i - begin] is the center beside that of labels[i]
    // of the least squared distance plus spread, the first of equal ones; -1 where there is none.
    void find(int64_t begin, int64_t end, const double* scales, const int32_t* labels, int32_t* nearest,
              int n_threads) const;

private:
    const Rows& rows_;
    const Centers& centers_;
    SpreadClusters clusters_;
    CenterIndex index_;
};

}  // namespace sparsecluster
