// Outward rounding of bounds to float.
#pragma once

namespace sparsecluster {

inline constexpr float kUp = 1.0f + 0x1p-22f;
inline constexpr float kDown = 1.0f - 0x1p-22f;

// A float that is not below (not above) a non-negative double.
inline float round_up(double value) { return float(value) * kUp; }
inline float round_down(double value) { return float(value) * kDown; }

}  // namespace sparsecluster
