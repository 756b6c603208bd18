// Sparse vectors by feature, in float64: what a query adds up with all of them, feature by feature, costs only the
// features that both have. Every sum is made in ascending order of features, by whichever thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/rows.hpp"

namespace sparsecluster {

// What a feature with the values x and y adds to the total of two vectors. All are zero where y is,
// and the same to the bit for y and x.
struct Product {
    double operator()(double x, double y) const { return x * y; }
};
struct Manhattan {
    double operator()(double x, double y) const { return std::abs(x - y) - (std::abs(x) + std::abs(y)); }
};
struct Minkowski {
    double p;
    double operator()(double x, double y) const {
        return std::pow(std::abs(x - y), p) - (std::pow(std::abs(x), p) + std::pow(std::abs(y), p));
    }
};
struct Minimum {  // of values that are not negative
    double operator()(double x, double y) const { return std::min(x, y); }
};
struct Mismatch {  // beyond one for each value that is not zero
    double operator()(double x, double y) const { return y == 0 ? 0 : x == y ? -2 : -1; }
};

class FeatureLists {
public:
    // `visit(note)` calls note(vector, feature, value) for all entries by ascending vector, twice in the same order.
    template <class Visit>
    void build(int64_t n_vectors, int64_t n_features, const Visit& visit) {
        n_vectors_ = n_vectors;
        begin_.assign(n_features + 1, 0);
        visit([&](int64_t, int64_t feature, double value) { begin_[feature + 1] += value != 0; });
        lay_out();
        std::vector<int64_t> at(begin_.begin(), begin_.end() - 1);
        visit([&](int64_t vector, int64_t feature, double value) {
            if (value == 0) return;
            if (column_[feature] >= 0) {
                columns_[column_[feature] * n_vectors_ + vector] = value;
                return;
            }
            vectors_[at[feature]] = int32_t(vector);
            values_[at[feature]++] = value;
        });
    }

    int64_t n_vectors() const { return n_vectors_; }

    // totals[i] += the sum of the terms of the query with vector i, for begin <= i < end.
    template <class Term, class V, class I>
    void add(const Term& term, const Row<V, I>& query, double* totals, int64_t begin, int64_t end) const {
        for (int64_t e = 0; e < query.size; ++e) {
            const double x = double(query.values[e]);
            if (x == 0) continue;
            const auto feature = int64_t(query.features[e]);
            if (column_[feature] >= 0)
                add_column(term, x, columns_.data() + column_[feature] * n_vectors_, totals, begin, end);
            else
                add_list(term, x, begin_[feature], begin_[feature + 1], totals, begin, end);
        }
    }

    // Terms that a query takes, roughly.
    template <class V, class I>
    int64_t work(const Row<V, I>& query) const {
        int64_t total = 0;
        for (int64_t e = 0; e < query.size; ++e) {
            const auto feature = int64_t(query.features[e]);
            total += column_[feature] >= 0 ? n_vectors_ / 4 : begin_[feature + 1] - begin_[feature];
        }
        return total;
    }

private:
    void lay_out();
    static void add_column(Product, double x, const double* column, double* totals, int64_t begin, int64_t end);
    template <class Term>
    static void add_column(const Term& term, double x, const double* column, double* totals, int64_t begin,
                           int64_t end) {
        for (int64_t i = begin; i < end; ++i) totals[i] += term(x, column[i]);
    }
    template <class Term>
    void add_list(const Term& term, double x, int64_t from, int64_t to, double* totals, int64_t begin,
                  int64_t end) const {
        const int32_t* const vectors = vectors_.data();
        if (begin > 0) from = std::lower_bound(vectors + from, vectors + to, begin) - vectors;
        if (end < n_vectors_) to = std::lower_bound(vectors + from, vectors + to, end) - vectors;
        for (int64_t e = from; e < to; ++e) totals[vectors[e]] += term(x, values_[e]);
    }

    int64_t n_vectors_ = 0;
    std::vector<int64_t> begin_;    // per feature, into the lists
    std::vector<int32_t> vectors_;  // ascending within a list
    std::vector<double> values_;
    std::vector<int32_t> column_;   // per feature: which column, where many vectors have it; else -1
    std::vector<double> columns_;
};

// The rows of a matrix by feature, each times its factor (null for 1).
FeatureLists lists_of(const Rows& rows, const double* factors);

// out[q][i] = the sum of the terms of row begin + q with vector i.
template <class Term>
void total_terms(const Term& term, const Rows& queries, int64_t begin, int64_t end, const FeatureLists& lists,
                 double* out, int n_threads);

// The sum of |x - y|^p over all features, for pairs of rows.
void pair_powers(const Rows& x, const Rows& y, const int64_t* one, const int64_t* other, int64_t n_pairs, double p,
                 double* out, int n_threads);

}  // namespace sparsecluster
