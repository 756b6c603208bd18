// Rows, and the statistics of their columns.
#include "bindings/bindings.hpp"
#include "core/column_stats.hpp"
#include "core/give_back.hpp"
#include "core/metric.hpp"

namespace sparsecluster {

namespace {

// A reference to an array, whatever its type.
template <class Array>
nb::ndarray<> keep(const Array& array) {
    return nb::ndarray<>(array.handle());
}

template <class V, class I>
std::unique_ptr<PyRows> sparse_rows(In<int64_t> indptr, In<I> indices, In<V> values, int64_t n_features,
                                    int64_t chunk_bytes, std::optional<int64_t> n_columns) {
    require(indptr.size() >= 1, "indptr is empty");
    require(indices.size() == values.size(), "indices and data differ in length");
    require(n_features <= INT32_MAX, "more than 2^31 - 1 features");
    const int64_t n = int64_t(indptr.size()) - 1;
    require(n <= INT32_MAX, "more than 2^31 - 1 rows");
    require(indptr.data()[n] >= 0 && indptr.data()[n] <= int64_t(values.size()),
            "indptr does not end within the data");
    auto self = std::make_unique<PyRows>();
    self->arrays = {keep(indptr), keep(indices), keep(values)};
    self->rows = std::make_unique<Rows>(
        Matrix<V, I>{n, n_features, indptr.data(), indices.data(), values.data()}, chunk_bytes, n_columns);
    return self;
}

template <class V>
std::unique_ptr<PyRows> dense_rows(nb::ndarray<const V, nb::ndim<2>, nb::c_contig, nb::device::cpu> x,
                                   std::optional<int64_t> n_columns) {
    require(x.shape(0) <= INT32_MAX && x.shape(1) <= INT32_MAX, "more than 2^31 - 1 rows or features");
    auto self = std::make_unique<PyRows>();
    self->arrays = {keep(x)};
    self->all_features.resize(x.shape(1));
    for (size_t f = 0; f < self->all_features.size(); ++f) self->all_features[f] = int32_t(f);
    self->rows = std::make_unique<Rows>(Matrix<V, int32_t>{
        int64_t(x.shape(0)), int64_t(x.shape(1)), nullptr, self->all_features.data(), x.data()}, 0, n_columns);
    return self;
}

template <class V, class I>
void bind_sparse(nb::class_<PyRows>& rows) {
    rows.def_static("sparse", &sparse_rows<V, I>, "indptr"_a, "indices"_a.noconvert(), "values"_a.noconvert(),
                    "n_features"_a, "chunk_bytes"_a = 0, "n_columns"_a = nb::none());
}

template <class V>
void bind_dense(nb::class_<PyRows>& rows) {
    rows.def_static("dense", &dense_rows<V>, "values"_a.noconvert(), "n_columns"_a = nb::none());
}

// Column by column: count; magnitudes, the largest and the smallest; sums, coarse and fine, and those of weights.
using TotalArrays = std::tuple<Out<int64_t>, Out<double>, Out<int64_t>, Out<int64_t>>;
using InTotals = std::tuple<In<int64_t>, In<double>, In<int64_t>, In<int64_t>>;
using RangeFields = std::tuple<int64_t, double, double, double>;

RowRange range_of(const RangeFields& fields) {
    RowRange range;
    std::tie(range.n_rows, range.max_norm, range.max_weight, range.min_weight) = fields;
    return range;
}

TotalArrays totals_arrays(const ColumnTotals& totals) {
    std::vector<int64_t> count, sums;
    std::vector<double> magnitudes;
    const size_t d = totals.columns.size();
    count.reserve(d), magnitudes.reserve(2 * d), sums.reserve(4 * d);
    for (const ColumnTotals::Column& column : totals.columns) {
        count.push_back(column.count);
        magnitudes.insert(magnitudes.end(), {column.max_abs, column.min_abs});
        sums.insert(sums.end(), {column.sum.coarse, column.sum.fine, column.stored_weight.coarse,
                                 column.stored_weight.fine});
    }
    return {to_numpy(std::move(count)), to_numpy(std::move(magnitudes)), to_numpy(std::move(sums)),
            limbs_of(totals.weight)};
}

ColumnTotals totals_of(const InTotals& arrays) {
    const auto& [count, magnitudes, sums, weight] = arrays;
    const size_t d = count.size();
    require(magnitudes.size() == 2 * d && sums.size() == 4 * d, "the arrays of totals contradict each other");
    ColumnTotals totals;
    totals.columns.resize(d);
    for (size_t f = 0; f < d; ++f) {
        const int64_t* const sum = sums.data() + 4 * f;
        totals.columns[f] = {count.data()[f], magnitudes.data()[2 * f], magnitudes.data()[2 * f + 1],
                             {sum[0], sum[1]}, {sum[2], sum[3]}};
    }
    totals.weight = of_limbs(weight);
    return totals;
}

TotalArrays py_merged_totals(const std::vector<InTotals>& parts) {
    ColumnTotals sum;
    for (const InTotals& part : parts) sum.add(totals_of(part));
    return totals_arrays(sum);
}

ColumnStats py_finished(const InTotals& arrays, const RangeFields& range, bool weighted, const In<int64_t>& scatter,
                        int64_t n_columns) {
    const ColumnTotals totals = totals_of(arrays);
    const RowRange all = range_of(range);
    ColumnStats stats = totals.stats(all);
    totals.finish(stats, all, weighted, of_limbs(scatter), n_columns);
    return stats;
}

// The sum of weight * baseline (see metric.hpp), which the cost is a difference from where that is not the scatter.
Out<int64_t> py_baseline(const PyRows& rows, const Weights& weights, const std::string& metric) {
    const double* const w = weights_of(weights, rows.get());
    ExactSum sum;
    in_space(metric_named(metric), [&](auto space) {
        const std::span<const double> norm2 = rows.get().norm2();
        for (size_t i = 0; i < norm2.size(); ++i) sum.add((w ? w[i] : 1.0) * space.baseline(norm2[i]));
    });
    return limbs_of(sum);
}

}  // namespace

void bind_rows(nb::module_& m) {
    nb::class_<PyRows> rows(m, "Rows");
    bind_sparse<float, int32_t>(rows);
    bind_sparse<float, int64_t>(rows);
    bind_sparse<double, int32_t>(rows);
    bind_sparse<double, int64_t>(rows);
    bind_dense<float>(rows);
    bind_dense<double>(rows);
    rows
        .def("inspect",
             [](PyRows& self, int n_threads) {
                 Finding finding;
                 {
                     const GilReleased released;
                     finding = self.rows->inspect(n_threads);
                 }
                 static const char* const names[] = {"none",     "indptr",     "feature_range",
                                                     "unsorted", "not_finite", "overflow",
                                                     "features_checksum", "values_checksum"};
                 return std::make_pair(std::string(names[int(finding.fault)]), finding.row);
             },
             "n_threads"_a)
        .def("take_norms",
             [](PyRows& self, In<double> norm2) {
                 require(int64_t(norm2.size()) == self.get().n_rows(), "one norm per row is needed");
                 return self.rows->take_norms(norm2.data());
             },
             "norm2"_a.noconvert(), nb::keep_alive<1, 2>())
        .def("read_from",
             [](PyRows& self, std::pair<int, int> descriptors, std::pair<int64_t, int64_t> begins,
                In<int64_t> block_ends, In<int64_t> features_checksums, In<int64_t> values_checksums) {
                 const size_t n = block_ends.size();
                 require(!self.rows->sound(), "the rows were inspected before");
                 require(features_checksums.size() == n && values_checksums.size() == n, "one checksum per block");
                 require(n > 0 && block_ends.data()[n - 1] == self.rows->n_rows(), "blocks do not end with the rows");
                 std::vector<StoredBlock> blocks;
                 for (size_t b = 0; b < n; ++b) {
                     require(block_ends.data()[b] >= (b ? block_ends.data()[b - 1] : 0), "blocks do not ascend");
                     blocks.push_back({block_ends.data()[b], {features_checksums.data()[b], values_checksums.data()[b]}});
                 }
                 self.rows->read_from(std::make_shared<EntryFiles>(
                     std::array<int, 2>{descriptors.first, descriptors.second},
                     std::array<int64_t, 2>{begins.first, begins.second}, std::move(blocks)));
             },
             "descriptors"_a, "begins"_a, "block_ends"_a, "features_checksums"_a, "values_checksums"_a)
        .def("select",
             [](const PyRows& self, In<int64_t> ids) {
                 for (size_t i = 0; i < ids.size(); ++i)
                     require(ids.data()[i] >= 0 && ids.data()[i] < self.rows->n_rows(), "no such row");
                 auto selected = std::make_unique<PyRows>();
                 selected->arrays = self.arrays;
                 selected->rows = std::make_unique<Rows>(self.get().select(ids.data(), int64_t(ids.size())));
                 return selected;
             },
             "ids"_a, nb::keep_alive<0, 1>())
        .def_prop_ro("n_rows", [](const PyRows& self) { return self.rows->n_rows(); })
        .def_prop_ro("n_features", [](const PyRows& self) { return self.rows->n_features(); })
        .def_prop_ro("nnz", [](const PyRows& self) { return self.rows->nnz(); })
        .def_prop_ro("max_norm", [](const PyRows& self) { return self.get().max_norm(); })
        .def_prop_ro("norm2", [](nb::handle self) {
            // A view, because there may be many rows; it keeps them alive.
            const Rows& rows = nb::cast<const PyRows&>(self).get();
            return Out<const double>(rows.norm2().data(), {size_t(rows.n_rows())}, self);
        });

    nb::class_<ColumnStats>(m, "ColumnStats")
        .def_ro("mean_variance", &ColumnStats::mean_variance)
        .def_ro("scatter", &ColumnStats::scatter);
    m.def("exact_value", [](In<int64_t> limbs) { return of_limbs(limbs).value(); }, "limbs"_a);
    m.def("exact_limbs", [](In<double> terms) {
        ExactSum sum;
        for (size_t i = 0; i < terms.size(); ++i) sum.add(terms.data()[i]);
        return limbs_of(sum);
    }, "terms"_a);
    m.def("give_back", &give_back);
    m.def("row_range",
          [](const PyRows& rows, Weights weights) {
              const RowRange range(rows.get(), weights_of(weights, rows.get()));
              return RangeFields(range.n_rows, range.max_norm, range.max_weight, range.min_weight);
          },
          "rows"_a, "weights"_a.none());
    m.def("column_totals",
          [](const PyRows& rows, Weights weights, const RangeFields& range, int n_threads) {
              const double* w = weights_of(weights, rows.get());
              ColumnTotals totals;
              {
                  const GilReleased released;
                  totals = ColumnTotals(rows.get(), w, range_of(range), n_threads);
              }
              return totals_arrays(totals);
          },
          "rows"_a, "weights"_a.none(), "all"_a, "n_threads"_a = 1);
    m.def("merge_totals", &py_merged_totals, "parts"_a);
    m.def("deviations",
          [](const PyRows& rows, Weights weights, const ColumnStats& stats, int n_threads) {
              require(int64_t(stats.mean.size()) == rows.get().n_features(), "statistics of other columns");
              const double* w = weights_of(weights, rows.get());
              ExactSum sum;
              {
                  const GilReleased released;
                  sum = deviations(rows.get(), w, stats, n_threads);
              }
              return limbs_of(sum);
          },
          "rows"_a, "weights"_a.none(), "stats"_a, "n_threads"_a = 1);
    m.def("baseline", &py_baseline, "rows"_a, "weights"_a.none(), "metric"_a);
    m.def("stats_of_totals", &py_finished, "totals"_a, "all"_a, "weighted"_a, "deviations"_a, "n_columns"_a);
    m.def("column_stats",
          [](const PyRows& rows, Weights weights, int n_threads) {
              const double* w = weights_of(weights, rows.get());
              const GilReleased released;
              return column_stats(rows.get(), w, n_threads);
          },
          "rows"_a, "weights"_a = nb::none(), "n_threads"_a = 1);
}

}  // namespace sparsecluster
