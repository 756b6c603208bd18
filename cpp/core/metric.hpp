// The spaces that rows are clustered in: all that differs between them. A space is a struct with these members and a
// place in `Metrics`; nothing else in the core tells one from another.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/centers.hpp"
#include "core/exact.hpp"
#include "core/rounding.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

// What a cluster's share of the cost depends on when single rows come and go.
struct ClusterSize {
    double weight = 0;
    double length = 0;  // of the sum of the rows; where centers have unit length
};

// A center as its sum over a divisor, and the squared norm of that.
struct CenterScale {
    double divisor = 1, norm2 = 0;
};

inline void to_unit_length(Center& center) {
    const double length = std::sqrt(center.norm2);
    for (double& value : center.values) value /= length;
    center.compute_norm();
}

// Squared Euclidean distances; a center is the mean of its rows.
struct Euclidean {
    static constexpr const char* kName = "euclidean";
    // Whether rows (but for those that are zero) and centers have unit length.
    static constexpr bool kUnit = false;
    // Whether the cost is a difference from the scatter about the mean of all rows; else from the sum of baseline().
    static constexpr bool kScatterAboutMean = true;
    static double baseline(double norm2) { return norm2; }

    // Whether a vector of this squared norm can be a center, and a row has a say in one.
    static bool has_place(double) { return true; }
    // Makes a center of a mean whose norm is known.
    static void finish(Center&) {}
    // The center of rows of this count, whose sum has this squared norm.
    static CenterScale scale(double square, double count) {
        const double divisor = count > 0 ? count : 1.0;
        return {divisor, square / divisor / divisor};
    }

    // What a row takes off the cost, on average over a cluster of this mean. `spread` gives the squared distance of
    // a center to the mean of all rows: about that, little cancels.
    template <class Spread>
    static double explained(const Center& center, double /* length of the mean */, const Spread& spread) {
        return spread(center);
    }
    // The same where the center is another than the mean makes.
    template <class Spread>
    static double explained_off_mean(const Center& mean, const Center& center, const Spread& spread) {
        return spread(mean) - shift2(mean, center);
    }

    // By how much the cost changes when a row comes; and what goes with it. Both rise with its squared distance.
    static double of_coming(const ClusterSize& size, double distance2, double, double weight) {
        return weight * size.weight / (size.weight + weight) * distance2;
    }
    static double of_going(const ClusterSize& size, double distance2, double, double weight) {
        return weight * size.weight / (size.weight - weight) * distance2;
    }
    // Moves the centers of two clusters as a row goes from one to the other. False where a center would be lost.
    template <class V, class I>
    static bool exchange(const Row<V, I>& row, double weight, ClusterSize& less, Center& left, ClusterSize& more,
                         Center& right) {
        const double out = weight / (less.weight - weight), in = weight / (more.weight + weight);
        left = combined(1 + out, left, -out, row);
        right = combined(1 - in, right, in, row);
        return true;
    }

    // Bounds are made of distances, rounded outwards; all in the space scaled by `scale`.
    static float above(double distance, double, double) { return round_up(distance); }
    static float below(double distance, double, double) { return round_down(distance); }
    static double distance(double bound, double, double) { return bound; }
};

// Cosines: rows and centers have unit norm (a row may be zero), and the nearest center is the one of the largest cosine.
struct Cosine {
    static constexpr const char* kName = "cosine";
    static constexpr bool kUnit = true;
    static constexpr bool kScatterAboutMean = false;
    static double baseline(double norm2) { return norm2 + 1; }  // were all cosines zero

    static bool has_place(double norm2) { return norm2 > 0; }  // else it has no direction
    static void finish(Center& mean) { to_unit_length(mean); }
    static CenterScale scale(double square, double) { return {std::sqrt(square), 1.0}; }

    // The cosines of a cluster add up to the length of its sum.
    template <class Spread>
    static double explained(const Center&, double length, const Spread&) {
        return 2 * length;
    }
    template <class Spread>
    static double explained_off_mean(const Center& mean, const Center& center, const Spread&) {
        return 2 * dot(as_row(mean), center);
    }

    static double of_coming(const ClusterSize& size, double distance2, double norm2, double weight) {
        return -2 * (std::sqrt(longer2(size, distance2, norm2, weight)) - size.length);
    }
    static double of_going(const ClusterSize& size, double distance2, double norm2, double weight) {
        return -2 * (size.length - std::sqrt(longer2(size, distance2, norm2, -weight)));
    }
    template <class V, class I>
    static bool exchange(const Row<V, I>& row, double weight, ClusterSize& less, Center& left, ClusterSize& more,
                         Center& right) {
        Center left_sum = combined(less.length, left, -weight, row);
        Center right_sum = combined(more.length, right, weight, row);
        if (!(left_sum.norm2 > 0) || !(right_sum.norm2 > 0)) return false;
        less.length = std::sqrt(left_sum.norm2);
        more.length = std::sqrt(right_sum.norm2);
        to_unit_length(left_sum);
        to_unit_length(right_sum);
        left = std::move(left_sum);
        right = std::move(right_sum);
        return true;
    }

    // Bounds are made of angles, whose triangle inequality is the tighter one (Schubert, Lang and Feher 2021).
    static float above(double distance, double norm2, double scale) {
        return float(angle(distance, norm2, scale) + kSlack);
    }
    static float below(double distance, double norm2, double scale) {
        return float(std::max(0.0, angle(distance, norm2, scale) - kSlack));
    }
    static double distance(double bound, double norm2, double scale) {
        if (!std::isfinite(bound)) return bound;
        const double norm = std::sqrt(norm2), sine = std::sin(0.5 * std::min(bound, kPi));
        return scale * std::sqrt((norm - 1) * (norm - 1) + 4 * norm * sine * sine);
    }

private:
    static constexpr double kPi = 3.141592653589793;
    // More than the rounding of an angle to float and of the cosine that it came from.
    static constexpr double kSlack = 0x1p-20;

    static double angle(double distance, double norm2, double scale) {
        if (!(norm2 > 0)) return 0.5 * kPi;
        const double norm = std::sqrt(norm2), d = distance / scale;
        const double sine2 = (d * d - (norm - 1) * (norm - 1)) / (4 * norm);
        return 2 * std::asin(std::sqrt(std::clamp(sine2, 0.0, 1.0)));
    }
    // Squared length of the sum with `weight` times the row added.
    static double longer2(const ClusterSize& size, double distance2, double norm2, double weight) {
        const double cosine = 0.5 * (norm2 + 1 - distance2);
        return std::max(0.0, size.length * size.length + 2 * weight * size.length * cosine +
                                 weight * weight * norm2);
    }
};

enum class Metric { euclidean, cosine };
using Metrics = std::tuple<Euclidean, Cosine>;  // in the same order

// Calls with the space of a metric.
template <size_t kAt = 0, class Call>
auto in_space(Metric metric, const Call& call) {
    if constexpr (kAt + 1 < std::tuple_size_v<Metrics>) {
        if (size_t(metric) != kAt) return in_space<kAt + 1>(metric, call);
    }
    return call(std::tuple_element_t<kAt, Metrics>());
}

inline Metric metric_named(const std::string& name) {
    for (size_t at = 0; at < std::tuple_size_v<Metrics>; ++at)
        if (in_space(Metric(at), [](auto space) { return space.kName; }) == name) return Metric(at);
    throw std::invalid_argument("unknown metric " + name);
}

}  // namespace sparsecluster
