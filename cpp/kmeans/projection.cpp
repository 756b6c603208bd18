// Compiled without contraction, as exact.cpp: the thresholds decide what is stored.
#include "kmeans/projection.hpp"

#include <algorithm>
#include <cmath>

#include "core/clones.hpp"

namespace sparsecluster {

namespace {

// What is left of the magnitudes when all shrink by theta. In lanes, so that it is the same sum, and fast, on
// every machine.
FOR_EACH_PROCESSOR
double shrunk_sum(const double* magnitudes, int64_t size, double theta) {
    constexpr int64_t kLanes = 16;
    double lanes[kLanes] = {};
    int64_t e = 0;
    for (; e + kLanes <= size; e += kLanes)
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            const double left = magnitudes[e + lane] - theta;
            lanes[lane] += left > 0 ? left : 0;
        }
    double sum = 0;
    for (double lane : lanes) sum += lane;
    for (; e < size; ++e) sum += std::max(0.0, magnitudes[e] - theta);
    return sum;
}

struct Extent {
    double sum = 0, largest = 0, count = 0;  // of magnitudes; count: of those above zero
};

// Writes the magnitudes of the values, and measures them; in lanes, as above.
FOR_EACH_PROCESSOR
Extent take_magnitudes(const double* values, int64_t size, double* magnitudes) {
    constexpr int64_t kLanes = 16;
    double sums[kLanes] = {}, largest[kLanes] = {}, counts[kLanes] = {};
    int64_t e = 0;
    for (; e + kLanes <= size; e += kLanes)
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            const double value = std::abs(values[e + lane]);
            magnitudes[e + lane] = value;
            sums[lane] += value;
            largest[lane] = largest[lane] < value ? value : largest[lane];
            counts[lane] += value > 0 ? 1.0 : 0.0;
        }
    Extent all;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
        all.sum += sums[lane];
        all.largest = std::max(all.largest, largest[lane]);
        all.count += counts[lane];
    }
    for (; e < size; ++e) {
        const double value = std::abs(values[e]);
        magnitudes[e] = value;
        all.sum += value;
        all.largest = std::max(all.largest, value);
        all.count += value > 0 ? 1.0 : 0.0;
    }
    return all;
}

// Leaves the magnitudes above a bound, in their order.
void keep_above(std::vector<double>& magnitudes, double bound) {
    size_t kept = 0;
    for (double value : magnitudes) {
        // Written in any case: which ones stay is hard to predict.
        magnitudes[kept] = value;
        kept += value > bound;
    }
    magnitudes.resize(kept);
}

// Bisection; any theta will do for which the sum lies within (1 + epsilon). What is not above the lower bound
// never counts again. The bound to start from: all together have to lose what the sum exceeds the radius by.
double epsilon_threshold(std::vector<double>& magnitudes, const Extent& extent, double radius, double epsilon) {
    double upper = extent.largest, lower = (extent.sum - radius) / extent.count * (1 - 0x1p-40);
    keep_above(magnitudes, lower);
    for (;;) {
        const double theta = 0.5 * (upper + lower);
        const double sum = shrunk_sum(magnitudes.data(), int64_t(magnitudes.size()), theta);
        if (sum <= radius * (1 + epsilon) && sum >= radius) return theta;
        // No number between the bounds: as near as float64 comes.
        if (!(theta > lower && theta < upper)) return upper;
        if (sum <= radius) {
            upper = theta;
        } else {
            lower = theta;
            keep_above(magnitudes, lower);
        }
    }
}

// For unit vectors: the theta after which the rest, brought back to unit length, has an L1 norm of the radius, or
// up to (1 + epsilon) times that. Such a vector stays as it is. Never so much that nothing is left.
double unit_threshold(std::vector<double>& magnitudes, const Extent& extent, double radius, double epsilon) {
    double upper = extent.largest, lower = 0;
    for (;;) {
        const double theta = 0.5 * (upper + lower);
        if (!(theta > lower && theta < upper)) return lower;
        double sum = 0, square = 0;
        for (double value : magnitudes) {
            const double left = value > theta ? value - theta : 0.0;
            sum += left;
            square += left * left;
        }
        const double allowed = radius * std::sqrt(square);
        if (sum <= allowed * (1 + epsilon) && sum >= allowed) return theta;
        if (sum <= allowed) {
            upper = theta;
        } else {
            lower = theta;
            keep_above(magnitudes, lower);
        }
    }
}

// The sums above pivots, as in a search for a quantile: linear time on average.
double exact_threshold(std::vector<double>& magnitudes, double radius) {
    auto begin = magnitudes.begin(), end = magnitudes.end();
    double sum = 0, count = 0;  // of those that are known to lie above theta
    uint64_t state = 0x9e3779b97f4a7c15u;
    while (begin != end) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double pivot = begin[int64_t((state >> 33) % uint64_t(end - begin))];
        const auto middle = std::partition(begin, end, [&](double value) { return value >= pivot; });
        double above = 0;
        for (auto at = begin; at != middle; ++at) above += *at;
        const double n_above = double(middle - begin);
        if (sum + above - (count + n_above) * pivot < radius) {
            sum += above;
            count += n_above;
            begin = middle;
        } else {
            end = std::partition(begin, middle, [&](double value) { return value > pivot; });
        }
    }
    // Nothing lies above theta only where the radius is zero.
    if (!(count > 0)) return INFINITY;
    const double theta = (sum - radius) / count;
    // Large magnitudes round the sum by more than a small radius allows. What theta leaves of them is small, and so is
    // the rounding of its sum: that puts theta right.
    double left = 0;
    for (auto at = magnitudes.begin(); at != begin; ++at) left += *at - theta;
    return std::max(0.0, theta + (left - radius) / count);
}

// The value above which at most `count` magnitudes lie.
double nnz_threshold(const std::vector<double>& values, int64_t count, std::vector<double>& scratch) {
    scratch.resize(values.size());
    std::transform(values.begin(), values.end(), scratch.begin(), [](double value) { return std::abs(value); });
    std::nth_element(scratch.begin(), scratch.begin() + count, scratch.end(), std::greater<>());
    return scratch[count];
}

// Keeps the entries for which change(value) answers true; change may alter them.
template <class Change>
void filter(Center& center, const Change& change) {
    size_t kept = 0;
    for (size_t e = 0; e < center.values.size(); ++e) {
        double value = center.values[e];
        if (!change(value)) continue;
        center.features[kept] = center.features[e];
        center.values[kept++] = value;
    }
    center.features.resize(kept);
    center.values.resize(kept);
}

void apply(const CenterLimit& limit, bool unit, Center& center) {
    std::vector<double> scratch;
    double theta = 0;
    if (!unit) {
        theta = l1_threshold(center.values.data(), center.size(), limit.l1, limit.projection, limit.epsilon, scratch);
    } else if (limit.l1 < INFINITY) {
        // An L1 norm that is right to rounding is no reason to shrink again.
        const double epsilon = limit.projection == Projection::epsilon ? limit.epsilon : 1e-12;
        scratch.resize(center.size());
        const Extent extent = take_magnitudes(center.values.data(), center.size(), scratch.data());
        if (extent.sum > limit.l1 * (1 + epsilon)) theta = unit_threshold(scratch, extent, limit.l1, epsilon);
    }
    if (theta > 0)
        filter(center, [&](double& value) {
            value = shrunk(value, theta);
            return value != 0;
        });
    if (center.size() > limit.nnz) {
        const double least = nnz_threshold(center.values, limit.nnz, scratch);
        int64_t equal = limit.nnz;
        for (double value : center.values) equal -= std::abs(value) > least;
        filter(center, [&](double& value) {
            return std::abs(value) > least || (std::abs(value) == least && equal-- > 0);
        });
    }
}

}  // namespace

double l1_threshold(const double* values, int64_t size, double radius, Projection method, double epsilon,
                    std::vector<double>& scratch) {
    if (std::isinf(radius)) return 0;
    scratch.resize(size);
    const Extent extent = take_magnitudes(values, size, scratch.data());
    if (extent.sum <= radius * (method == Projection::epsilon ? 1 + epsilon : 1)) return 0;
    return method == Projection::epsilon ? epsilon_threshold(scratch, extent, radius, epsilon)
                                         : exact_threshold(scratch, radius);
}

Center center_of(Center mean, Metric metric, const CenterLimit& limit) {
    mean.compute_norm();
    in_space(metric, [&](auto space) {
        space.finish(mean);
        if (!limit.active()) return;
        apply(limit, space.kUnit, mean);
        mean.compute_norm();
        space.finish(mean);
    });
    return mean;
}

}  // namespace sparsecluster
