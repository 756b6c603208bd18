// Assignment within size bounds.
#include "sizes/bounded.hpp"

#include "bindings/bindings.hpp"
#include "bindings/reporter.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

// Parents, then rows.
SizeBasis basis_of(const In<int64_t>& given) {
    const int64_t* const middle = given.data() + given.size() / 2;
    return {{given.data(), middle}, {middle, given.data() + given.size()}};
}

std::vector<int64_t> joined(const SizeBasis& basis) {
    std::vector<int64_t> all = basis.parents;
    all.insert(all.end(), basis.rows.begin(), basis.rows.end());
    return all;
}

// Holds references to its rows and weights, so it keeps the Python objects alive.
struct PyBoundedAssigner {
    PyBoundedAssigner(const PyRows& rows, Weights given, int64_t size_min, int64_t size_max, int n_threads,
                      int64_t head_limit, int64_t cost_limit, const std::string& metric, In<int64_t> basis)
        : rows(rows.get()),
          weights(std::move(given)),
          bounds{size_min, size_max},
          n_threads(n_threads),
          assigner(this->rows, weights_of(weights, this->rows), bounds,
                   {n_threads, metric_named(metric), head_limit}, cost_limit, basis_of(basis)) {}

    AssignStats assign(const Centers& centers, In<double>, InOut<int32_t> labels, const nb::object& progress) {
        const int64_t n_rows = rows.n_rows();
        require(int64_t(labels.size()) == n_rows, "one label per row is needed");
        require(centers.n_features == rows.n_features() && centers.size() >= 1, "centers do not fit the rows");
        require(0 <= bounds.least && bounds.least <= n_rows / centers.size() && bounds.most >= bounds.least &&
                    bounds.most >= (n_rows + centers.size() - 1) / centers.size(),
                "the size bounds cannot be kept");
        check_labels(labels.data(), n_rows, centers.size(), -1);
        assigner.tell(reporter<double>(progress));
        const GilReleased released;
        TeamScope team(n_threads);
        return assigner.assign(centers, {}, labels.data(), n_rows);
    }

    const Rows& rows;
    Weights weights;
    SizeBounds bounds;
    int n_threads;
    BoundedAssigner assigner;
};

}  // namespace

void bind_sizes(nb::module_& m) {
    nb::class_<PyBoundedAssigner>(m, "BoundedAssigner")
        .def(nb::init<const PyRows&, Weights, int64_t, int64_t, int, int64_t, int64_t, const std::string&,
                      In<int64_t>>(),
             "rows"_a, "weights"_a.none(), "size_min"_a, "size_max"_a, "n_threads"_a, "head_limit"_a,
             "cost_limit"_a, "metric"_a, "basis"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("assign", &PyBoundedAssigner::assign, "centers"_a, "shift"_a, "labels"_a.noconvert(),
             "progress"_a.none() = nb::none())
        .def_prop_ro("basis", [](const PyBoundedAssigner& self) { return to_numpy(joined(self.assigner.basis())); },
                     nb::rv_policy::automatic);
}

}  // namespace sparsecluster
