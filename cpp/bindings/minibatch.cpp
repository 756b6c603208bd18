// Mini-batches: a state that lives on between calls, and that several threads may look at.
#include <atomic>
#include <mutex>

#include "bindings/bindings.hpp"
#include "bindings/turns.hpp"
#include "core/parallel.hpp"
#include "kmeans/minibatch.hpp"

namespace sparsecluster {

namespace {

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

    std::tuple<Out<double>, Out<double>> learn(const PyRows& rows, Weights weights, InOut<int32_t> labels, int n_threads) {
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
        return {to_numpy(std::move(stats.shift)), to_numpy(std::move(stats.distance2))};
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
    Out<double> counts() { return to_numpy(look([&] { return std::vector<double>(batch.counts()); })); }

    // All that a stream needs to go on, of one moment.
    std::tuple<Centers, Out<double>, Out<double>, int64_t, int64_t> state() {
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
        return {std::move(sums), to_numpy(std::move(counts)), to_numpy(std::move(squares)), batches, rows};
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

}  // namespace

void bind_minibatch(nb::module_& m) {
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
        .def_prop_ro("counts", &PyMiniBatch::counts, nb::rv_policy::automatic);
}

}  // namespace sparsecluster
