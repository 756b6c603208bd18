// Scaling by powers of two, which changes no digits.
#pragma once

#include <cmath>

namespace sparsecluster {

// The power of two by which a positive number becomes one from 1 to 2; 1 for zero.
inline double leading_power(double value) { return value > 0 ? std::ldexp(1.0, std::ilogb(value)) : 1.0; }

}  // namespace sparsecluster
