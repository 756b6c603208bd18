// Centers: what they hold, how far rows are from them, and what they may be.
#include <nanobind/stl/map.h>

#include <cmath>
#include <map>

#include "bindings/bindings.hpp"
#include "core/exact.hpp"
#include "core/metric.hpp"
#include "index/lookup.hpp"
#include "index/roofline.hpp"
#include "kmeans/projection.hpp"

namespace sparsecluster {

namespace {

void drop_zeros(Center& center) {
    size_t kept = 0;
    for (size_t e = 0; e < center.values.size(); ++e) {
        if (center.values[e] == 0) continue;
        center.features[kept] = center.features[e];
        center.values[kept++] = center.values[e];
    }
    center.features.resize(kept);
    center.values.resize(kept);
}

// Makes a center of row k of these arrays, without zeros, in the memory that it has.
template <class P, class I>
void fill_center(Center& center, const In<P>& indptr, const In<I>& indices, const In<double>& values, int64_t k,
                 int64_t n_features) {
    const int64_t begin = indptr.data()[k], end = indptr.data()[k + 1];
    require(0 <= begin && begin <= end && end <= int64_t(values.size()), "inconsistent CSR arrays");
    const I* features = indices.data();
    bool ascending = true, zeros = false;
    for (int64_t p = begin; p < end; ++p) {
        ascending &= p == begin || features[p] > features[p - 1];
        zeros |= values.data()[p] == 0;
    }
    require(ascending && (begin == end || (features[begin] >= 0 && int64_t(features[end - 1]) < n_features)),
            "the features of a center must be ascending and in range");
    center.features.assign(features + begin, features + end);
    center.values.assign(values.data() + begin, values.data() + end);
    if (zeros) drop_zeros(center);
    center.compute_norm();
    require(std::isfinite(center.norm2), "a center is not finite");
}

template <class P, class I>
Center center_from(const In<P>& indptr, const In<I>& indices, const In<double>& values, int64_t k, int64_t n_features) {
    Center center;
    fill_center(center, indptr, indices, values, k, n_features);
    return center;
}

std::unique_ptr<Centers> centers_from_csr(In<int64_t> indptr, In<int32_t> indices, In<double> values,
                                          int64_t n_features) {
    require(indptr.size() >= 1 && indices.size() == values.size(), "inconsistent CSR arrays");
    auto centers = std::make_unique<Centers>();
    centers->n_features = n_features;
    for (size_t k = 0; k + 1 < indptr.size(); ++k)
        fill_center(centers->items.emplace_back(), indptr, indices, values, int64_t(k), n_features);
    return centers;
}

// The first four arrays are the centers by feature, the next three the centers themselves in CSR.
template <class I>
std::optional<Out<int32_t>> py_look_up(const PyRows& rows, In<int64_t> begin, In<int32_t> clusters,
                                       In<double> list_values, In<double> norm2, In<I> indptr, In<I> indices,
                                       In<double> values, int64_t most_entries) {
    const CentersByFeature lists{int64_t(begin.size()) - 1, int64_t(norm2.size()), int64_t(clusters.size()),
                                 begin.data(),              clusters.data(),       list_values.data(),
                                 norm2.data()};
    require(lists.n_features >= 0 && lists.n_clusters >= 1 && lists.n_entries == int64_t(list_values.size()) &&
                indptr.size() == norm2.size() + 1 && indices.size() == values.size(),
            "inconsistent arrays of centers");
    std::optional<std::vector<int32_t>> labels;
    {
        const GilReleased released;
        labels = look_up(rows.get(), lists, most_entries, [&](int32_t k) {
            return center_from(indptr, indices, values, k, lists.n_features);
        });
    }
    if (!labels) return {};
    return to_numpy(std::move(*labels));
}

template <class I>
void bind_look_up(nb::module_& m) {
    m.def("look_up", &py_look_up<I>, "rows"_a, "begin"_a, "clusters"_a, "list_values"_a, "norm2"_a,
          "indptr"_a.noconvert(), "indices"_a.noconvert(), "values"_a, "most_entries"_a);
}

Centers some_centers(const Centers& centers, In<int64_t> clusters) {
    for (size_t c = 0; c < clusters.size(); ++c)
        require(clusters.data()[c] >= 0 && clusters.data()[c] < centers.size(), "there is no such center");
    Centers some;
    some.n_features = centers.n_features;
    for (size_t c = 0; c < clusters.size(); ++c) some.items.push_back(centers.items[clusters.data()[c]]);
    return some;
}

// A copy where others are in the places of these clusters, or at the end.
Centers replaced_centers(const Centers& centers, In<int64_t> clusters, const Centers& others) {
    require(int64_t(clusters.size()) == others.size() && centers.n_features == others.n_features,
            "one center is needed for each cluster");
    Centers found = centers;
    for (size_t c = 0; c < clusters.size(); ++c) {
        const int64_t k = clusters.data()[c];
        require(k >= 0 && k <= found.size(), "there is no such center");
        if (k == found.size()) found.items.emplace_back();
        found.items[k] = others.items[c];
    }
    return found;
}

std::tuple<Out<int64_t>, Out<int32_t>, Out<double>> centers_to_csr(const Centers& centers) {
    std::vector<int64_t> indptr(1, 0);
    for (const Center& center : centers.items) indptr.push_back(indptr.back() + center.size());
    std::vector<int32_t> indices;
    std::vector<double> values;
    indices.reserve(indptr.back());
    values.reserve(indptr.back());
    for (const Center& center : centers.items) {
        indices.insert(indices.end(), center.features.begin(), center.features.end());
        values.insert(values.end(), center.values.begin(), center.values.end());
    }
    return {to_numpy(std::move(indptr)), to_numpy(std::move(indices)), to_numpy(std::move(values))};
}

Projection projection_of(const std::string& name) {
    if (name == "exact") return Projection::exact;
    if (name == "epsilon") return Projection::epsilon;
    throw std::invalid_argument("unknown projection " + name);
}

// In place; the caller checked that all is finite.
void py_project_l1(InOut<double> values, double radius, const std::string& method, double epsilon) {
    const Projection projection = projection_of(method);
    const GilReleased released;
    std::vector<double> scratch;
    const double theta =
        l1_threshold(values.data(), int64_t(values.size()), radius, projection, epsilon, scratch);
    for (size_t e = 0; theta > 0 && e < values.size(); ++e) values.data()[e] = shrunk(values.data()[e], theta);
}

void check_own(const PyRows& rows, const Centers& centers, const In<int32_t>& labels) {
    require(int64_t(labels.size()) <= rows.get().n_rows(), "more labels than rows");
    require(centers.n_features == rows.get().n_features(), "centers do not fit the rows");
    check_labels(labels.data(), int64_t(labels.size()), centers.size(), 0);
}

// Of the first rows, as many as there are labels.
Out<double> py_own_distances(const PyRows& rows, const Centers& centers, In<int32_t> labels, int n_threads,
                             Weights scales) {
    check_own(rows, centers, labels);
    std::vector<double> out(labels.size());
    const double* const scale = weights_of(scales, int64_t(labels.size()));
    {
        const GilReleased released;
        own_distances(rows.get(), centers, labels.data(), nullptr, int64_t(out.size()), out.data(), n_threads, scale);
    }
    return to_numpy(std::move(out));
}

ExactSum py_exact_cost(const PyRows& rows, const Centers& centers, In<int32_t> labels, Weights weights,
                       int n_threads) {
    check_own(rows, centers, labels);
    const auto n_rows = int64_t(labels.size());
    const double* const w = weights_of(weights, n_rows);
    const GilReleased released;
    return own_cost(rows.get(), centers, labels.data(), w, n_rows, n_threads);
}

double py_own_cost(const PyRows& rows, const Centers& centers, In<int32_t> labels, Weights weights,
                   int n_threads) {
    return py_exact_cost(rows, centers, std::move(labels), std::move(weights), n_threads).value();
}

// The same to be added to that of other rows.
Out<int64_t> py_own_cost_limbs(const PyRows& rows, const Centers& centers, In<int32_t> labels, Weights weights,
                               int n_threads) {
    return limbs_of(py_exact_cost(rows, centers, std::move(labels), std::move(weights), n_threads));
}

template <class Out>
void py_all_distances(const PyRows& rows, const Centers& centers,
                      nb::ndarray<Out, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, int n_threads) {
    require(int64_t(out.shape(0)) == rows.get().n_rows() && int64_t(out.shape(1)) == centers.size() &&
                centers.n_features == rows.get().n_features(),
            "the output does not fit rows and centers");
    const GilReleased released;
    all_distances(rows.get(), centers, out.data(), n_threads);
}

}  // namespace

void bind_centers(nb::module_& m) {
    bind_look_up<int32_t>(m);
    bind_look_up<int64_t>(m);
    nb::class_<Centers>(m, "Centers")
        .def_static("from_csr", &centers_from_csr, "indptr"_a, "indices"_a, "values"_a, "n_features"_a)
        .def("to_csr", &centers_to_csr)
        .def("some", &some_centers, "clusters"_a)
        .def("replaced", &replaced_centers, "clusters"_a, "others"_a)
        .def("copy", [](const Centers& self) { return self; })
        .def("limited",
             [](const Centers& self, const CenterLimit& limit, const std::string& metric) {
                 Centers limited = self;
                 for (Center& center : limited.items) center = center_of(center, metric_named(metric), limit);
                 return limited;
             },
             "limit"_a, "metric"_a)
        .def_prop_ro("n_clusters", &Centers::size)
        .def_ro("n_features", &Centers::n_features)
        .def_prop_ro("nnz", &Centers::nnz)
        .def_prop_ro("norm2", [](const Centers& self) {
            std::vector<double> out;
            for (const Center& center : self.items) out.push_back(center.norm2);
            return to_numpy(std::move(out));
        }, nb::rv_policy::automatic);

    nb::class_<CenterLimit>(m, "CenterLimit")
        .def("__init__",
             [](CenterLimit* self, double l1, const std::string& projection, double epsilon, int64_t nnz) {
                 new (self) CenterLimit{l1, projection_of(projection), epsilon, nnz};
             },
             "l1"_a = CenterLimit().l1, "projection"_a = "epsilon", "epsilon"_a = CenterLimit().epsilon,
             "nnz"_a = CenterLimit().nnz)
        .def_prop_ro("values", [](const CenterLimit& self) {
            return std::make_tuple(self.l1, std::string(self.projection == Projection::exact ? "exact" : "epsilon"),
                                   self.epsilon, self.nnz);
        });
    m.def("project_l1", &py_project_l1, "values"_a.noconvert(), "radius"_a, "method"_a, "epsilon"_a);

    m.def("own_distances", &py_own_distances, "rows"_a, "centers"_a, "labels"_a, "n_threads"_a,
          "scales"_a.none() = nb::none());
    m.def("own_cost", &py_own_cost, "rows"_a, "centers"_a, "labels"_a, "weights"_a.none(), "n_threads"_a);
    m.def("own_cost_limbs", &py_own_cost_limbs, "rows"_a, "centers"_a, "labels"_a, "weights"_a.none(),
          "n_threads"_a);
    m.def("all_distances", &py_all_distances<float>, "rows"_a, "centers"_a, "out"_a.noconvert(), "n_threads"_a);
    m.def("all_distances", &py_all_distances<double>, "rows"_a, "centers"_a, "out"_a.noconvert(), "n_threads"_a);

    m.def("tile_rates",
          [](const PyRows& rows, const Centers& centers, int n_threads) {
              require(centers.n_features == rows.get().n_features() && centers.size() >= 1,
                      "centers do not fit the rows");
              const GilReleased released;
              const TileRates rates = tile_rates(rows.get(), centers, n_threads);
              return std::map<std::string, double>{{"tile", rates.tile},
                                                   {"reads", rates.reads},
                                                   {"cached", rates.cached},
                                                   {"whole", rates.whole},
                                                   {"entries", rates.entries}};
          },
          "rows"_a, "centers"_a, "n_threads"_a);
    m.def("scan_phases",
          [](const PyRows& rows, const Centers& centers, int n_threads) {
              require(centers.n_features == rows.get().n_features() && centers.size() >= 1,
                      "centers do not fit the rows");
              const GilReleased released;
              const ScanPhases phases = scan_phases(rows.get(), centers, n_threads);
              return std::map<std::string, double>{{"index", phases.index},
                                                   {"pack", phases.pack},
                                                   {"lists", phases.lists},
                                                   {"tiles", phases.tiles},
                                                   {"best", phases.best},
                                                   {"head_features", double(phases.head_features)},
                                                   {"tail_entries", double(phases.tail_entries)},
                                                   {"head_share", phases.head_share}};
          },
          "rows"_a, "centers"_a, "n_threads"_a);
}

}  // namespace sparsecluster
