// Sparse centers: projection onto an L1 ball, exactly (Duchi et al. 2008) or to within epsilon (Sculley 2010,
// algorithm 2), and keeping the largest entries only.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/centers.hpp"
#include "core/metric.hpp"

namespace sparsecluster {

enum class Projection { exact, epsilon };

// The theta by which all magnitudes have to shrink (not below zero) to add up to the radius; with `epsilon` to
// something between radius and (1 + epsilon) radius. Zero where they do not add up to more.
double l1_threshold(const double* values, int64_t size, double radius, Projection method, double epsilon,
                    std::vector<double>& scratch);

// A value whose magnitude is less by theta, or zero.
inline double shrunk(double value, double theta) {
    const double left = std::abs(value) - theta;
    return std::copysign(left > 0 ? left : 0.0, value) + 0.0;  // no minus zero
}

// What a center may be.
struct CenterLimit {
    double l1 = std::numeric_limits<double>::infinity();  // sum of its magnitudes
    Projection projection = Projection::epsilon;
    double epsilon = 0.01;
    int64_t nnz = std::numeric_limits<int64_t>::max();  // entries; the largest are kept, of equals the first

    bool active() const { return l1 < std::numeric_limits<double>::infinity() || nnz < INT64_MAX; }
};

// The center that a mean makes in a space where it has a place; within the limit.
Center center_of(Center mean, Metric metric, const CenterLimit& limit);

}  // namespace sparsecluster
