// Totals over shared features of all pairs of rows, and agglomeration.
#include "bindings/bindings.hpp"
#include "bindings/reporter.hpp"
#include "hierarchy/agglomerate.hpp"
#include "hierarchy/feature_lists.hpp"

namespace sparsecluster {

namespace {

struct RowLists {
    FeatureLists lists;
    int64_t n_features;
};

std::unique_ptr<RowLists> py_row_lists(const PyRows& rows) {
    const GilReleased released;
    return std::make_unique<RowLists>(RowLists{lists_of(rows.get(), nullptr), rows.get().n_features()});
}

void py_totals(const RowLists& self, const PyRows& queries, int64_t begin, int64_t end, const std::string& term,
               double p, nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, int n_threads) {
    const Rows& rows = queries.get();
    require(rows.n_features() == self.n_features, "rows of other features");
    require(0 <= begin && begin <= end && end <= rows.n_rows(), "no such rows");
    require(int64_t(out.shape(0)) == end - begin && int64_t(out.shape(1)) == self.lists.n_vectors(),
            "the result has another shape");
    const GilReleased released;
    auto by = [&](const auto& one) { total_terms(one, rows, begin, end, self.lists, out.data(), n_threads); };
    if (term == "product") return by(Product());
    if (term == "manhattan") return by(Manhattan());
    if (term == "minkowski") return by(Minkowski{p});
    if (term == "minimum") return by(Minimum());
    if (term == "mismatch") return by(Mismatch());
    throw std::invalid_argument("unknown term " + term);
}

Out<double> py_pair_powers(const PyRows& x, const PyRows& y, In<int64_t> one, In<int64_t> other, double p,
                           int n_threads) {
    require(one.size() == other.size(), "pairs need two rows each");
    for (size_t k = 0; k < one.size(); ++k)
        require(one.data()[k] >= 0 && one.data()[k] < x.get().n_rows() && other.data()[k] >= 0 &&
                    other.data()[k] < y.get().n_rows(),
                "no such row");
    std::vector<double> out(one.size());
    {
        const GilReleased released;
        pair_powers(x.get(), y.get(), one.data(), other.data(), int64_t(out.size()), p, out.data(), n_threads);
    }
    return to_numpy(std::move(out));
}

std::tuple<Out<int64_t>, Out<int64_t>, Out<double>> py_agglomerate(const PyRows& rows, const std::string& linkage,
                                                                   bool unit, Weights weights, int64_t cache_bytes,
                                                                   int n_threads, const nb::object& progress) {
    const AgglomerateOptions options{linkage_named(linkage), unit,      weights_of(weights, rows.get()),
                                     cache_bytes,            n_threads, reporter<int64_t>(progress)};
    Merges merges;
    {
        const GilReleased released;
        merges = agglomerate(rows.get(), options);
    }
    return {to_numpy(std::move(merges.one)), to_numpy(std::move(merges.other)), to_numpy(std::move(merges.cost))};
}

}  // namespace

void bind_hierarchy(nb::module_& m) {
    nb::class_<RowLists>(m, "RowLists")
        .def("totals", &py_totals, "queries"_a, "begin"_a, "end"_a, "term"_a, "p"_a, "out"_a, "n_threads"_a);
    m.def("row_lists", &py_row_lists, "rows"_a);
    m.def("pair_powers", &py_pair_powers, "x"_a, "y"_a, "one"_a, "other"_a, "p"_a, "n_threads"_a);
    m.def("agglomerate", &py_agglomerate, "rows"_a, "linkage"_a, "unit"_a, "weights"_a.none(), "cache_bytes"_a,
          "n_threads"_a, "progress"_a.none() = nb::none());
}

}  // namespace sparsecluster
