// Where centers start.
#include "bindings/bindings.hpp"
#include "bindings/reporter.hpp"
#include "core/parallel.hpp"
#include "seeding/chain.hpp"
#include "seeding/greedy.hpp"

namespace sparsecluster {

namespace {

std::tuple<Out<int64_t>, double> py_seed(const PyRows& rows, int64_t n_clusters, int64_t first,
                  nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> draws, int64_t n_single,
                  uint64_t seed, Weights weights, double floor, int64_t memory_limit, int n_threads,
                  const nb::object& progress) {
    SeedOptions options;
    options.n_clusters = n_clusters;
    options.n_candidates = int64_t(draws.shape(1));
    options.first = first;
    options.n_single = n_single;
    options.draws = draws.data();
    options.seed = seed;
    options.weights = weights_of(weights, rows.get());
    options.floor = floor;
    options.memory_limit = memory_limit;
    options.n_threads = n_threads;
    options.on_center = reporter<int64_t>(progress);
    require(int64_t(draws.shape(0)) >= std::min(n_clusters, n_single) - 1 && options.n_candidates >= 1, "too few draws");
    require(n_single >= 1, "at least one single step");
    require(first >= 0 && first < rows.get().n_rows(), "the first row is out of range");
    Seeds seeds;
    {
        const GilReleased released;
        seeds = greedy_kmeans_plusplus(rows.get(), options);
    }
    return {to_numpy(std::move(seeds.rows)), seeds.potential};
}

Out<int64_t> py_chain_seeds(const PyRows& rows, int64_t n_clusters, int64_t length, int64_t first, uint64_t seed,
                          Weights weights, double floor, int n_threads, const nb::object& progress) {
    require(n_clusters >= 1 && length >= 1, "at least one center and one step");
    require(first >= 0 && first < rows.get().n_rows(), "the first row is out of range");
    const ChainOptions options{n_clusters, length, first, seed, weights_of(weights, rows.get()), floor, n_threads,
                               reporter<int64_t>(progress)};
    Seeds seeds;
    {
        const GilReleased released;
        seeds = chain_seeds(rows.get(), options);
    }
    return to_numpy(std::move(seeds.rows));
}

}  // namespace

void bind_seeding(nb::module_& m) {
    m.def("greedy_kmeans_plusplus", &py_seed, "rows"_a, "n_clusters"_a, "first"_a, "draws"_a,
          "n_single"_a, "seed"_a, "weights"_a.none(), "floor"_a, "memory_limit"_a, "n_threads"_a, "progress"_a.none() = nb::none());

    m.def("chain_seeds", &py_chain_seeds, "rows"_a, "n_clusters"_a, "length"_a, "first"_a, "seed"_a,
          "weights"_a.none(), "floor"_a, "n_threads"_a, "progress"_a.none() = nb::none());
}

}  // namespace sparsecluster
