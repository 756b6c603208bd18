// Factors by which rows come to the length one, and the square of a difference of two scaled vectors.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/exact.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

// Where the expanded form |x|^2 + |y|^2 - 2 xy keeps less than this share of |x|^2 + |y|^2, it has lost digits.
inline constexpr double kCancelled = 1e-4;

// Per row: one over its length, or a power of two that keeps squares in range.
inline std::vector<double> row_factors(const Rows& rows, bool unit) {
    std::vector<double> factors(rows.n_rows(), rows.scale());
    for (int64_t i = 0; unit && i < rows.n_rows(); ++i) factors[i] = 1.0 / std::sqrt(rows.norm2()[i]);
    return factors;
}

// |a x - b y|^2, feature by feature.
template <class X, class Y>
double scaled_distance2(double a, const X& x, double b, const Y& y) {
    return sum_over_features(x, y, [=](double vx, double vy) {
        const double gap = a * vx - b * vy;
        return gap * gap;
    });
}

}  // namespace sparsecluster
