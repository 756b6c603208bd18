// What the algorithms with bounds share: the bounds of a space, and the margin that makes skipping safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/centers.hpp"
#include "core/metric.hpp"
#include "core/rounding.hpp"

namespace sparsecluster {

// By how much a lower bound must exceed an upper one before a center is skipped: more than the window in
// which settle() looks at differences, so that skipping never changes which centers it gets to see.
struct Margin {
    Margin(const Centers& centers, double scale) : scale(scale) {
        for (const Center& center : centers.items) {
            max_norm = std::max(max_norm, std::sqrt(center.norm2) * scale);
            max_size = std::max(max_size, center.size());
        }
    }
    double operator()(double norm2, int64_t row_size) const {
        return (std::sqrt(norm2) * scale + max_norm) * std::sqrt(double(row_size + max_size + 16) * 0x1p-50);
    }
    double scale;
    double max_norm = 0;
    int64_t max_size = 0;
};

// Bounds of the distances in a space (metric.hpp). Distances are those of the scaled space.
class BoundSpace {
public:
    BoundSpace(Metric metric, double scale) : metric_(metric), scale_(scale) {}

    // A bound from above and from below for a row of this squared norm at such a distance from a center.
    float above(double distance, double norm2) const {
        return in_space(metric_, [&](auto space) { return space.above(distance, norm2, scale_); });
    }
    float below(double distance, double norm2) const {
        return in_space(metric_, [&](auto space) { return space.below(distance, norm2, scale_); });
    }
    // The distance that belongs to a bound.
    double distance(double bound, double norm2) const {
        return in_space(metric_, [&](auto space) { return space.distance(bound, norm2, scale_); });
    }
    // How far the centers moved, as a bound from above.
    std::vector<float> shifts(const std::vector<double>& shift) const {
        std::vector<float> bounds(shift.size());
        for (size_t k = 0; k < shift.size(); ++k)
            bounds[k] = shift[k] == 0 ? 0.0f : above(shift[k] * scale_, 1.0);
        return bounds;
    }

private:
    Metric metric_;
    double scale_;
};

}  // namespace sparsecluster
