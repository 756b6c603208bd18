// Sums of rows in parts, against those of all rows: equal to the bit. Exact sums, against long double and by hand.
#include <numeric>
#include <vector>

#include "core/column_stats.hpp"
#include "kmeans/sums.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

void check_exact_sums() {
    context = "exact sums";
    ExactSum sum;
    for (const double term : {1e300, 1.0, -1e300, -3.0, 0x1p-53}) sum.add(term);
    check(sum.value() == -2.0, "a sum half-way between two doubles was not rounded to even");
    sum.add(0x1p-1074);
    check(sum.value() == -2.0 + 0x1p-52, "a sum lost its small terms");
    ExactSum tie;
    for (const double term : {1.0, 0x1p-53}) tie.add(term);
    check(tie.value() == 1.0, "a tie does not go to the even one");
    tie.add(0x1p-1074);
    check(tie.value() == 1.0 + 0x1p-52, "what is above a tie is not rounded up");
    ExactSum back = ExactSum::of_limbs(tie.limbs().data());
    back.add(-1.0);
    check(back.value() == 0x1p-53, "limbs are not the sum");
    ExactSum large;
    large.add(INFINITY);
    check(large.value() == INFINITY, "a sum that overflows is finite");
}

// A delta in pieces of consecutive clusters, as workers merge it.
std::vector<SumDeltaView> cut_by_clusters(const SumDelta& delta, int64_t n_cuts) {
    const SumDeltaView whole = delta.view();
    std::vector<SumDeltaView> pieces;
    for (int64_t p = 0; p <= n_cuts; ++p) {
        const int64_t first = p * whole.n_clusters() / (n_cuts + 1), last = (p + 1) * whole.n_clusters() / (n_cuts + 1);
        pieces.push_back({p == 0 ? whole.moved : 0, whole.begin.subspan(first, last - first + 1), whole.features, whole.sums,
                          {whole.weights.begin() + first, whole.weights.begin() + last}});
    }
    return pieces;
}

template <class V, class I>
void check_sums_of_parts(const Recipe& recipe, Metric metric, bool weighted, int n_threads) {
    Table table = make_table(recipe);
    if (metric == Metric::cosine) put_on_sphere<V>(table);
    const Sample<V, I> sample(table, recipe.sparse);
    Rows rows = sample.rows();
    rows.inspect(n_threads);
    const std::vector<double> some_weights = make_weights(table.n_rows);
    const double* weights = weighted ? some_weights.data() : nullptr;
    const ColumnStats columns = column_stats(rows, weights);
    const SumScales scales(columns);
    if (!scales.fixed_point) return;

    const int64_t n = table.n_rows, middle = n / 3, n_clusters = recipe.n_clusters;
    std::vector<int64_t> ids(n);
    std::iota(ids.begin(), ids.end(), 0);
    const Rows first = rows.select(ids.data(), middle), second = rows.select(ids.data() + middle, n - middle);
    Sums whole(rows, columns, weights, n_clusters, metric);
    ClusterSums clusters(columns, n_clusters, metric);
    RowSums one(first, columns, weights, n_clusters, metric);
    RowSums other(second, columns, weights ? weights + middle : nullptr, n_clusters, metric);
    Centers expected;
    expected.n_features = table.n_features;
    for (int64_t k = 0; k < n_clusters; ++k) expected.items.push_back(center_at(table.row(k), table.n_features));
    Centers centers = expected;
    for (int64_t turn = 0; turn < 4; ++turn) {
        std::vector<int32_t> labels(n);
        for (int64_t i = 0; i < n; ++i) labels[i] = int32_t((i * (turn + 3) + i / 7) % n_clusters);
        const UpdateStats known = whole.update(labels.data(), n, expected, n_threads);
        const SumDelta delta = merged(other.delta(labels.data() + middle, n - middle, scales, n_threads).view(),
                                      one.delta(labels.data(), middle, scales, 1).view());
        const std::vector<SumDeltaView> pieces = cut_by_clusters(delta, turn);
        const UpdateStats stats = clusters.apply(pieces, whole.scatter(), centers, n_threads);
        check(stats.moved == known.moved && stats.shift == known.shift && stats.cost == known.cost,
              "an update by parts differs");
        for (int64_t k = 0; k < n_clusters; ++k)
            check(centers.items[k].features == expected.items[k].features &&
                      centers.items[k].values == expected.items[k].values,
                  "a center by parts differs");
    }

    const RowRange all(rows, weights);
    ColumnTotals totals(first, weights, all);
    totals.add(ColumnTotals(second, weights ? weights + middle : nullptr, all));
    ColumnStats stats = totals.stats(all);
    ExactSum spread = deviations(second, weights ? weights + middle : nullptr, stats);
    spread.add(deviations(first, weights, stats));
    totals.finish(stats, all, weighted, spread, rows.n_columns());
    check(stats.mean == columns.mean && stats.max_abs == columns.max_abs && stats.min_abs == columns.min_abs &&
              stats.count == columns.count && stats.scatter == columns.scatter &&
              stats.mean_variance == columns.mean_variance,
          "statistics of columns by parts differ");
}

// One cluster has nearly all rows, which several threads add up in portions.
void check_sums_of_a_giant_cluster(bool weighted) {
    const Recipe recipe{"giant cluster", 6000, 40, 7, 0.15};
    Table table = make_table(recipe);
    const Sample<double, int32_t> sample(table, true);
    Rows rows = sample.rows();
    rows.inspect(1);
    const int64_t n = table.n_rows, n_clusters = recipe.n_clusters;
    const std::vector<double> weights = make_weights(n);
    const ColumnStats columns = column_stats(rows, weighted ? weights.data() : nullptr);
    std::vector<std::pair<UpdateStats, Centers>> found;
    for (const int n_threads : {1, 2, 5}) {
        const ColumnStats same = column_stats(rows, weighted ? weights.data() : nullptr, n_threads);
        check(same.mean == columns.mean && same.count == columns.count && same.max_abs == columns.max_abs &&
                  same.min_abs == columns.min_abs && same.scatter == columns.scatter,
              "statistics of columns depend on the threads");
        Sums sums(rows, columns, weighted ? weights.data() : nullptr, n_clusters, Metric::euclidean);
        Centers centers;
        centers.n_features = table.n_features;
        for (int64_t k = 0; k < n_clusters; ++k) centers.items.push_back(center_at(table.row(k), table.n_features));
        UpdateStats stats;
        for (const int64_t giant : {3, 0}) {
            std::vector<int32_t> labels(n);
            for (int64_t i = 0; i < n; ++i) labels[i] = int32_t(i % 20 ? giant : i / 20 % n_clusters);
            stats = sums.update(labels.data(), n, centers, n_threads);
        }
        found.push_back({stats, centers});
    }
    for (const auto& [stats, centers] : found) {
        check(stats.shift == found[0].first.shift && stats.cost == found[0].first.cost, "threads change an update");
        for (int64_t k = 0; k < n_clusters; ++k)
            check(centers.items[k].values == found[0].second.items[k].values, "threads change a center");
    }
}

}  // namespace

void check_parts() {
    check_exact_sums();
    for (const bool weighted : {false, true}) {
        context = "giant cluster";
        check_sums_of_a_giant_cluster(weighted);
    }
    const Recipe recipes[] = {
        {"sparse", 300, 40, 13, 0.15},
        {"dense", 200, 6, 9, 1.0, 0, false, false},
    };
    for (const Recipe& recipe : recipes)
        for (const Metric metric : {Metric::euclidean, Metric::cosine})
            for (const bool weighted : {false, true}) {
                context = std::string("parts, ") + recipe.name;
                check_sums_of_parts<float, int32_t>(recipe, metric, weighted, 3);
                check_sums_of_parts<double, int64_t>(recipe, metric, weighted, 1);
            }
}

}  // namespace sparsecluster
