// Views of rows: CSR, or dense rows seen as CSR rows that store every feature. One code path for both.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace sparsecluster {

template <class V, class I>
struct Row {
    const I* features;  // strictly ascending
    const V* values;
    int64_t size;
};

template <class V, class I>
struct Matrix {
    using Value = V;
    using Index = I;
    int64_t n_rows = 0;
    int64_t n_features = 0;
    const int64_t* indptr = nullptr;  // null for dense rows
    const I* features = nullptr;      // dense rows all share 0, 1, ..., n_features - 1
    const V* values = nullptr;

    Row<V, I> row(int64_t i) const {
        if (!indptr) return {features, values + i * n_features, n_features};
        return {features + indptr[i], values + indptr[i], indptr[i + 1] - indptr[i]};
    }
    // Asks for row i to be brought into the cache.
    void prefetch(int64_t i) const {
        const Row<V, I> ahead = row(i);
        for (int64_t e = 0; e < ahead.size; e += 16) {
            __builtin_prefetch(ahead.features + e);
            __builtin_prefetch(ahead.values + e);
        }
    }
    int64_t nnz() const { return indptr ? indptr[n_rows] : n_rows * n_features; }
};

using AnyMatrix = std::variant<Matrix<float, int32_t>, Matrix<float, int64_t>,
                               Matrix<double, int32_t>, Matrix<double, int64_t>>;

// What is wrong with a matrix, and the row where it was seen first.
enum class Fault { none, indptr, feature_range, unsorted, not_finite, overflow };
struct Finding {
    Fault fault = Fault::none;
    int64_t row = -1;
};

// A matrix that passed inspection, with what every kernel wants to know about its rows.
// The arrays behind the view belong to the caller and must outlive it.
class Rows {
public:
    explicit Rows(AnyMatrix matrix) : matrix(std::move(matrix)) {}

    // Checks the structure and the values, and computes the norms. Call once, before any kernel.
    Finding inspect(int n_threads);

    // Makes room in the scaled space for vectors of this norm (starting centers may lie far away).
    void cover(double norm);

    int64_t n_rows() const;
    int64_t n_features() const;
    int64_t nnz() const;

    AnyMatrix matrix;
    std::vector<double> norm2;  // squared norms, summed in feature order
    double max_norm = 0;
    double scale = 1;  // a power of two that brings the longest vector to a norm of at most one
};

// Per column: stored entries, range of the magnitudes of weight * value, weighted mean; over all columns
// the weighted scatter (sum of squared distances to the mean) and the mean variance.
struct ColumnStats {
    std::vector<int32_t> count;
    std::vector<double> max_abs;
    std::vector<double> min_abs;  // of the non-zero ones
    std::vector<double> mean;
    double scatter = 0;
    double mean_variance = 0;
};
ColumnStats column_stats(const Rows& rows, const double* weights);

}  // namespace sparsecluster
