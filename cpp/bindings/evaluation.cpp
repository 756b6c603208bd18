// The nearest cluster beside each row's own.
#include "bindings/bindings.hpp"
#include "evaluation/nearest_cluster.hpp"
#include "evaluation/neighbor_track.hpp"

namespace sparsecluster {

namespace {

struct PyNearestCluster {
    PyNearestCluster(const PyRows& rows, const Centers& centers, In<double> spread, int64_t head_limit, int n_threads)
        : rows(rows.get()), spread(spread), centers(checked(this->rows, centers, spread)),
          search(this->rows, this->centers, this->spread.data(), head_limit, n_threads) {}

    static const Centers& checked(const Rows& rows, const Centers& centers, const In<double>& spread) {
        require(centers.n_features == rows.n_features() && centers.size() >= 1, "centers do not fit the rows");
        require(int64_t(spread.size()) == centers.size(), "one number per center is needed");
        return centers;
    }

    Out<int32_t> find(In<int32_t> labels, Weights scales, int64_t begin, int64_t end, int n_threads) const {
        require(0 <= begin && begin <= end && end <= rows.n_rows(), "no such rows");
        require(int64_t(labels.size()) == rows.n_rows(), "one label per row is needed");
        const double* const scale = weights_of(scales, rows);
        check_labels(labels.data(), rows.n_rows(), centers.size(), -1);
        std::vector<int32_t> nearest(end - begin);
        {
            const GilReleased released;
            search.find(begin, end, scale, labels.data(), nearest.data(), n_threads);
        }
        return to_numpy(std::move(nearest));
    }

    const Rows& rows;
    In<double> spread;
    const Centers& centers;
    NearestCluster search;
};

struct PyNeighborTrack {
    PyNeighborTrack(const PyRows& rows, int64_t n_measures, int64_t head_limit)
        : rows(rows.get()), track(this->rows, n_measures, head_limit) {
        require(n_measures >= 1, "at least one measure is needed");
    }

    // `spreads`: of all centers by the first measure, then by the next one. For each measure the nearest clusters, and how
    // far they are.
    std::vector<std::pair<Out<int32_t>, Out<double>>> update(const Centers& centers, In<double> spreads,
                                                             In<int32_t> labels, int n_threads) {
        require(centers.n_features == rows.n_features() && centers.size() >= 1, "centers do not fit the rows");
        require(int64_t(spreads.size()) == track.n_measures() * centers.size(),
                "one number per measure and center is needed");
        require(int64_t(labels.size()) == rows.n_rows(), "one label per row is needed");
        check_labels(labels.data(), rows.n_rows(), centers.size(), 0);
        {
            const GilReleased released;
            track.update(centers, spreads.data(), labels.data(), n_threads);
        }
        std::vector<std::pair<Out<int32_t>, Out<double>>> found;
        for (int64_t m = 0; m < track.n_measures(); ++m)
            found.emplace_back(to_numpy(std::vector<int32_t>(track.nearest(m))), to_numpy(track.least(m)));
        return found;
    }

    const Rows& rows;
    NeighborTrack track;
};

}  // namespace

void bind_evaluation(nb::module_& m) {
    nb::class_<PyNearestCluster>(m, "NearestCluster")
        .def(nb::init<const PyRows&, const Centers&, In<double>, int64_t, int>(), "rows"_a, "centers"_a, "spread"_a,
             "head_limit"_a, "n_threads"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("find", &PyNearestCluster::find, "labels"_a, "scales"_a.none(), "begin"_a, "end"_a, "n_threads"_a);
    nb::class_<PyNeighborTrack>(m, "NeighborTrack")
        .def(nb::init<const PyRows&, int64_t, int64_t>(), "rows"_a, "n_measures"_a, "head_limit"_a,
             nb::keep_alive<1, 2>())
        .def("update", &PyNeighborTrack::update, "centers"_a, "spreads"_a, "labels"_a, "n_threads"_a);
}

}  // namespace sparsecluster
