// Float64 arithmetic in a fixed order: what the float32 kernels leave in doubt is decided here, so every
// algorithm, thread count and SIMD level gives the same labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/exact_sum.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

// x . c, the common features in ascending order. Searches where the center is much longer than the row.
template <class V, class I>
double dot(const Row<V, I>& row, const Center& center) {
    const int32_t* at = center.features.data();
    const int32_t* const begin = at;
    const int32_t* const end = at + center.size();
    const bool search = center.size() > 16 * row.size;
    double sum = 0;
    for (int64_t e = 0; e < row.size && at < end; ++e) {
        const auto feature = int32_t(row.features[e]);
        if (search)
            at = std::lower_bound(at, end, feature);
        else
            while (at < end && *at < feature) ++at;
        if (at < end && *at == feature) sum += double(row.values[e]) * center.values[at - begin];
    }
    return sum;
}

// The sum of term(value of x, value of y) over the features that either of two sparse vectors has, in ascending order.
// The vectors have features, values and size, as a Row has.
template <class X, class Y, class Term>
double sum_over_features(const X& x, const Y& y, const Term& term) {
    double sum = 0;
    int64_t px = 0, py = 0;
    while (px < x.size || py < y.size) {
        const int64_t fx = px < x.size ? int64_t(x.features[px]) : INT64_MAX;
        const int64_t fy = py < y.size ? int64_t(y.features[py]) : INT64_MAX;
        const double vx = fx <= fy ? double(x.values[px++]) : 0.0;
        const double vy = fy <= fx ? double(y.values[py++]) : 0.0;
        sum += term(vx, vy);
    }
    return sum;
}

// |scale x - y|^2 feature by feature, for pairs so near that the expanded form would lose its digits.
template <class X, class Y>
double direct_distance2(const X& x, const Y& y, double scale = 1.0) {
    return sum_over_features(x, y, [scale](double vx, double vy) {
        const double gap = scale * vx - vy;
        return gap * gap;
    });
}

inline Row<double, int32_t> as_row(const Center& center) {
    return {center.features.data(), center.values.data(), center.size()};
}

// |a - b|^2, made for centers that have most features in common, as those have that moved a little.
inline double shift2(const Center& a, const Center& b) {
    const int64_t n_a = a.size(), n_b = b.size();
    int64_t pa = 0, pb = 0;
    double sum = 0;
    while (pa < n_a && pb < n_b) {
        const int32_t fa = a.features[pa], fb = b.features[pb];
        if (fa == fb) [[likely]] {
            const double gap = a.values[pa++] - b.values[pb++];
            sum += gap * gap;
        } else {
            const double alone = fa < fb ? a.values[pa++] : b.values[pb++];
            sum += alone * alone;
        }
    }
    for (; pa < n_a; ++pa) sum += a.values[pa] * a.values[pa];
    for (; pb < n_b; ++pb) sum += b.values[pb] * b.values[pb];
    return sum;
}

// a * center + b * row.
template <class V, class I>
Center combined(double a, const Center& center, double b, const Row<V, I>& row) {
    Center sum;
    sum.features.reserve(center.size() + row.size);
    sum.values.reserve(center.size() + row.size);
    int64_t c = 0, r = 0;
    while (c < center.size() || r < row.size) {
        const int64_t fc = c < center.size() ? center.features[c] : INT64_MAX;
        const int64_t fr = r < row.size ? int64_t(row.features[r]) : INT64_MAX;
        const double value = (fc <= fr ? a * center.values[c++] : 0.0) +
                             (fr <= fc ? b * double(row.values[r++]) : 0.0);
        if (value == 0) continue;
        sum.features.push_back(int32_t(std::min(fc, fr)));
        sum.values.push_back(value);
    }
    sum.compute_norm();
    return sum;
}

// |scale x - c|^2 with the center spread out over all features. What the center has outside the row's features is
// its norm less the part inside; where these nearly cancel the distance is computed directly. Zeros that are
// stored count as outside, so that dense and sparse rows of the same values give the same bits.
template <class V, class I>
double spread_distance2(const Row<V, I>& row, const double* spread, const Center& center, double scale = 1.0) {
    constexpr double kLost = 0x1p-53 / 1e-11;
    double inside = 0, covered = 0;
    int64_t shared = 0;
    for (int64_t e = 0; e < row.size; ++e) {
        if (row.values[e] == 0) continue;
        const double c = spread[row.features[e]];
        const double gap = scale * double(row.values[e]) - c;
        inside += gap * gap;
        covered += c * c;
        shared += c != 0;
    }
    if (shared == center.size()) return inside;
    const double outside = center.norm2 - covered;
    if (double(center.size()) * kLost * center.norm2 > inside + outside)
        return direct_distance2(row, as_row(center), scale);
    return inside + outside;
}

// |x - c|^2 of one pair: by the product, or directly where that would lose its digits.
template <class V, class I>
double distance2(const Row<V, I>& row, double row_norm2, const Center& center) {
    const double norms = row_norm2 + center.norm2, expanded = norms - 2 * dot(row, center);
    const double error = double(row.size + center.size() + 8) * 0x1p-52 * norms;
    return error > 1e-8 * expanded ? direct_distance2(row, as_row(center)) : expanded;
}

// The nearest of the candidates (ascending indices): by expanded float64 distances where these differ by
// more than their rounding, else by the difference itself, feature by feature. Differences below 1e-12 of
// the terms that make them up are ties, and go to the lowest index. Such ties are not transitive: which of three or
// more wins may change when another one of them goes away. `firm` becomes false where it may.
template <class V, class I>
int32_t settle(const Row<V, I>& row, double row_norm2, const Centers& centers,
               std::vector<int32_t>& candidates, bool* firm = nullptr);

// Squared distance of each listed row to its own center, exact to rounding and never negative.
// `ids` may be null for all rows; out[i] belongs to ids[i]. Rows are multiplied by `scales`, one per row, if there are any.
void own_distances(const Rows& rows, const Centers& centers, const int32_t* labels, const int64_t* ids,
                   int64_t n_ids, double* out, int n_threads, const double* scales = nullptr);

// The weighted sum of the own squared distances of the first rows; `weights` may be null.
ExactSum own_cost(const Rows& rows, const Centers& centers, const int32_t* labels, const double* weights,
                  int64_t n_rows, int n_threads);

// Distances (not squared) of all rows to all centers; Out is float or double, n_rows x n_centers.
template <class Out>
void all_distances(const Rows& rows, const Centers& centers, Out* out, int n_threads);

}  // namespace sparsecluster
