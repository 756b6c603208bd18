// Distances between centers, as bounds from below: a row that is nearer to its own center than half the way to another
// one cannot be nearer to that.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "core/centers.hpp"
#include "index/scan.hpp"
#include "kmeans/bounds.hpp"

namespace sparsecluster {

// Calls visit(center, bounds) with half the distances of a center to all centers. `index` is one of all centers.
template <class Visit>
void for_half_gaps(const Centers& centers, const CenterIndex& index, const BoundSpace& space, int n_threads,
                   std::vector<ScanScratch>& scratches, const Visit& visit) {
    std::vector<int64_t> indptr(1, 0);
    std::vector<int32_t> features;
    std::vector<double> values;
    for (const Center& center : centers.items) {
        features.insert(features.end(), center.features.begin(), center.features.end());
        values.insert(values.end(), center.values.begin(), center.values.end());
        indptr.push_back(int64_t(features.size()));
    }
    Rows rows(Matrix<double, int32_t>{centers.size(), centers.n_features, indptr.data(), features.data(), values.data()});
    rows.inspect(n_threads);
    scan(rows, index, nullptr, centers.size(), n_threads, scratches, [&](const Scanned& scanned, const auto&, int) {
        std::vector<float> half(centers.size());
        for (size_t k = 0; k < half.size(); ++k)
            half[k] = 0.5f * space.below(scanned.lower(scanned.scores[k]), 1.0);
        visit(scanned.row, half);
    });
}

// All of them, n_centers x n_centers.
inline std::vector<float> half_gaps(const Centers& centers, const CenterIndex& index, const BoundSpace& space,
                                    int n_threads, std::vector<ScanScratch>& scratches) {
    std::vector<float> all(centers.size() * centers.size());
    for_half_gaps(centers, index, space, n_threads, scratches, [&](int64_t k, const std::vector<float>& half) {
        std::copy(half.begin(), half.end(), all.begin() + k * centers.size());
    });
    return all;
}

// s(k) of Elkan and Hamerly: half the distance of each center to the nearest other one.
inline float least_but_own(const std::vector<float>& half, int64_t k) {
    float least = std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < int64_t(half.size()); ++j)
        if (j != k) least = std::min(least, half[j]);
    return least;
}

}  // namespace sparsecluster
