// The distance of two rows in float64, in a fixed order of operations: all that neighbors are decided by. It is the
// same to the bit for dense and sparse rows, and for both orders of a pair.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/exact.hpp"
#include "core/metric.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

// Below this share of its terms a difference is computed feature by feature.
inline constexpr double kNearlyEqual = 0x1p-10;

// Half the squared distance of two rows at unit length, feature by feature.
template <class X, class Y>
double direct_cosine_distance(const X& x, double x_norm, const Y& y, double y_norm) {
    return 0.5 * sum_over_features(x, y, [=](double vx, double vy) {
               const double gap = vx / x_norm - vy / y_norm;
               return gap * gap;
           });
}

// A row spread out over all features, to be compared with many others.
template <class V, class I>
class SpreadRow {
public:
    explicit SpreadRow(int64_t n_features = 0) : values_(n_features, 0.0) {}

    void set(const Row<V, I>& row, double norm2) {
        clear();
        row_ = row;
        norm2_ = norm2;
        norm_ = std::sqrt(norm2);
        for (int64_t e = 0; e < row.size; ++e) values_[row.features[e]] = double(row.values[e]);
    }
    void clear() {
        for (int64_t e = 0; e < row_.size; ++e) values_[row_.features[e]] = 0.0;
        row_ = {nullptr, nullptr, 0};
    }

    // Rows that are zero have no direction: their cosine distance to any other row is one.
    template <class Other>
    double distance(Metric metric, const Other& other, double norm2) const {
        const double product = dot(other);
        if (metric == Metric::euclidean) {
            const double norms = norm2_ + norm2, expanded = norms - 2 * product;
            return std::sqrt(expanded < kNearlyEqual * norms ? direct_distance2(row_, other) : expanded);
        }
        if (!(norm2_ > 0) || !(norm2 > 0)) return 1.0;
        const double norm = std::sqrt(norm2), distance = 1.0 - product / (norm_ * norm);
        if (distance < kNearlyEqual) return direct_cosine_distance(row_, norm_, other, norm);
        return std::min(distance, 2.0);
    }

private:
    // The common features in ascending order; products with zero change no bit of the sum.
    template <class Other>
    double dot(const Other& other) const {
        double sum = 0;
        for (int64_t e = 0; e < other.size; ++e) sum += values_[other.features[e]] * double(other.values[e]);
        return sum;
    }

    std::vector<double> values_;
    Row<V, I> row_{nullptr, nullptr, 0};
    double norm2_ = 0, norm_ = 0;
};

}  // namespace sparsecluster
