// Drives the kernels without Python, for the sanitizers (make sanitize): rows of all kinds through
// inspection, seeding, every assigner and the update, each step against a naive float64 version. The other files check_*
// do the same for one part each. Prints one line, and exits with 1 where anything differs.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/centers.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "core/rows.hpp"
#include "index/roofline.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/refine.hpp"
#include "kmeans/sums.hpp"
#include "seeding/chain.hpp"
#include "seeding/greedy.hpp"
#include "simd/kernels.hpp"
#include "tests/check.hpp"

using namespace sparsecluster;

namespace {

int n_checks = 0, n_failures = 0;

}  // namespace

void sparsecluster::check(bool holds, const char* what) {
    ++n_checks;
    if (holds) return;
    ++n_failures;
    std::fprintf(stderr, "%s: %s\n", context.c_str(), what);
}

namespace {

void check_inspection(const Table& table, const Rows& rows, const Finding& finding) {
    check(finding.fault == Fault::none, "inspection finds a fault in good rows");
    check(rows.n_rows() == table.n_rows && rows.n_features() == table.n_features, "the shape differs");
    const std::vector<double> origin(table.n_features, 0.0);
    bool same = true;
    for (int64_t i = 0; i < table.n_rows; ++i) {
        const double norm2 = squared_distance(table.row(i), origin.data(), table.n_features);
        same &= close(rows.norm2()[i], norm2, norm2);
    }
    check(same, "norms differ");
}

// Norms are sums in the order of the features, to the bit, of any number of rows that are as unlike as can be.
template <class V>
void check_norms() {
    context = "norms";
    std::mt19937 random(5);
    std::uniform_real_distribution<V> value(-1, 1);
    for (int64_t n = 1; n <= 17; ++n) {
        std::vector<int64_t> indptr{0};
        for (int64_t i = 0; i < n; ++i) indptr.push_back(indptr.back() + int64_t(random() % 3 == 0 ? random() % 90 : random() % 7));
        std::vector<int32_t> features;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t e = indptr[i]; e < indptr[i + 1]; ++e) features.push_back(int32_t(e - indptr[i]));
        std::vector<V> values(features.size());
        for (V& one : values) one = value(random);
        const auto matrix = [&] { return Matrix<V, int32_t>{n, 90, indptr.data(), features.data(), values.data()}; };
        Rows rows(matrix());
        check(rows.inspect(2).fault == Fault::none, "inspection finds a fault in good rows");
        bool same = true;
        for (int64_t i = 0; i < n; ++i) {
            double sum = 0;
            for (int64_t e = indptr[i]; e < indptr[i + 1]; ++e) sum += double(values[e]) * double(values[e]);
            same &= rows.norm2()[i] == sum;
        }
        check(same, "norms are not sums in the order of the features");
        // The first row with a fault is the one that is named.
        for (int64_t i = n - 1; i >= 0; --i) {
            if (indptr[i] == indptr[i + 1]) continue;
            values[indptr[i + 1] - 1] = std::numeric_limits<V>::quiet_NaN();
            const Finding finding = Rows(matrix()).inspect(1);
            check(finding.fault == Fault::not_finite && finding.row == i, "another row than that with a NaN is named");
        }
    }
}

void check_columns(const Table& table, const ColumnStats& columns, const double* weights) {
    double total = 0;
    bool counts = true, largest = true;
    for (int64_t f = 0; f < table.n_features; ++f) {
        double mean = 0, max_abs = 0;
        int64_t count = 0;
        for (int64_t i = 0; i < table.n_rows; ++i) {
            const double value = table.row(i)[f];
            mean += value / double(table.n_rows);
            count += value != 0;
            max_abs = std::max(max_abs, std::abs((weights ? weights[i] : 1.0) * value));
        }
        for (int64_t i = 0; i < table.n_rows; ++i)
            total += (table.row(i)[f] - mean) * (table.row(i)[f] - mean);
        counts &= columns.count[f] == count;
        largest &= columns.max_abs[f] == max_abs;
    }
    check(counts, "entries of columns are miscounted");
    check(largest, "largest magnitudes of columns differ");
    if (!weights) {
        const double variance = total / double(table.n_rows) / double(table.n_features);
        check(close(columns.mean_variance, variance, variance), "the mean variance differs");
    }
}

Seeds check_seeding(const Table& table, const Rows& rows, const Recipe& recipe, const double* weights,
                    int n_threads, int64_t memory_limit = INT64_MAX) {
    SeedOptions options;
    options.memory_limit = memory_limit;
    options.n_clusters = recipe.n_clusters;
    options.n_candidates = 5;
    options.n_single = table.n_rows % 2 == 0 ? 2 : 1024;  // some of the steps in pools, or none
    options.seed = 11;
    options.weights = weights;
    options.n_threads = n_threads;
    std::mt19937 random(7);
    std::vector<double> draws(std::max<int64_t>(1, (recipe.n_clusters - 1) * options.n_candidates));
    for (double& draw : draws) draw = std::uniform_real_distribution<double>(0, 1)(random);
    options.draws = draws.data();
    while (weights && weights[options.first] == 0) ++options.first;
    int64_t told = 1;
    options.on_center = [&told](int64_t found) { told += found == told + 1; };
    const Seeds seeds = greedy_kmeans_plusplus(rows, options);
    check(told == int64_t(seeds.rows.size()), "a center was not told of");

    check(!seeds.rows.empty() && int64_t(seeds.rows.size()) <= recipe.n_clusters, "a wrong number of seeds");
    bool distinct = true, weighty = true;
    double potential = 0, scale = 0;
    const double largest = table.largest();
    for (int64_t i = 0; i < table.n_rows; ++i) {
        double least = INFINITY;
        for (int64_t seed : seeds.rows)
            least = std::min(least, squared_distance(table.row(i), table.row(seed), table.n_features));
        potential += (weights ? weights[i] : 1.0) * least;
        scale += (weights ? weights[i] : 1.0) * largest * largest * double(table.n_features);
    }
    for (size_t a = 0; a < seeds.rows.size(); ++a) {
        weighty &= !weights || weights[seeds.rows[a]] > 0;
        for (size_t b = 0; b < a; ++b)
            distinct &= squared_distance(table.row(seeds.rows[a]), table.row(seeds.rows[b]),
                                         table.n_features) > 0;
    }
    check(distinct, "two seeds are equal");
    check(weighty, "a seed has no weight");
    check(close(seeds.potential, potential, scale), "the potential of the seeds differs");
    return seeds;
}

// A row of the largest cluster goes into each empty one, as a refill would have it.
void fill_empty(std::vector<int32_t>& labels, int64_t n_clusters, Assigner& assigner) {
    std::vector<int64_t> sizes(n_clusters, 0);
    for (int32_t label : labels) ++sizes[label];
    for (int64_t k = 0; k < n_clusters; ++k) {
        if (sizes[k] > 0) continue;
        const int32_t from = int32_t(std::max_element(sizes.begin(), sizes.end()) - sizes.begin());
        if (sizes[from] < 2) return;
        const int64_t row = std::find(labels.begin(), labels.end(), from) - labels.begin();
        labels[row] = int32_t(k);
        --sizes[from];
        ++sizes[k];
        assigner.forget(row);
    }
}

// Runs one algorithm to its end, every step against the naive ones; answers the last labels.
std::vector<int32_t> check_iterations(const Table& table, const Rows& rows, const ColumnStats& columns,
                                      const double* weights, Centers centers, Assigner& assigner,
                                      int n_threads) {
    const int64_t n = table.n_rows, n_clusters = centers.size();
    const double largest = table.largest();
    Sums sums(rows, columns, weights, n_clusters, Metric::euclidean);
    std::vector<int32_t> labels(n, -1);
    std::vector<double> shift;
    for (int iteration = 0; iteration < 12; ++iteration) {
        assigner.assign(centers, shift, labels.data(), table.n_rows);
        check(labels == naive_labels(naive_distances(table, centers), n_clusters), "labels differ");
        fill_empty(labels, n_clusters, assigner);

        const Centers means = naive_means(table, labels, weights, centers);
        const Centers before = centers;
        const UpdateStats stats = sums.update(labels.data(), table.n_rows, centers, n_threads);
        check(same_centers(table, centers, means, largest), "centers are not the means");
        for (int64_t k = 0; k < n_clusters; ++k) {
            const double moved = squared_distance(spread(before.items[k], table.n_features).data(),
                                                  spread(centers.items[k], table.n_features).data(),
                                                  table.n_features);
            check(close(stats.shift[k], std::sqrt(moved), largest), "a shift differs");
        }
        shift = stats.shift;
        if (stats.moved == 0) break;
    }

    std::vector<double> own(n), all(n * n_clusters);
    std::vector<float> all_float(n * n_clusters);
    assigner.assign(centers, shift, labels.data(), table.n_rows);
    own_distances(rows, centers, labels.data(), nullptr, n, own.data(), n_threads);
    all_distances(rows, centers, all.data(), n_threads);
    all_distances(rows, centers, all_float.data(), n_threads);
    const std::vector<double> distance2 = naive_distances(table, centers);
    const double reach = largest * largest * double(table.n_features);
    bool same_own = true, same_all = true, same_float = true;
    for (int64_t i = 0; i < n; ++i) {
        same_own &= close(own[i], distance2[i * n_clusters + labels[i]], reach);
        for (int64_t k = 0; k < n_clusters; ++k) {
            const int64_t p = i * n_clusters + k;
            same_all &= close(all[p] * all[p], distance2[p], reach);
            same_float &= std::abs(all_float[p] - all[p]) <= 1e-6 * all[p];
        }
    }
    check(same_own, "distances to the own centers differ");
    check(same_all, "distances to all centers differ");
    check(same_float, "distances in float32 differ");
    return labels;
}

template <class V, class I>
void check_sample(const Recipe& recipe, const char* types, const char* level, int n_threads) {
    const Table table = make_table(recipe);
    const Sample<V, I> sample(table, recipe.sparse);
    const std::vector<double> some_weights = make_weights(table.n_rows);
    const double* weights = recipe.weighted ? some_weights.data() : nullptr;
    const std::string place = std::string(recipe.name) + ", " + types + ", " + level + ", " +
                              std::to_string(n_threads) + " threads";
    context = place;

    Rows rows = sample.rows();
    check_inspection(table, rows, rows.inspect(n_threads));
    const ColumnStats columns = column_stats(rows, weights);
    check_columns(table, columns, weights);
    const Seeds seeds = check_seeding(table, rows, recipe, weights, n_threads);
    check(seeds.rows == check_seeding(table, rows, recipe, weights, 1).rows, "seeds depend on the threads");

    Centers centers;
    centers.n_features = table.n_features;
    for (int64_t seed : seeds.rows) centers.items.push_back(center_at(table.row(seed), table.n_features));
    if (recipe.n_clusters > 4) {
        // One center where no row is: its cluster starts empty.
        std::vector<double> far(table.n_features, 3 * table.largest());
        centers.items.back() = center_at(far.data(), table.n_features);
    }

    std::vector<int32_t> reference;
    for (const Algorithm* algorithm : kAlgorithms) {
        const auto& [name, make, bytes] = *algorithm;
        // With no room for SIMD rows every feature of the centers becomes a list.
        for (int64_t head_limit : {int64_t(1) << 32, int64_t(0)}) {
            context = place + ", " + name + (head_limit ? "" : ", lists only");
            const std::unique_ptr<Assigner> assigner = make(rows, {n_threads, Metric::euclidean, head_limit});
            const std::vector<int32_t> labels =
                check_iterations(table, rows, columns, weights, centers, *assigner, n_threads);
            if (reference.empty()) reference = labels;
            check(labels == reference, "algorithms end with different labels");
        }
    }

    context = place + ", streamed";
    Rows streamed = sample.rows(1000);
    check_inspection(table, streamed, streamed.inspect(n_threads));
    check(streamed.chunk_ends(table.n_rows).back() == table.n_rows, "chunks do not end with the rows");
    for (int64_t memory_limit : {INT64_MAX, int64_t(10000), int64_t(1)})
        check(check_seeding(table, streamed, recipe, weights, n_threads, memory_limit).rows == seeds.rows,
              "streamed seeds are others");
    const std::unique_ptr<Assigner> assigner =
        kLloyd.make(streamed, {n_threads, Metric::euclidean, int64_t(1) << 32});
    check(check_iterations(table, streamed, columns, weights, centers, *assigner, n_threads) == reference,
          "streamed rows end with other labels");
}

// Cosines: all algorithms agree, no step raises the cost, chains do not depend on the threads.
template <class V, class I>
void check_sphere(const Recipe& recipe, const char* level, int n_threads) {
    context = std::string(recipe.name) + " on the sphere, " + level;
    Table table = make_table(recipe);
    put_on_sphere<V>(table);
    const Sample<V, I> sample(table, recipe.sparse);
    Rows rows = sample.rows();
    rows.inspect(n_threads);
    const ColumnStats columns = column_stats(rows, nullptr);

    ChainOptions chain;
    chain.n_clusters = recipe.n_clusters;
    chain.length = 5;
    chain.floor = 1;
    int64_t told = 1;
    chain.on_center = [&told](int64_t found) { told += found == told + 1; };
    const Seeds alone = chain_seeds(rows, chain);
    check(told == int64_t(alone.rows.size()), "a center was not told of");
    chain.n_threads = n_threads;
    check(chain_seeds(rows, chain).rows == alone.rows, "chains depend on the threads");

    Centers start;
    start.n_features = table.n_features;
    for (int64_t seed : alone.rows)
        if (rows.norm2()[seed] > 0) start.items.push_back(center_at(table.row(seed), table.n_features));
    if (start.items.empty()) return;

    std::vector<int32_t> reference;
    for (const Algorithm* algorithm : kAlgorithms) {
        const auto& [name, make, bytes] = *algorithm;
        const AssignOptions options{n_threads, Metric::cosine};
        const std::unique_ptr<Assigner> assigner = make(rows, options);
        Sums sums(rows, columns, nullptr, start.size(), Metric::cosine);
        Centers centers = start;
        std::vector<int32_t> labels(table.n_rows, -1);
        std::vector<double> shift;
        double cost = INFINITY;
        for (int step = 0; step < 8; ++step) {
            assigner->assign(centers, shift, labels.data(), table.n_rows);
            const UpdateStats stats = sums.update(labels.data(), table.n_rows, centers, n_threads);
            check(stats.cost <= cost + 1e-9 * double(table.n_rows), "the cost of cosines rises");
            cost = stats.cost;
            shift = stats.shift;
        }
        if (reference.empty()) reference = labels;
        check(labels == reference, "algorithms end with different labels");
        for (int pass = 0; pass < 3; ++pass) {
            first_variation(rows, nullptr, options, centers, labels.data());
            const UpdateStats stats = sums.update(labels.data(), table.n_rows, centers, n_threads);
            check(stats.cost <= cost + 1e-9 * double(table.n_rows), "single moves raise the cost");
            cost = stats.cost;
        }
    }
    check(tile_rates(rows, start, n_threads).entries <= 1, "more entries in tiles than there are");
}

void check_recipe(const Recipe& recipe, const char* level) {
    check_sphere<float, int32_t>(recipe, level, 3);
    check_sphere<double, int64_t>(recipe, level, 2);
    check_sample<float, int32_t>(recipe, "float32 int32", level, 3);
    check_sample<double, int64_t>(recipe, "float64 int64", level, 1);
    if (!recipe.sparse) return;
    check_sample<float, int64_t>(recipe, "float32 int64", level, 1);
    check_sample<double, int32_t>(recipe, "float64 int32", level, 2);
}

// A request to stop leaves a kernel as an exception, and the next call works.
void check_interrupt() {
    context = "interrupt";
    const Recipe recipe{"interrupt", 900, 40, 8, 0.3};
    const Table table = make_table(recipe);
    const Sample<float, int32_t> sample(table, true);
    Rows rows = sample.rows();
    rows.inspect(3);
    Centers centers;
    centers.n_features = table.n_features;
    for (int64_t k = 1; k <= 8; ++k) centers.items.push_back(center_at(table.row(k), table.n_features));
    std::vector<int32_t> labels(table.n_rows, -1);
    for (const Algorithm* algorithm : kAlgorithms) {
        const auto& [name, make, bytes] = *algorithm;
        interrupt_requested = [] { return true; };
        std::this_thread::sleep_for(std::chrono::milliseconds(60));  // requests are looked for now and then
        bool stopped = false;
        try {
            make(rows, {3})->assign(centers, {}, labels.data(), rows.n_rows());
        } catch (const Interrupted&) {
            stopped = true;
        }
        interrupt_requested = nullptr;
        check(stopped, "a request to stop was not heard");
        make(rows, {3})->assign(centers, {}, labels.data(), rows.n_rows());
        check(labels == naive_labels(naive_distances(table, centers), 8), "labels differ after a stop");
    }
}

}  // namespace

int main() {
    const Recipe recipes[] = {
        {"sparse", 700, 60, 13, 0.1},
        {"sparse weighted", 400, 50, 9, 0.15, 0, false, true, true},
        {"ties", 500, 8, 10, 0.5, 0, true},
        {"ties dense", 300, 4, 7, 1.0, 0, true, false},
        {"several tiles", 300, 20, 150, 0.4},
        {"dense", 600, 7, 9, 1.0, 0, false, false},
        {"dense weighted", 300, 5, 4, 1.0, 0, false, false, true},
        {"far from the origin", 300, 5, 6, 1.0, 1000, false, false},
        {"wide", 60, 5000, 7, 0.01},
        {"one cluster", 300, 20, 1, 0.3},
        {"as many clusters as rows", 30, 40, 30, 0.5},
        {"one row", 1, 6, 1, 0.5},
        {"one column", 50, 1, 3, 0.8},
        {"no entries", 20, 5, 3, 0.0},
    };
    check_norms<float>();
    check_norms<double>();
    int n_levels = 0;
    std::string levels, widest;
    for (const char* level : {"base", "wide", "avx2", "avx512"}) {
        setenv("SPARSECLUSTER_SIMD", level, 1);
        try {
            kernels();
        } catch (const std::runtime_error&) {
            continue;  // this CPU does not have it
        }
        ++n_levels;
        levels += std::string(levels.empty() ? "" : ", ") + level;
        widest = level;
        for (const Recipe& recipe : recipes) check_recipe(recipe, level);
        check_interrupt();
        check_nested(level);
        check_minibatch(level);
        check_neighbors(level);
        check_index(level);
        check_sizes(level);
        check_pair_products(level);
    }
    setenv("SPARSECLUSTER_SIMD", widest.c_str(), 1);
    check_faults();
    check_files();
    check_hierarchy();
    check_embedding();
    check_parts();
    check_evaluation();
    check_tree();
    check_projection();
    check_text();
    check_threads();
    check_ties();
    if (n_failures == 0)
        std::printf("kernels at %s: %d checks, all as they should be\n", levels.c_str(), n_checks);
    else
        std::printf("kernels at %s: %d of %d checks failed\n", levels.c_str(), n_failures, n_checks);
    return n_failures > 0 || n_levels == 0;
}
