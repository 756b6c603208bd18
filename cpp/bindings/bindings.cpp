// The Python side of the core: arrays in, arrays out. Arguments are validated in Python (data/rows.py);
// here only what would be memory-unsafe is refused. The GIL is released inside every kernel.
#include <atomic>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "bindings/gil.hpp"
#include "index/roofline.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/minibatch.hpp"
#include "kmeans/projection.hpp"
#include "kmeans/refine.hpp"
#include "kmeans/sums.hpp"
#include "seeding/chain.hpp"
#include "seeding/greedy.hpp"
#include "simd/kernels.hpp"
#include "bindings/turns.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sparsecluster;

void bind_text(nb::module_& m);  // bindings_text.cpp

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using InOut = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = std::optional<In<double>>;

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

template <class T>
nb::object to_numpy(std::vector<T> values) {
    auto* owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

// A reference to an array, whatever its type.
template <class Array>
nb::ndarray<> keep(const Array& array) {
    return nb::ndarray<>(array.handle());
}

// Rows together with the arrays that they look into.
struct PyRows {
    // Those that passed inspection, for the kernels.
    const Rows& get() const {
        require(rows->sound(), "the rows were not inspected, or have a fault");
        return *rows;
    }

    std::unique_ptr<Rows> rows;
    std::vector<nb::ndarray<>> arrays;
    std::vector<int32_t> all_features;

    template <class V, class I>
    static std::unique_ptr<PyRows> sparse(In<int64_t> indptr, In<I> indices, In<V> values,
                                          int64_t n_features, int64_t chunk_bytes,
                                          std::optional<int64_t> n_columns) {
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
    static std::unique_ptr<PyRows> dense(nb::ndarray<const V, nb::ndim<2>, nb::c_contig, nb::device::cpu> x,
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
};

const double* weights_of(const Weights& weights, int64_t n_rows) {
    if (!weights) return nullptr;
    require(int64_t(weights->size()) >= n_rows, "one weight per row is needed");
    return weights->data();
}
const double* weights_of(const Weights& weights, const Rows& rows) { return weights_of(weights, rows.n_rows()); }

void check_labels(const int32_t* labels, int64_t n, int64_t n_clusters, int32_t least) {
    for (int64_t i = 0; i < n; ++i)
        require(labels[i] >= least && labels[i] < n_clusters, "a label is out of range");
}

std::unique_ptr<Centers> centers_from_csr(In<int64_t> indptr, In<int32_t> indices, In<double> values,
                                          int64_t n_features) {
    require(indptr.size() >= 1 && indices.size() == values.size(), "inconsistent CSR arrays");
    auto centers = std::make_unique<Centers>();
    centers->n_features = n_features;
    centers->items.resize(indptr.size() - 1);
    for (size_t k = 0; k < centers->items.size(); ++k) {
        const int64_t begin = indptr.data()[k], end = indptr.data()[k + 1];
        require(0 <= begin && begin <= end && end <= int64_t(values.size()), "inconsistent CSR arrays");
        Center& center = centers->items[k];
        for (int64_t p = begin; p < end; ++p) {
            const int32_t feature = indices.data()[p];
            require(feature >= 0 && feature < n_features &&
                        (p == begin || feature > indices.data()[p - 1]),
                    "the features of a center must be ascending and in range");
            if (values.data()[p] == 0) continue;
            center.features.push_back(feature);
            center.values.push_back(values.data()[p]);
        }
        center.compute_norm();
        require(std::isfinite(center.norm2), "a center is not finite");
    }
    return centers;
}

nb::tuple centers_to_csr(const Centers& centers) {
    std::vector<int64_t> indptr(1, 0);
    std::vector<int32_t> indices;
    std::vector<double> values;
    indices.reserve(centers.nnz());
    values.reserve(centers.nnz());
    for (const Center& center : centers.items) {
        indices.insert(indices.end(), center.features.begin(), center.features.end());
        values.insert(values.end(), center.values.begin(), center.values.end());
        indptr.push_back(int64_t(indices.size()));
    }
    return nb::make_tuple(to_numpy(std::move(indptr)), to_numpy(std::move(indices)),
                          to_numpy(std::move(values)));
}

// Assigner and Sums hold references to their rows, so they keep the Python object alive.
struct PyAssigner {
    PyAssigner(const PyRows& rows, const std::string& algorithm, int n_threads, int64_t head_limit,
               const std::string& metric)
        : rows(rows.get()), n_threads(n_threads) {
        const AssignOptions options{n_threads, metric_named(metric), head_limit};
        if (algorithm == "lloyd")
            assigner = make_lloyd(this->rows, options);
        else if (algorithm == "auto")
            assigner = make_adaptive(this->rows, options);
        else if (algorithm == "hamerly")
            assigner = make_hamerly(this->rows, options);
        else if (algorithm == "elkan")
            assigner = make_elkan(this->rows, options);
        else
            throw std::invalid_argument("unknown algorithm " + algorithm);
    }

    nb::tuple assign(const Centers& centers, In<double> shift, InOut<int32_t> labels) {
        const auto n_rows = int64_t(labels.size());
        require(n_known <= n_rows && n_rows <= rows.n_rows(), "one label per row is needed");
        require(centers.n_features == rows.n_features() && centers.size() >= 1, "centers do not fit the rows");
        require(n_centers < 0 || n_centers == centers.size(), "the number of centers changed");
        if (n_centers >= 0) {
            require(int64_t(shift.size()) == centers.size(), "one shift per center is needed");
            check_labels(labels.data(), n_known, centers.size(), 0);
        }
        n_centers = centers.size();
        n_known = n_rows;
        const std::vector<double> moved_by(shift.data(), shift.data() + shift.size());
        AssignStats stats;
        {
            const GilReleased released;
            TeamScope team(n_threads);
            stats = assigner->assign(centers, moved_by, labels.data(), n_rows);
        }
        return nb::make_tuple(stats.moved, stats.distances, stats.path);
    }

    const Rows& rows;
    int n_threads;
    int64_t n_centers = -1, n_known = 0;
    std::unique_ptr<Assigner> assigner;
};

struct PySums {
    PySums(const PyRows& rows, const ColumnStats& columns, Weights weights, int64_t n_clusters,
           const std::string& metric, const CenterLimit& limit)
        : rows(rows.get()),
          weights(std::move(weights)),
          sums(this->rows, checked(columns), weights_of(this->weights, this->rows), n_clusters,
               metric_named(metric), limit) {}

    const ColumnStats& checked(const ColumnStats& columns) const {
        require(int64_t(columns.count.size()) == rows.n_features(), "statistics of other columns");
        return columns;
    }

    nb::tuple update(In<int32_t> labels, Centers& centers, int n_threads) {
        const auto n_rows = int64_t(labels.size());
        require(sums.n_rows() <= n_rows && n_rows <= rows.n_rows(), "one label per row is needed");
        require(centers.size() == sums.size() && centers.n_features == rows.n_features(),
                "centers do not fit the sums");
        check_labels(labels.data(), n_rows, sums.size(), -1);
        UpdateStats stats;
        {
            const GilReleased released;
            stats = sums.update(labels.data(), n_rows, centers, n_threads);
        }
        return nb::make_tuple(stats.moved, to_numpy(std::move(stats.shift)), stats.cost);
    }

    const Rows& rows;
    Weights weights;
    Sums sums;
};

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

struct PyMiniBatch {
    PyMiniBatch(const Centers& sums, In<double> counts, const std::string& metric, const CenterLimit& limit,
                int64_t head_limit)
        : batch(sums, as_vector(counts, sums), metric_named(metric), limit, head_limit) {}

    static std::vector<double> as_vector(const In<double>& counts, const Centers& sums) {
        require(int64_t(counts.size()) == sums.size() && sums.size() >= 1, "one count a center is needed");
        return {counts.data(), counts.data() + counts.size()};
    }

    // A look at the state: of a batch that is being learned it shows nothing, or all.
    template <class Work>
    auto look(const Work& work) {
        const GilReleased released;
        const Inside inside(mutex);
        return work();
    }

    template <class Work>
    void change(const Work& work) {
        const GilReleased released;
        const Turn turn(turns);
        const Inside inside(mutex);
        work();
        ++version;
    }

    nb::tuple learn(const PyRows& rows, Weights weights, InOut<int32_t> labels, int n_threads) {
        require(int64_t(labels.size()) == rows.get().n_rows(), "one label a row is needed");
        const double* w = weights_of(weights, rows.get());
        BatchStats stats;
        {
            const GilReleased released;
            const Turn turn(turns);
            require(rows.get().n_features() <= batch.n_features(), "the rows have more features");
            TeamScope team(n_threads);
            Batch found = batch.assign(rows.get(), labels.data(), n_threads);
            turn.check();
            const Inside inside(mutex);
            stats = batch.move(std::move(found), rows.get(), w, labels.data(), n_threads);
            ++n_batches;
            rows_since_check += rows.get().n_rows();
            ++version;
        }
        return nb::make_tuple(to_numpy(std::move(stats.shift)), to_numpy(std::move(stats.distance2)));
    }

    // Ends a check for starved centers: puts these where the rows are.
    void place(In<int32_t> clusters, const PyRows& rows, In<int64_t> ids, double count) {
        require(clusters.size() == ids.size(), "one row a cluster is needed");
        check_labels(clusters.data(), int64_t(clusters.size()), batch.size(), 0);
        for (size_t i = 0; i < ids.size(); ++i)
            require(ids.data()[i] >= 0 && ids.data()[i] < rows.get().n_rows(), "no such row");
        change([&] {
            require(rows.get().n_features() <= batch.n_features(), "the rows have more features");
            if (clusters.size() > 0)
                batch.place({clusters.data(), clusters.data() + clusters.size()}, rows.get(), ids.data(), count);
            rows_since_check = 0;
        });
    }

    void widen(int64_t n_features) {
        change([&] {
            require(n_features >= batch.n_features() && n_features <= INT32_MAX, "features cannot go");
            batch.widen(n_features);
        });
    }

    Centers centers() { return look([&] { return batch.centers(); }); }
    int64_t n_features() { return look([&] { return batch.n_features(); }); }
    nb::object counts() { return to_numpy(look([&] { return std::vector<double>(batch.counts()); })); }

    // All that a stream needs to go on, of one moment.
    nb::tuple state() {
        Centers sums;
        std::vector<double> counts, squares;
        int64_t batches = 0, rows = 0;
        look([&] {
            sums = batch.sums();
            counts = batch.counts();
            for (const RunningSquare& square : batch.squares())
                squares.insert(squares.end(), {square.high, square.low, square.error});
            batches = n_batches;
            rows = rows_since_check;
        });
        return nb::make_tuple(std::move(sums), to_numpy(std::move(counts)), to_numpy(std::move(squares)), batches,
                              rows);
    }
    // For one that was just made of the sums and counts of another.
    void resume(In<double> squares, int64_t batches, int64_t rows) {
        require(int64_t(squares.size()) == 3 * batch.size(), "three numbers a cluster are needed");
        for (int64_t k = 0; k < batch.size(); ++k)
            batch.squares()[k] = {squares.data()[3 * k], squares.data()[3 * k + 1], squares.data()[3 * k + 2]};
        n_batches = batches;
        rows_since_check = rows;
    }

    Turns turns;
    std::mutex mutex;
    MiniBatch batch;
    std::atomic<int64_t> n_batches{0}, rows_since_check{0};
    std::atomic<int64_t> version{0};  // counts what changed the centers
};

void check_own(const PyRows& rows, const Centers& centers, const In<int32_t>& labels) {
    require(int64_t(labels.size()) <= rows.get().n_rows(), "more labels than rows");
    require(centers.n_features == rows.get().n_features(), "centers do not fit the rows");
    check_labels(labels.data(), int64_t(labels.size()), centers.size(), 0);
}

// Of the first rows, as many as there are labels.
nb::object py_own_distances(const PyRows& rows, const Centers& centers, In<int32_t> labels, int n_threads) {
    check_own(rows, centers, labels);
    std::vector<double> out(labels.size());
    {
        const GilReleased released;
        own_distances(rows.get(), centers, labels.data(), nullptr, int64_t(out.size()), out.data(), n_threads);
    }
    return to_numpy(std::move(out));
}

double py_own_cost(const PyRows& rows, const Centers& centers, In<int32_t> labels, Weights weights,
                   int n_threads) {
    check_own(rows, centers, labels);
    const auto n_rows = int64_t(labels.size());
    const double* const w = weights_of(weights, n_rows);
    const GilReleased released;
    return own_cost(rows.get(), centers, labels.data(), w, n_rows, n_threads);
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

nb::tuple py_seed(const PyRows& rows, int64_t n_clusters, int64_t first,
                  nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> draws, Weights weights,
                  double floor, int64_t memory_limit, int n_threads) {
    SeedOptions options;
    options.n_clusters = n_clusters;
    options.n_candidates = int64_t(draws.shape(1));
    options.first = first;
    options.draws = draws.data();
    options.weights = weights_of(weights, rows.get());
    options.floor = floor;
    options.memory_limit = memory_limit;
    options.n_threads = n_threads;
    require(int64_t(draws.shape(0)) >= n_clusters - 1 && options.n_candidates >= 1, "too few draws");
    require(first >= 0 && first < rows.get().n_rows(), "the first row is out of range");
    Seeds seeds;
    {
        const GilReleased released;
        seeds = greedy_kmeans_plusplus(rows.get(), options);
    }
    return nb::make_tuple(to_numpy(std::move(seeds.rows)), seeds.potential);
}

int64_t py_first_variation(const PyRows& rows, Weights weights, Centers& centers, InOut<int32_t> labels,
                           const std::string& metric, int64_t head_limit, int n_threads) {
    require(int64_t(labels.size()) == rows.get().n_rows(), "one label a row is needed");
    require(centers.n_features == rows.get().n_features() && centers.size() >= 1, "centers do not fit the rows");
    check_labels(labels.data(), rows.get().n_rows(), centers.size(), 0);
    const double* w = weights_of(weights, rows.get());
    const GilReleased released;
    return first_variation(rows.get(), w, {n_threads, metric_named(metric), head_limit}, centers, labels.data());
}

nb::object py_chain_seeds(const PyRows& rows, int64_t n_clusters, int64_t length, int64_t first, uint64_t seed,
                          Weights weights, double floor, int n_threads) {
    require(n_clusters >= 1 && length >= 1, "at least one center and one step");
    require(first >= 0 && first < rows.get().n_rows(), "the first row is out of range");
    const ChainOptions options{n_clusters, length, first, seed, weights_of(weights, rows.get()), floor, n_threads};
    Seeds seeds;
    {
        const GilReleased released;
        seeds = chain_seeds(rows.get(), options);
    }
    return to_numpy(std::move(seeds.rows));
}

// Lets one thread call off what another one does in the core.
struct StopToken {
    void stop() { flag = true; }
    void watch() const { called_off = &flag; }
    static void unwatch() { called_off = nullptr; }

    std::atomic<bool> flag{false};
};

bool python_interrupt_requested() {
    return with_python([] {
        const PyGILState_STATE state = PyGILState_Ensure();
        const bool requested = PyErr_CheckSignals() != 0;
        PyGILState_Release(state);
        return requested;
    });
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Kernels of sparsecluster.";
    interrupt_requested = python_interrupt_requested;
    prepare_for_forks();
    // A daemon thread may be inside a call when the process ends; what it holds is no leak.
    nb::set_leak_warnings(false);
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const Interrupted&) {
            // PyErr_CheckSignals has set KeyboardInterrupt, or what the user's handler raised.
            if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
        }
    });

    nb::class_<StopToken>(m, "StopToken")
        .def(nb::init<>())
        .def("stop", &StopToken::stop)
        .def("watch", &StopToken::watch)
        .def("unwatch", [](const StopToken&) { StopToken::unwatch(); });
    m.def("simd_level", [] { return std::string(kernels().name); });
    m.def("elkan_bytes", &elkan_bytes, "n_rows"_a, "n_clusters"_a);

    nb::class_<PyRows>(m, "Rows")
        .def_static("sparse", &PyRows::sparse<float, int32_t>, "indptr"_a, "indices"_a.noconvert(),
                    "values"_a.noconvert(), "n_features"_a, "chunk_bytes"_a = 0, "n_columns"_a = nb::none())
        .def_static("sparse", &PyRows::sparse<float, int64_t>, "indptr"_a, "indices"_a.noconvert(),
                    "values"_a.noconvert(), "n_features"_a, "chunk_bytes"_a = 0, "n_columns"_a = nb::none())
        .def_static("sparse", &PyRows::sparse<double, int32_t>, "indptr"_a, "indices"_a.noconvert(),
                    "values"_a.noconvert(), "n_features"_a, "chunk_bytes"_a = 0, "n_columns"_a = nb::none())
        .def_static("sparse", &PyRows::sparse<double, int64_t>, "indptr"_a, "indices"_a.noconvert(),
                    "values"_a.noconvert(), "n_features"_a, "chunk_bytes"_a = 0, "n_columns"_a = nb::none())
        .def_static("dense", &PyRows::dense<float>, "values"_a.noconvert(), "n_columns"_a = nb::none())
        .def_static("dense", &PyRows::dense<double>, "values"_a.noconvert(), "n_columns"_a = nb::none())
        .def("inspect",
             [](PyRows& self, int n_threads) {
                 Finding finding;
                 {
                     const GilReleased released;
                     finding = self.rows->inspect(n_threads);
                 }
                 static const char* const names[] = {"none",     "indptr",     "feature_range",
                                                     "unsorted", "not_finite", "overflow"};
                 return std::make_pair(std::string(names[int(finding.fault)]), finding.row);
             },
             "n_threads"_a)
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
            return nb::cast(nb::ndarray<nb::numpy, const double, nb::ndim<1>>(rows.norm2().data(),
                                                                              {size_t(rows.n_rows())}, self));
        });

    nb::class_<ColumnStats>(m, "ColumnStats")
        .def_ro("mean_variance", &ColumnStats::mean_variance)
        .def_ro("scatter", &ColumnStats::scatter);
    m.def("column_stats",
          [](const PyRows& rows, Weights weights) {
              const double* w = weights_of(weights, rows.get());
              const GilReleased released;
              return column_stats(rows.get(), w);
          },
          "rows"_a, "weights"_a = nb::none());

    nb::class_<Centers>(m, "Centers")
        .def_static("from_csr", &centers_from_csr, "indptr"_a, "indices"_a, "values"_a, "n_features"_a)
        .def("to_csr", &centers_to_csr)
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
        });

    nb::class_<PyAssigner>(m, "Assigner")
        .def(nb::init<const PyRows&, const std::string&, int, int64_t, const std::string&>(), "rows"_a,
             "algorithm"_a, "n_threads"_a, "head_limit"_a, "metric"_a, nb::keep_alive<1, 2>())
        .def("assign", &PyAssigner::assign, "centers"_a, "shift"_a, "labels"_a.noconvert())
        .def("forget", [](PyAssigner& self, int64_t i) {
            require(i >= 0 && i < self.rows.n_rows(), "no such row");
            self.assigner->forget(i);
        }, "row"_a);

    nb::class_<CenterLimit>(m, "CenterLimit")
        .def("__init__",
             [](CenterLimit* self, double l1, const std::string& projection, double epsilon, int64_t nnz) {
                 new (self) CenterLimit{l1, projection_of(projection), epsilon, nnz};
             },
             "l1"_a = CenterLimit().l1, "projection"_a = "epsilon", "epsilon"_a = CenterLimit().epsilon,
             "nnz"_a = CenterLimit().nnz)
        .def_prop_ro("values", [](const CenterLimit& self) {
            return nb::make_tuple(self.l1, self.projection == Projection::exact ? "exact" : "epsilon",
                                  self.epsilon, self.nnz);
        });
    m.def("project_l1", &py_project_l1, "values"_a.noconvert(), "radius"_a, "method"_a, "epsilon"_a);

    nb::class_<PyMiniBatch>(m, "MiniBatch")
        .def(nb::init<const Centers&, In<double>, const std::string&, const CenterLimit&, int64_t>(), "sums"_a,
             "counts"_a, "metric"_a, "limit"_a, "head_limit"_a)
        .def("learn", &PyMiniBatch::learn, "rows"_a, "weights"_a.none(), "labels"_a.noconvert(), "n_threads"_a)
        .def("place", &PyMiniBatch::place, "clusters"_a, "rows"_a, "ids"_a, "count"_a)
        .def("widen", &PyMiniBatch::widen, "n_features"_a)
        .def("centers", &PyMiniBatch::centers)
        .def("state", &PyMiniBatch::state)
        .def("resume", &PyMiniBatch::resume, "squares"_a, "n_batches"_a, "rows_since_check"_a)
        .def_prop_ro("version", [](const PyMiniBatch& self) { return self.version.load(); })
        .def_prop_ro("n_batches", [](const PyMiniBatch& self) { return self.n_batches.load(); })
        .def_prop_ro("rows_since_check", [](const PyMiniBatch& self) { return self.rows_since_check.load(); })
        .def_prop_ro("n_features", &PyMiniBatch::n_features)
        .def_prop_ro("counts", &PyMiniBatch::counts);

    nb::class_<PySums>(m, "Sums")
        .def(nb::init<const PyRows&, const ColumnStats&, Weights, int64_t, const std::string&,
                      const CenterLimit&>(),
             "rows"_a, "columns"_a, "weights"_a.none(), "n_clusters"_a, "metric"_a, "limit"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def_prop_ro("scatter", [](const PySums& self) { return self.sums.scatter(); })
        .def_prop_ro("mean_norm2", [](const PySums& self) { return to_numpy(self.sums.mean_norm2()); })
        .def("update", &PySums::update, "labels"_a, "centers"_a, "n_threads"_a);

    m.def("tile_rates",
          [](const PyRows& rows, const Centers& centers, int n_threads) {
              require(centers.n_features == rows.get().n_features() && centers.size() >= 1,
                      "centers do not fit the rows");
              TileRates rates;
              {
                  const GilReleased released;
                  rates = tile_rates(rows.get(), centers, n_threads);
              }
              nb::dict out;
              out["tile"] = rates.tile;
              out["reads"] = rates.reads;
              out["cached"] = rates.cached;
              out["whole"] = rates.whole;
              out["entries"] = rates.entries;
              return out;
          },
          "rows"_a, "centers"_a, "n_threads"_a);
    m.def("own_distances", &py_own_distances, "rows"_a, "centers"_a, "labels"_a, "n_threads"_a);
    m.def("own_cost", &py_own_cost, "rows"_a, "centers"_a, "labels"_a, "weights"_a.none(), "n_threads"_a);
    m.def("all_distances", &py_all_distances<float>, "rows"_a, "centers"_a, "out"_a.noconvert(), "n_threads"_a);
    m.def("all_distances", &py_all_distances<double>, "rows"_a, "centers"_a, "out"_a.noconvert(), "n_threads"_a);
    m.def("greedy_kmeans_plusplus", &py_seed, "rows"_a, "n_clusters"_a, "first"_a, "draws"_a,
          "weights"_a.none(), "floor"_a, "memory_limit"_a, "n_threads"_a);
    m.def("first_variation", &py_first_variation, "rows"_a, "weights"_a.none(), "centers"_a,
          "labels"_a.noconvert(), "metric"_a, "head_limit"_a, "n_threads"_a);
    m.def("chain_seeds", &py_chain_seeds, "rows"_a, "n_clusters"_a, "length"_a, "first"_a, "seed"_a,
          "weights"_a.none(), "floor"_a, "n_threads"_a);
    bind_text(m);
}
