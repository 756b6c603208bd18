// Statistics of the columns, from sums that no partition of the rows changes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/exact_sum.hpp"
#include "core/fixed.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

// How many rows, and the range of their weights. Per column: entries other than zero, range of the magnitudes of
// weight * value, weighted mean; over all columns the weighted scatter (sum of squared distances to the mean) and the
// mean variance. The mean is rounded to a step that depends on the longest row, so it need not have all digits of a
// small column beside large ones; the scatter is about the mean as it is here.
struct ColumnStats {
    int64_t n_rows = 0;
    double max_weight = 1;
    double min_weight = 1;  // of those above zero
    std::vector<int64_t> count;
    std::vector<double> max_abs;
    std::vector<double> min_abs;  // of the non-zero ones
    std::vector<double> mean;
    double scatter = 0;
    double mean_variance = 0;
};

// What is to be known of all rows, wherever they are, before columns are added up.
struct RowRange {
    int64_t n_rows = 0;
    double max_norm = 0;
    double max_weight = 1;
    double min_weight = 1;

    RowRange() = default;
    RowRange(const Rows& rows, const double* weights);
    void add(const RowRange& other);
};

// The columns of some rows. Totals of several parts of the rows add up to those of all.
struct ColumnTotals {
    struct Column {
        int64_t count = 0;
        double max_abs = 0;
        double min_abs = std::numeric_limits<double>::infinity();
        FixedSum sum;            // of weight * value
        FixedSum stored_weight;  // of the rows with an entry other than zero; not used where rows have no weights
    };
    std::vector<Column> columns;
    ExactSum weight;

    ColumnTotals() = default;
    ColumnTotals(const Rows& rows, const double* weights, const RowRange& all, int n_threads = 1);
    void add(const ColumnTotals& other);
    // The statistics of all rows, but for what needs deviations from the mean.
    ColumnStats stats(const RowRange& all) const;
    // The rest: with the deviations of all rows, summed up by `deviations`.
    void finish(ColumnStats& stats, const RowRange& all, bool weighted, const ExactSum& deviations,
                int64_t n_columns) const;
};

// The weighted squared deviations from the mean of the entries that are not zero.
ExactSum deviations(const Rows& rows, const double* weights, const ColumnStats& stats, int n_threads = 1);

// All of it, for rows that are all here.
ColumnStats column_stats(const Rows& rows, const double* weights, int n_threads = 1);

}  // namespace sparsecluster
