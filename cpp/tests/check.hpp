// What the files of the check driver share: how a check is noted, data, and naive versions of what the
// kernels compute.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "kmeans/assign.hpp"

namespace sparsecluster {

// Where the checks that follow are, for the line that says that one failed.
inline std::string context;

void check(bool holds, const char* what);

// Each in a file of its name, products of pairs with the trees; with the kernels at this level, and without any.
void check_nested(const char* level);
void check_minibatch(const char* level);
void check_neighbors(const char* level);
void check_index(const char* level);
void check_embedding();
void check_parts();
void check_evaluation();
void check_sizes(const char* level);
void check_pair_products(const char* level);
void check_faults();
void check_files();
void check_hierarchy();
void check_projection();
void check_text();
void check_ties();
void check_threads();
void check_tree();

inline bool close(double a, double b, double scale) { return std::abs(a - b) <= 1e-9 * scale + 1e-300; }

// --- data ---------------------------------------------------------------------------------------

// Rows as a plain array, the naive versions' view of the data.
struct Table {
    int64_t n_rows, n_features;
    std::vector<double> values;

    const double* row(int64_t i) const { return values.data() + i * n_features; }
    double& at(int64_t i, int64_t f) { return values[i * n_features + f]; }
    double largest() const {
        double result = 0;
        for (double value : values) result = std::max(result, std::abs(value));
        return result;
    }
};

struct Recipe {
    const char* name;
    int64_t n_rows, n_features, n_clusters;
    double density;
    double offset = 0;       // added to every stored value
    bool integers = false;   // few different values: many ties
    bool sparse = true;
    bool weighted = false;
};

// Values are rounded to float32, so that every value type holds the same ones.
inline Table make_table(const Recipe& recipe) {
    std::mt19937 random(unsigned(recipe.n_rows * 31 + recipe.n_features));
    std::uniform_real_distribution<double> uniform(0, 1);
    std::normal_distribution<double> normal;
    Table table{recipe.n_rows, recipe.n_features, {}};
    table.values.assign(recipe.n_rows * recipe.n_features, 0.0);
    for (int64_t i = 0; i < recipe.n_rows; ++i) {
        if (recipe.density < 1 && recipe.n_rows > 3 && i % 11 == 0) continue;  // an empty row
        for (int64_t f = 0; f < recipe.n_features; ++f) {
            if (recipe.density < 1 && recipe.n_features > 3 && f % 7 == 3) continue;  // an empty column
            if (uniform(random) >= recipe.density) continue;
            const double value = recipe.integers ? double(random() % 3) - 1 : normal(random);
            table.at(i, f) = double(float(value + recipe.offset));
        }
    }
    return table;
}

// Rows of unit norm, as near as the value type comes to it; those that are zero stay.
template <class V>
void put_on_sphere(Table& table) {
    for (int64_t i = 0; i < table.n_rows; ++i) {
        double* const row = table.values.data() + i * table.n_features;
        double norm2 = 0;
        for (int64_t f = 0; f < table.n_features; ++f) norm2 += row[f] * row[f];
        for (int64_t f = 0; f < table.n_features; ++f) row[f] = norm2 > 0 ? V(row[f] / std::sqrt(norm2)) : 0;
    }
}

// Some of them are zero.
inline std::vector<double> make_weights(int64_t n_rows) {
    std::vector<double> weights(n_rows);
    for (int64_t i = 0; i < n_rows; ++i) weights[i] = double(i % 4) * 0.5;
    return weights;
}

// The same rows in the types of a kernel, and the arrays behind the view.
template <class V, class I>
class Sample {
public:
    Sample(const Table& table, bool sparse) {
        indptr_.push_back(0);
        for (int64_t i = 0; i < table.n_rows; ++i) {
            for (int64_t f = 0; f < table.n_features; ++f) {
                if (sparse && table.row(i)[f] == 0) continue;
                if (sparse || i == 0) features_.push_back(I(f));
                values_.push_back(V(table.row(i)[f]));
            }
            indptr_.push_back(int64_t(values_.size()));
        }
        view_ = {table.n_rows, table.n_features, sparse ? indptr_.data() : nullptr, features_.data(),
                 values_.data()};
    }
    Rows rows(int64_t chunk_bytes = 0) const { return Rows(view_, chunk_bytes); }

private:
    std::vector<int64_t> indptr_;
    std::vector<I> features_;
    std::vector<V> values_;
    Matrix<V, I> view_;
};

inline Center center_at(const double* point, int64_t n_features) {
    Center center;
    for (int64_t f = 0; f < n_features; ++f) {
        if (point[f] == 0) continue;
        center.features.push_back(int32_t(f));
        center.values.push_back(point[f]);
    }
    center.compute_norm();
    return center;
}

// --- naive versions -----------------------------------------------------------------------------

inline std::vector<double> spread(const Center& center, int64_t n_features) {
    std::vector<double> point(n_features, 0.0);
    for (int64_t e = 0; e < center.size(); ++e) point[center.features[e]] = center.values[e];
    return point;
}

inline double squared_distance(const double* a, const double* b, int64_t n) {
    double sum = 0;
    for (int64_t f = 0; f < n; ++f) sum += (a[f] - b[f]) * (a[f] - b[f]);
    return sum;
}

// Squared distances of all rows to all centers.
inline std::vector<double> naive_distances(const Table& table, const Centers& centers) {
    std::vector<double> out(table.n_rows * centers.size());
    for (int64_t k = 0; k < centers.size(); ++k) {
        const std::vector<double> point = spread(centers.items[k], table.n_features);
        for (int64_t i = 0; i < table.n_rows; ++i)
            out[i * centers.size() + k] = squared_distance(table.row(i), point.data(), table.n_features);
    }
    return out;
}

// The lowest index among distances that are equal up to a relative 1e-12.
inline std::vector<int32_t> naive_labels(const std::vector<double>& distance2, int64_t n_centers) {
    std::vector<int32_t> labels;
    for (size_t begin = 0; begin < distance2.size(); begin += n_centers) {
        const auto first = distance2.begin() + begin;
        const double least = *std::min_element(first, first + n_centers);
        auto nearest = [&](double d) { return d <= least * (1 + 1e-12); };
        labels.push_back(int32_t(std::find_if(first, first + n_centers, nearest) - first));
    }
    return labels;
}

// The weighted means of the labelled rows; a cluster without weight keeps its center.
inline Centers naive_means(const Table& table, const std::vector<int32_t>& labels, const double* weights,
                           const Centers& before) {
    Centers means = before;
    for (int64_t k = 0; k < before.size(); ++k) {
        std::vector<double> sum(table.n_features, 0.0);
        double total = 0;
        for (int64_t i = 0; i < table.n_rows; ++i) {
            if (labels[i] != k) continue;
            const double weight = weights ? weights[i] : 1.0;
            total += weight;
            for (int64_t f = 0; f < table.n_features; ++f) sum[f] += weight * table.row(i)[f];
        }
        if (total == 0) continue;
        for (double& value : sum) value /= total;
        means.items[k] = center_at(sum.data(), table.n_features);
    }
    return means;
}

inline bool same_centers(const Table& table, const Centers& a, const Centers& b, double scale) {
    for (int64_t k = 0; k < a.size(); ++k) {
        const std::vector<double> pa = spread(a.items[k], table.n_features);
        const std::vector<double> pb = spread(b.items[k], table.n_features);
        for (int64_t f = 0; f < table.n_features; ++f)
            if (!close(pa[f], pb[f], scale)) return false;
    }
    return true;
}

}  // namespace sparsecluster
