// Assignment and update, the two halves of an iteration; and single moves.
#include "bindings/bindings.hpp"
#include "core/parallel.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/refine.hpp"
#include "kmeans/sums.hpp"

namespace sparsecluster {

namespace {

// What some rows add to what the cost is a difference from.
template <class PyOfSums>
Out<int64_t> py_scatter_of(const PyOfSums& self, int64_t begin, int64_t end) {
    require(0 <= begin && begin <= end && end <= self.rows.n_rows(), "there are no such rows");
    ExactSum found;
    {
        const GilReleased released;
        found = self.sums.scatter_of(begin, end);
    }
    return limbs_of(found);
}

// Assigner and Sums hold references to their rows, so they keep the Python object alive.
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

    void restart(int64_t n_clusters) {
        require(n_clusters >= 1, "at least one cluster is needed");
        sums.restart(n_clusters);
    }

    const Rows& rows;
    Weights weights;
    Sums sums;
};

struct PyAssigner {
    PyAssigner(const PyRows& rows, const std::string& algorithm, int n_threads, int64_t head_limit,
               const std::string& metric)
        : rows(rows.get()), n_threads(n_threads) {
        const AssignOptions options{n_threads, metric_named(metric), head_limit};
        assigner = algorithm_named(algorithm).make(this->rows, options);
    }

    // `sums`, if there are any: those of the labels, which may follow while rows are read.
    AssignStats assign(const Centers& centers, In<double> shift, InOut<int32_t> labels, PySums* sums) {
        const auto n_rows = int64_t(labels.size());
        require(n_known <= n_rows && n_rows <= rows.n_rows(), "one label per row is needed");
        require(centers.n_features == rows.n_features() && centers.size() >= 1, "centers do not fit the rows");
        require(n_centers < 0 || n_centers == centers.size() || (may_grow && n_centers < centers.size()),
                "the number of centers changed");
        if (sums)
            require(&sums->rows == &rows && sums->sums.size() == centers.size() && sums->sums.n_rows() <= n_rows,
                    "sums of other rows or centers");
        if (n_centers >= 0) {
            require(int64_t(shift.size()) == centers.size(), "one shift per center is needed");
            check_labels(labels.data(), n_known, centers.size(), 0);
        }
        n_centers = centers.size();
        n_known = n_rows;
        may_grow = false;
        const std::vector<double> moved_by(shift.data(), shift.data() + shift.size());
        const GilReleased released;
        TeamScope team(n_threads);
        const auto follower = sums ? sums->sums.follow(labels.data(), n_rows, n_threads) : nullptr;
        return assigner->assign(centers, moved_by, labels.data(), n_rows);
    }

    bool grow() { return may_grow = assigner->grow(); }

    const Rows& rows;
    int n_threads;
    int64_t n_centers = -1, n_known = 0;
    bool may_grow = false;
    std::unique_ptr<Assigner> assigner;
};

// A delta as arrays, which travel: rows that moved; per cluster where it begins; features; the coarse and the fine parts
// of their sums, the latter empty where all are zero; and of the weights of the clusters, in turns.
using DeltaArrays = std::tuple<int64_t, Out<int64_t>, Out<int32_t>, Out<int64_t>, Out<int64_t>, Out<int64_t>>;
using InDelta = std::tuple<int64_t, In<int64_t>, In<int32_t>, In<int64_t>, In<int64_t>, In<int64_t>>;

template <class T>
std::span<const T> spanned(const In<T>& in) {
    return {in.data(), in.size()};
}

DeltaArrays arrays_of(SumDelta delta) {
    std::vector<int64_t> weights;
    for (const FixedSum& sum : delta.weights) weights.insert(weights.end(), {sum.coarse, sum.fine});
    return {delta.moved,
            to_numpy(std::move(delta.begin)),
            to_numpy(std::move(delta.features)),
            to_numpy(delta.sums.take_coarse()),
            to_numpy(delta.sums.take_fine()),
            to_numpy(std::move(weights))};
}

// A delta that was received, checked; it lives as long as the arrays.
SumDeltaView delta_of(const InDelta& arrays, int64_t n_features) {
    const auto& [moved, begin, features, coarse, fine, weights] = arrays;
    require(weights.size() % 2 == 0 && begin.size() == weights.size() / 2 + 1 && features.size() == coarse.size() &&
                (fine.size() == 0 || fine.size() == coarse.size()),
            "the arrays of a delta contradict each other");
    SumDeltaView delta{moved, spanned(begin), spanned(features), {spanned(coarse), spanned(fine)}, {}};
    for (size_t w = 0; w < weights.size(); w += 2) delta.weights.push_back({weights.data()[w], weights.data()[w + 1]});
    require(delta.begin.front() == 0 && delta.begin.back() == int64_t(delta.features.size()),
            "the clusters of a delta do not end within it");
    for (size_t k = 0; k + 1 < delta.begin.size(); ++k)
        require(delta.begin[k] <= delta.begin[k + 1], "the clusters of a delta do not ascend");
    for (int64_t k = 0; k < delta.n_clusters(); ++k) {
        const std::span<const int32_t> own = delta.features_of(k);
        if (own.empty()) continue;
        bool ascend = own.front() >= 0 && own.back() < n_features;
        for (size_t e = 1; e < own.size(); ++e) ascend &= own[e - 1] < own[e];
        require(ascend, "the features of a delta do not ascend");
    }
    return delta;
}

DeltaArrays py_merged(const std::vector<InDelta>& deltas) {
    require(deltas.size() > 1, "there is nothing to merge");
    SumDeltaView all = delta_of(deltas[0], INT32_MAX);
    SumDelta sum;
    for (size_t d = 1; d < deltas.size(); ++d) {
        const SumDeltaView next = delta_of(deltas[d], INT32_MAX);
        require(next.n_clusters() == all.n_clusters(), "deltas of other numbers of clusters");
        const GilReleased released;
        sum = merged(all, next);
        all = sum.view();
    }
    return arrays_of(std::move(sum));
}

struct PyRowSums {
    PyRowSums(const PyRows& rows, const ColumnStats& columns, Weights weights, int64_t n_clusters,
              const std::string& metric)
        : rows(rows.get()), weights(std::move(weights)), scales(checked(columns)),
          sums(this->rows, columns, weights_of(this->weights, this->rows), n_clusters, metric_named(metric)) {
        require(scales.fixed_point, "these columns do not fit fixed point");
    }

    const ColumnStats& checked(const ColumnStats& columns) const {
        require(int64_t(columns.count.size()) == rows.n_features(), "statistics of other columns");
        return columns;
    }
    void check(const In<int32_t>& labels) const {
        const auto n_rows = int64_t(labels.size());
        require(sums.n_rows() <= n_rows && n_rows <= rows.n_rows(), "one label per row is needed");
        check_labels(labels.data(), n_rows, sums.n_clusters(), -1);
    }

    // Of the first rows, as many as there are labels: not fewer than in the last call.
    DeltaArrays delta(In<int32_t> labels, int n_threads) {
        check(labels);
        SumDelta found;
        {
            const GilReleased released;
            found = sums.delta(labels.data(), int64_t(labels.size()), scales, n_threads);
        }
        return arrays_of(std::move(found));
    }

    const Rows& rows;
    Weights weights;
    SumScales scales;
    RowSums sums;
};

// The pieces have the deltas of clusters that follow each other.
std::tuple<int64_t, Out<double>, double> py_apply(ClusterSums& sums, const std::vector<InDelta>& pieces, double scatter,
                                                  Centers& centers, int n_threads) {
    require(sums.scales().fixed_point, "these columns do not fit fixed point");
    require(centers.size() == sums.size() &&
                centers.n_features == int64_t(sums.scales().features.size()),
            "centers do not fit the sums");
    std::vector<SumDeltaView> delta;
    int64_t n_clusters = 0;
    for (const InDelta& piece : pieces) {
        delta.push_back(delta_of(piece, centers.n_features));
        n_clusters += delta.back().n_clusters();
    }
    require(n_clusters == sums.size(), "a delta of another number of clusters");
    UpdateStats stats;
    {
        const GilReleased released;
        stats = sums.apply(delta, scatter, centers, n_threads);
    }
    return {stats.moved, to_numpy(std::move(stats.shift)), stats.cost};
}

Out<int64_t> py_cluster_sizes(In<int32_t> labels, Weights weights, int64_t n_clusters) {
    const auto n_rows = int64_t(labels.size());
    require(0 <= n_clusters && n_clusters <= INT32_MAX, "a number of clusters out of range");
    check_labels(labels.data(), n_rows, n_clusters, 0);
    const double* const w = weights_of(weights, n_rows);
    std::vector<int64_t> sizes;
    {
        const GilReleased released;
        sizes = count_labels(labels.data(), w, n_rows, n_clusters);
    }
    return to_numpy(std::move(sizes));
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
        .def("assign", &PyAssigner::assign, "centers"_a, "shift"_a, "labels"_a.noconvert(), "sums"_a = nb::none())
        .def("forget", [](PyAssigner& self, int64_t i) {
            require(i >= 0 && i < self.rows.n_rows(), "no such row");
            self.assigner->forget(i);
        }, "row"_a)
        .def("grow", &PyAssigner::grow);

    nb::class_<PySums>(m, "Sums")
        .def(nb::init<const PyRows&, const ColumnStats&, Weights, int64_t, const std::string&,
                      const CenterLimit&>(),
             "rows"_a, "columns"_a, "weights"_a.none(), "n_clusters"_a, "metric"_a, "limit"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def_prop_ro("scatter", [](const PySums& self) { return self.sums.scatter(); })
        .def("scatter_of", &py_scatter_of<PySums>, "begin"_a, "end"_a)
        .def_prop_ro("mean_norm2", [](const PySums& self) { return to_numpy(self.sums.mean_norm2()); },
                     nb::rv_policy::automatic)
        .def("restart", &PySums::restart, "n_clusters"_a)
        .def("update", &PySums::update, "labels"_a, "centers"_a, "n_threads"_a);

    m.def("merge_deltas", &py_merged, "deltas"_a);
    nb::class_<PyRowSums>(m, "RowSums")
        .def(nb::init<const PyRows&, const ColumnStats&, Weights, int64_t, const std::string&>(), "rows"_a,
             "columns"_a, "weights"_a.none(), "n_clusters"_a, "metric"_a, nb::keep_alive<1, 2>(),
             nb::keep_alive<1, 3>())
        .def("delta", &PyRowSums::delta, "labels"_a, "n_threads"_a)
        .def("scatter_of", &py_scatter_of<PyRowSums>, "begin"_a, "end"_a);
    nb::class_<ClusterSums>(m, "ClusterSums")
        .def("__init__", [](ClusterSums* self, const ColumnStats& columns, int64_t n_clusters,
                            const std::string& metric, const CenterLimit& limit) {
            new (self) ClusterSums(columns, n_clusters, metric_named(metric), limit);
        }, "columns"_a, "n_clusters"_a, "metric"_a, "limit"_a = CenterLimit(), nb::keep_alive<1, 2>())
        .def_prop_ro("fixed_point", [](const ClusterSums& self) { return self.scales().fixed_point; })
        .def_prop_ro("mean_norm2", [](const ClusterSums& self) { return to_numpy(self.mean_norm2()); },
                     nb::rv_policy::automatic)
        .def("apply", &py_apply, "pieces"_a, "scatter"_a, "centers"_a, "n_threads"_a);

    m.def("cluster_sizes", &py_cluster_sizes, "labels"_a, "weights"_a.none(), "n_clusters"_a);
    m.def("first_variation", &py_first_variation, "rows"_a, "weights"_a.none(), "centers"_a,
          "labels"_a.noconvert(), "metric"_a, "head_limit"_a, "n_threads"_a);
}

}  // namespace sparsecluster
