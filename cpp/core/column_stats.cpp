// Compiled without contraction, as exact.cpp.
#include "core/column_stats.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

int64_t rows_at_a_time(const Rows& rows) { return rows_of_block(rows.n_rows(), rows.nnz(rows.n_rows())); }

// Calls visit(number, row, thread) with every row.
template <class Visit>
void for_rows(const Rows& rows, int n_threads, const Visit& visit) {
    const int64_t at_a_time = rows_at_a_time(rows);
    std::optional<TeamScope> team;
    if (rows.streamed()) team.emplace(n_threads);  // for all chunks
    rows.in_chunks(rows.n_rows(), [&](const auto& view, int64_t begin, int64_t end) {
        parallel_blocks((end - begin + at_a_time - 1) / at_a_time, n_threads, [&](int64_t block, int thread) {
            const int64_t first = begin + block * at_a_time, last = std::min(end, first + at_a_time);
            for (int64_t i = first; i < last; ++i) visit(i, view.row(i), thread);
        });
    });
}

// Threads that have work and may have columns of their own: those of all but the first take at most half as much memory as
// the rows, and 64 MB.
int threads_for_columns(const Rows& rows, int n_threads) {
    constexpr int64_t kMostBytes = int64_t(64) << 20;
    const int64_t bytes = rows.n_features() * int64_t(sizeof(ColumnTotals::Column));
    const int64_t of_entry = std::visit(
        [](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            return int64_t(sizeof(typename View::Value)) + (view.indptr ? int64_t(sizeof(typename View::Index)) : 0);
        },
        rows.matrix());
    const int64_t more = std::min(rows.nnz(rows.n_rows()) * of_entry / 2, kMostBytes) / std::max<int64_t>(bytes, 1);
    const int64_t n_blocks = rows.n_rows() / std::max<int64_t>(rows_at_a_time(rows), 1);
    return int(std::clamp<int64_t>(n_threads, 1, std::max<int64_t>(1, std::min(more + 1, n_blocks))));
}

FixedScale sum_scale(const RowRange& all) {
    return FixedScale(all.max_norm * all.max_weight, double(all.n_rows));
}
FixedScale weight_scale(const RowRange& all) { return FixedScale(all.max_weight, double(all.n_rows)); }

}  // namespace

RowRange::RowRange(const Rows& rows, const double* weights) : n_rows(rows.n_rows()), max_norm(rows.max_norm()) {
    if (!weights) return;
    max_weight = 0, min_weight = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < n_rows; ++i) {
        max_weight = std::max(max_weight, weights[i]);
        if (weights[i] > 0) min_weight = std::min(min_weight, weights[i]);
    }
}

void RowRange::add(const RowRange& other) {
    n_rows += other.n_rows;
    max_norm = std::max(max_norm, other.max_norm);
    max_weight = std::max(max_weight, other.max_weight);
    min_weight = std::min(min_weight, other.min_weight);
}

ColumnTotals::ColumnTotals(const Rows& rows, const double* weights, const RowRange& all, int n_threads) {
    n_threads = threads_for_columns(rows, n_threads);
    const FixedScale sums = sum_scale(all), of_weights = weight_scale(all);
    std::vector<ColumnTotals> parts(n_threads);
    for (ColumnTotals& part : parts) part.columns.resize(rows.n_features());
    for_rows(rows, n_threads, [&](int64_t i, const auto& row, int thread) {
        ColumnTotals& part = parts[thread];
        const double w = weights ? weights[i] : 1.0;
        if (weights) part.weight.add(w);
        for (int64_t e = 0; e < row.size; ++e) {
            if (row.values[e] == 0) continue;  // as if it were not stored
            const double value = w * double(row.values[e]);
            Column& column = part.columns[row.features[e]];
            column.count += 1;
            column.max_abs = std::max(column.max_abs, std::abs(value));
            if (value != 0) column.min_abs = std::min(column.min_abs, std::abs(value));
            sums.add(column.sum, value, 1);
            if (weights) of_weights.add(column.stored_weight, w, 1);
        }
    });
    *this = std::move(parts[0]);
    for (int thread = 1; thread < n_threads; ++thread) add(parts[thread]);
    if (!weights) weight.add(double(rows.n_rows()));
}

void ColumnTotals::add(const ColumnTotals& other) {
    if (columns.size() < other.columns.size()) columns.resize(other.columns.size());
    for (size_t f = 0; f < other.columns.size(); ++f) {
        Column& column = columns[f];
        const Column& more = other.columns[f];
        column.count += more.count;
        column.max_abs = std::max(column.max_abs, more.max_abs);
        column.min_abs = std::min(column.min_abs, more.min_abs);
        column.sum.add(more.sum);
        column.stored_weight.add(more.stored_weight);
    }
    weight.add(other.weight);
}

ColumnStats ColumnTotals::stats(const RowRange& all) const {
    const FixedScale sums = sum_scale(all);
    const double total_weight = weight.value();
    ColumnStats stats;
    stats.n_rows = all.n_rows;
    stats.max_weight = all.max_weight;
    stats.min_weight = all.min_weight;
    for (const Column& column : columns) {
        stats.count.push_back(column.count);
        stats.max_abs.push_back(column.max_abs);
        stats.min_abs.push_back(column.min_abs);
        stats.mean.push_back(sums.value(column.sum) / total_weight);
    }
    return stats;
}

void ColumnTotals::finish(ColumnStats& stats, const RowRange& all, bool weighted, const ExactSum& deviations,
                          int64_t n_columns) const {
    const FixedScale of_weights = weight_scale(all);
    const double total_weight = weight.value();
    // Deviations of the stored entries first, then of the zeros: no cancellation.
    stats.scatter = deviations.value();
    for (size_t f = 0; f < columns.size(); ++f) {
        const double zeros = weighted ? std::max(0.0, total_weight - of_weights.value(columns[f].stored_weight))
                                      : double(all.n_rows - columns[f].count);
        stats.scatter += zeros * stats.mean[f] * stats.mean[f];
    }
    stats.mean_variance = stats.scatter / total_weight / double(n_columns);
}

ExactSum deviations(const Rows& rows, const double* weights, const ColumnStats& stats, int n_threads) {
    std::vector<ExactSum> sums(std::max(n_threads, 1));
    for_rows(rows, n_threads, [&](int64_t i, const auto& row, int thread) {
        double inside = 0;
        for (int64_t e = 0; e < row.size; ++e) {
            if (row.values[e] == 0) continue;
            const double deviation = double(row.values[e]) - stats.mean[row.features[e]];
            inside += deviation * deviation;
        }
        sums[thread].add(weights ? weights[i] * inside : inside);
    });
    for (size_t thread = 1; thread < sums.size(); ++thread) sums[0].add(sums[thread]);
    return sums[0];
}

ColumnStats column_stats(const Rows& rows, const double* weights, int n_threads) {
    const RowRange all(rows, weights);
    const ColumnTotals totals(rows, weights, all, n_threads);
    ColumnStats stats = totals.stats(all);
    totals.finish(stats, all, weights != nullptr, deviations(rows, weights, stats, n_threads), rows.n_columns());
    return stats;
}

}  // namespace sparsecluster
