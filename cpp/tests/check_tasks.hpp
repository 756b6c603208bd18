// What the checks of parts of the rows share: what centers are made of, and which data go with that.
#pragma once

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/centers.hpp"
#include "core/metric.hpp"
#include "kmeans/projection.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

// What centers are made of their rows.
struct Task {
    const char* name;
    Metric metric = Metric::euclidean;
    bool weighted = false;
    CenterLimit limit = {};
    double lightest = 1;  // times the weight of some rows; fixed point cannot hold all of them
};

inline const Task kTasks[] = {
    {"means"},
    {"weighted means", Metric::euclidean, true},
    {"means of uneven weights", Metric::euclidean, true, {}, 1e-18},
    {"directions", Metric::cosine},
    {"weighted directions", Metric::cosine, true},
    {"means of few entries", Metric::euclidean, true, {2.0, Projection::exact, 0, 4}},
    {"directions of few entries", Metric::cosine, false, {1.2, Projection::epsilon, 0.01, 5}},
};

inline std::vector<int64_t> in_order(int64_t n) {
    std::vector<int64_t> ids(n);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
}

inline std::vector<int64_t> shuffled(int64_t n) {
    std::vector<int64_t> ids = in_order(n);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(5));
    return ids;
}

// The listed rows, with fewer features, or with more that are zero.
inline Table part_of(const Table& table, const std::vector<int64_t>& ids, int64_t n_features) {
    Table part{int64_t(ids.size()), n_features, {}};
    part.values.assign(part.n_rows * n_features, 0.0);
    for (int64_t i = 0; i < part.n_rows; ++i)
        for (int64_t f = 0; f < std::min(n_features, table.n_features); ++f)
            part.at(i, f) = table.row(ids[i])[f];
    return part;
}

// The first rows that can be centers to start from.
inline Centers first_centers(const Table& table, const double* weights, int64_t n_clusters, const Task& task) {
    Centers centers;
    centers.n_features = table.n_features;
    for (int64_t i = 0; i < table.n_rows && centers.size() < n_clusters; ++i) {
        const Center center = center_at(table.row(i), table.n_features);
        if (center.size() == 0 || (weights && weights[i] == 0)) continue;
        centers.items.push_back(center_of(center, task.metric, task.limit));
    }
    return centers;
}

inline double weighted_squares(const Table& table, const double* weights) {
    const std::vector<double> origin(table.n_features, 0.0);
    double sum = 0;
    for (int64_t i = 0; i < table.n_rows; ++i)
        sum += (weights ? weights[i] : 1.0) * squared_distance(table.row(i), origin.data(), table.n_features);
    return sum;
}

inline std::vector<double> moved2(const Centers& before, const Centers& after) {
    std::vector<double> out;
    for (int64_t k = 0; k < before.size(); ++k) {
        const std::vector<double> from = spread(before.items[k], after.n_features);
        const std::vector<double> to = spread(after.items[k], after.n_features);
        out.push_back(squared_distance(from.data(), to.data(), after.n_features));
    }
    return out;
}

inline double length_of(const std::vector<double>& point) {
    double square = 0;
    for (double value : point) square += value * value;
    return std::sqrt(square);
}

inline std::string place_of(const Recipe& recipe, const Task& task, const char* types, const char* level) {
    return std::string(recipe.name) + ", " + task.name + ", " + types + ", " + level;
}

// One of the types, the next one at the next turn.
template <class Run>
void with_types(size_t turn, const Run& run) {
    switch (turn % 4) {
        case 0: return run.template operator()<float, int32_t>("float32 int32");
        case 1: return run.template operator()<double, int64_t>("float64 int64");
        case 2: return run.template operator()<float, int64_t>("float32 int64");
        default: return run.template operator()<double, int32_t>("float64 int32");
    }
}

// Ties are sure to stay only where centers are means; much data takes its time.
inline bool go_together(const Recipe& recipe, const Task& task) {
    const bool large = recipe.n_rows * recipe.n_features > 100000;
    const bool plain = task.metric == Metric::euclidean && !task.limit.active();
    return (plain || !recipe.integers) && (!large || (task.weighted && task.lightest == 1));
}

// Calls run(recipe, task, turn) for what goes together.
template <size_t kRecipes, class Run>
void for_tasks(const Recipe (&recipes)[kRecipes], const Run& run) {
    size_t turn = 0;
    for (const Recipe& recipe : recipes)
        for (const Task& task : kTasks)
            if (go_together(recipe, task)) run(recipe, task, turn++);
}

}  // namespace sparsecluster
