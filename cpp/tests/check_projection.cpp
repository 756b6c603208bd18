// Limits of the centers: projections, and keeping the largest entries.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/check_tasks.hpp"

namespace sparsecluster {

namespace {

// By the definition: sorted magnitudes, and the most of them that stay above the theta which they make.
double naive_threshold(const std::vector<double>& values, double radius) {
    std::vector<double> sorted;
    for (double value : values) sorted.push_back(std::abs(value));
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    double sum = 0, theta = 0;
    for (size_t j = 0; j < sorted.size(); ++j) {
        sum += sorted[j];
        const double next = (sum - radius) / double(j + 1);
        if (sorted[j] > next) theta = next;
    }
    return std::max(theta, 0.0);
}

double shrunk_l1(const std::vector<double>& values, double theta) {
    double sum = 0;
    for (double value : values) sum += std::abs(shrunk(value, theta));
    return sum;
}

void check_threshold(const std::vector<double>& values, double radius) {
    const double exact = naive_threshold(values, radius), l1 = shrunk_l1(values, 0);
    std::vector<double> scratch;
    auto threshold = [&](Projection method, double epsilon) {
        return l1_threshold(values.data(), int64_t(values.size()), radius, method, epsilon, scratch);
    };
    check(close(threshold(Projection::exact, 0), exact, l1), "the threshold of an exact projection differs");
    for (double epsilon : {0.0, 1e-6, 0.01, 0.5}) {
        const double theta = threshold(Projection::epsilon, epsilon), left = shrunk_l1(values, theta);
        check(theta <= exact + 1e-12 * l1, "a projection to within epsilon goes too far");
        check(left <= radius * (1 + epsilon) + 1e-12 * l1, "a projection to within epsilon does not arrive");
        check(theta == 0 || left >= radius - 1e-12 * l1, "a projection to within epsilon falls short");
    }
}

void to_unit_length(std::vector<double>& point) {
    const double length = length_of(point);
    for (double& value : point) value /= length;
}

// How much has to go until the L1 norm of what is left is at most so many times its length.
double naive_unit_threshold(const std::vector<double>& values, double radius) {
    auto fits = [&](double theta) {
        std::vector<double> left = values;
        for (double& value : left) value = shrunk(value, theta);
        return shrunk_l1(left, 0) <= radius * (1 + 1e-12) * length_of(left);
    };
    if (fits(0)) return 0;
    double lower = 0, upper = 0;
    for (double value : values) upper = std::max(upper, std::abs(value));
    for (int step = 0; step < 200; ++step) {
        const double theta = 0.5 * (lower + upper);
        (fits(theta) ? upper : lower) = theta;
    }
    return lower;
}

// Projected, then the largest kept, of equals the first.
std::vector<double> naive_center(std::vector<double> point, Metric metric, const CenterLimit& limit) {
    if (metric == Metric::cosine) to_unit_length(point);
    const double theta =
        metric == Metric::cosine ? naive_unit_threshold(point, limit.l1) : naive_threshold(point, limit.l1);
    for (double& value : point) value = shrunk(value, theta);
    std::vector<int64_t> order = in_order(int64_t(point.size()));
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return std::abs(point[a]) > std::abs(point[b]); });
    for (int64_t j = limit.nnz; j < int64_t(order.size()); ++j) point[order[j]] = 0;
    if (metric == Metric::cosine) to_unit_length(point);
    return point;
}

void check_center(const std::vector<double>& point, Metric metric, const CenterLimit& limit) {
    const int64_t n = int64_t(point.size());
    const Center center = center_of(center_at(point.data(), n), metric, limit);
    const std::vector<double> expected = naive_center(point, metric, limit), found = spread(center, n);
    bool same = true, stored = true;
    for (int64_t f = 0; f < n; ++f) same &= close(found[f], expected[f], length_of(point));
    for (int64_t e = 0; e < center.size(); ++e)
        stored &= center.values[e] != 0 && (e == 0 || center.features[e - 1] < center.features[e]);
    check(same, "a center within limits differs");
    check(stored, "a center within limits stores zeros, or is not in order");
    check(center.size() <= limit.nnz, "a center has more entries than it may");
    check(close(std::sqrt(center.norm2), length_of(found), length_of(point)), "the norm of a center differs");
}

}  // namespace

void check_projection() {
    context = "projection";
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    for (int64_t size : {1, 2, 7, 16, 17, 50, 1000}) {
        for (bool integers : {false, true}) {
            std::vector<double> values(size);
            for (double& value : values) value = integers ? double(random() % 5) - 2 : normal(random);
            values[0] = 3;  // not all are zero
            for (double share : {1e-6, 0.1, 0.5, 0.999, 1.0, 2.0, double(INFINITY)})
                check_threshold(values, share * shrunk_l1(values, 0));
            for (Metric metric : {Metric::euclidean, Metric::cosine})
                for (int64_t nnz : {int64_t(1), int64_t(5), INT64_MAX})
                    for (double radius : {metric == Metric::cosine ? 1.0 : 0.5, 1.5, 4.0, double(INFINITY)})
                        check_center(values, metric, {radius, Projection::exact, 0, nnz});
        }
    }
    check_threshold({}, 1);
    check_threshold({0, 0}, 1);
}

}  // namespace sparsecluster
