// What the algorithms with bounds share: outward rounding, and the margin that makes skipping safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/centers.hpp"
#include "kmeans/assign.hpp"

namespace sparsecluster {

inline constexpr float kUp = 1.0f + 0x1p-22f;
inline constexpr float kDown = 1.0f - 0x1p-22f;

// A float that is not below (not above) a non-negative double.
inline float round_up(double value) { return float(value) * kUp; }
inline float round_down(double value) { return float(value) * kDown; }

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

// What bounds are made of: distances, or for unit vectors the angles between them, whose triangle inequality
// is the tighter one (Schubert, Lang and Feher 2021). Distances are those of the scaled space.
class BoundSpace {
public:
    BoundSpace(Metric metric, double scale) : cosine_(metric == Metric::cosine), scale_(scale) {}

    // A bound from above and from below for a row of this squared norm at such a distance from a center.
    float above(double distance, double norm2) const {
        return cosine_ ? float(angle(distance, norm2) + kSlack) : round_up(distance);
    }
    float below(double distance, double norm2) const {
        return cosine_ ? float(std::max(0.0, angle(distance, norm2) - kSlack)) : round_down(distance);
    }
    // The distance that belongs to a bound.
    double distance(double bound, double norm2) const {
        if (!cosine_ || !std::isfinite(bound)) return bound;
        const double norm = std::sqrt(norm2), sine = std::sin(0.5 * std::min(bound, kPi));
        return scale_ * std::sqrt((norm - 1) * (norm - 1) + 4 * norm * sine * sine);
    }
    // How far the centers moved, as a bound from above.
    std::vector<float> shifts(const std::vector<double>& shift) const {
        std::vector<float> bounds(shift.size());
        for (size_t k = 0; k < shift.size(); ++k)
            bounds[k] = shift[k] == 0 ? 0.0f : above(shift[k] * scale_, 1.0);
        return bounds;
    }

private:
    static constexpr double kPi = 3.141592653589793;
    // More than the rounding of an angle to float and of the cosine that it came from.
    static constexpr double kSlack = 0x1p-20;

    double angle(double distance, double norm2) const {
        if (!(norm2 > 0)) return 0.5 * kPi;
        const double norm = std::sqrt(norm2), d = distance / scale_;
        const double sine2 = (d * d - (norm - 1) * (norm - 1)) / (4 * norm);
        return 2 * std::asin(std::sqrt(std::clamp(sine2, 0.0, 1.0)));
    }

    bool cosine_;
    double scale_;
};

}  // namespace sparsecluster
