// Scaling by powers of two, which changes no digits.
#pragma once

#include <cmath>

namespace sparsecluster {

// The largest power of two that does not exceed a positive number; 1 for zero.
inline double leading_power(double value) { return value > 0 ? std::ldexp(1.0, std::ilogb(value)) : 1.0; }

}  // namespace sparsecluster
