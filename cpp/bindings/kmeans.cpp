// Assignment and update, the two halves of an iteration; and single moves.
#include "bindings/bindings.hpp"
#include "core/parallel.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/refine.hpp"
#include "kmeans/sums.hpp"

namespace sparsecluster {

namespace {

// Assigner and Sums hold references to their rows, so they keep the Python object alive.
struct PyAssigner {
    PyAssigner(const PyRows& rows, const std::string& algorithm, int n_threads, int64_t head_limit,
               const std::string& metric)
        : rows(rows.get()), n_threads(n_threads) {
        const AssignOptions options{n_threads, metric_named(metric), head_limit};
        assigner = algorithm_named(algorithm).make(this->rows, options);
    }

    AssignStats assign(const Centers& centers, In<double> shift, InOut<int32_t> labels) {
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
        const GilReleased released;
        TeamScope team(n_threads);
        return assigner->assign(centers, moved_by, labels.data(), n_rows);
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

    std::tuple<int64_t, Out<double>, double> update(In<int32_t> labels, Centers& centers, int n_threads) {
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
        return {stats.moved, to_numpy(std::move(stats.shift)), stats.cost};
    }

    const Rows& rows;
    Weights weights;
    Sums sums;
};

int64_t py_first_variation(const PyRows& rows, Weights weights, Centers& centers, InOut<int32_t> labels,
                           const std::string& metric, int64_t head_limit, int n_threads) {
    require(int64_t(labels.size()) == rows.get().n_rows(), "one label a row is needed");
    require(centers.n_features == rows.get().n_features() && centers.size() >= 1, "centers do not fit the rows");
    check_labels(labels.data(), rows.get().n_rows(), centers.size(), 0);
    const double* w = weights_of(weights, rows.get());
    const GilReleased released;
    return first_variation(rows.get(), w, {n_threads, metric_named(metric), head_limit}, centers, labels.data());
}

}  // namespace

void bind_kmeans(nb::module_& m) {
    nb::list names;
    for (const Algorithm* algorithm : kAlgorithms) names.append(algorithm->name);
    m.attr("ALGORITHMS") = nb::tuple(names);
    m.def(
        "assigner_bytes",
        [](const std::string& algorithm, int64_t n_rows, int64_t n_centers) {
            return algorithm_named(algorithm).bytes(n_rows, n_centers);
        },
        "algorithm"_a, "n_rows"_a, "n_clusters"_a);
    nb::class_<AssignStats>(m, "AssignStats")
        .def_ro("moved", &AssignStats::moved)
        .def_ro("distances", &AssignStats::distances)
        .def_prop_ro("path", [](const AssignStats& self) { return std::string(self.path); })
        .def_ro("skipped", &AssignStats::skipped)
        .def_ro("center_distances", &AssignStats::center_distances);

    nb::class_<PyAssigner>(m, "Assigner")
        .def(nb::init<const PyRows&, const std::string&, int, int64_t, const std::string&>(), "rows"_a,
             "algorithm"_a, "n_threads"_a, "head_limit"_a, "metric"_a, nb::keep_alive<1, 2>())
        .def("assign", &PyAssigner::assign, "centers"_a, "shift"_a, "labels"_a.noconvert())
        .def("forget", [](PyAssigner& self, int64_t i) {
            require(i >= 0 && i < self.rows.n_rows(), "no such row");
            self.assigner->forget(i);
        }, "row"_a);

    nb::class_<PySums>(m, "Sums")
        .def(nb::init<const PyRows&, const ColumnStats&, Weights, int64_t, const std::string&,
                      const CenterLimit&>(),
             "rows"_a, "columns"_a, "weights"_a.none(), "n_clusters"_a, "metric"_a, "limit"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def_prop_ro("scatter", [](const PySums& self) { return self.sums.scatter(); })
        .def_prop_ro("mean_norm2", [](const PySums& self) { return to_numpy(self.sums.mean_norm2()); },
                     nb::rv_policy::automatic)
        .def("update", &PySums::update, "labels"_a, "centers"_a, "n_threads"_a);

    m.def("first_variation", &py_first_variation, "rows"_a, "weights"_a.none(), "centers"_a,
          "labels"_a.noconvert(), "metric"_a, "head_limit"_a, "n_threads"_a);
}

}  // namespace sparsecluster
