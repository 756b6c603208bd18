// What the algorithms with bounds share: outward rounding, and the margin that makes skipping safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "centers.hpp"

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

inline std::vector<float> scaled_shift(const std::vector<double>& shift, double scale) {
    std::vector<float> scaled(shift.size());
    for (size_t k = 0; k < shift.size(); ++k) scaled[k] = round_up(shift[k] * scale);
    return scaled;
}

}  // namespace sparsecluster
