// Rows that are shown bit by bit: selections, and assignment and sums while they grow.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/rows.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/sums.hpp"
#include "tests/check_tasks.hpp"

namespace sparsecluster {

namespace {

// Rows, norms and counts of a selection, which has the entries of the base itself.
template <class V, class I>
void check_selection(const Rows& base, const Rows& selection, const std::vector<int64_t>& ids) {
    const auto& all = std::get<Matrix<V, I>>(base.matrix());
    const auto& some = std::get<Matrix<V, I>>(selection.matrix());
    check(selection.n_rows() == int64_t(ids.size()) && selection.n_features() == base.n_features(),
          "the shape of a selection differs");
    bool same = true, same_norm = selection.scale() == base.scale() && selection.max_norm() == base.max_norm();
    int64_t entries = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
        const Row<V, I> row = some.row(int64_t(i)), origin = all.row(ids[i]);
        same &= row.features == origin.features && row.values == origin.values && row.size == origin.size;
        same_norm &= selection.norm2()[i] == base.norm2()[ids[i]];
        entries += row.size;
    }
    check(same, "a selection has other rows");
    check(same_norm, "a selection has other norms");
    check(selection.nnz() == entries, "entries of a selection are miscounted");
}

// Selections of rows, of a part of them, of a selection, of nothing.
template <class V, class I>
void check_selections(const Rows& base, const std::vector<int64_t>& ids) {
    auto selection = std::make_unique<Rows>(base.select(ids.data(), int64_t(ids.size())));
    check_selection<V, I>(base, *selection, ids);
    std::vector<int64_t> odd, odd_ids;
    for (size_t i = 1; i < ids.size(); i += 2) odd.push_back(int64_t(i)), odd_ids.push_back(ids[i]);
    const Rows nested = selection->select(odd.data(), int64_t(odd.size()));
    selection = std::make_unique<Rows>(base.select(ids.data(), 0));
    check_selection<V, I>(base, *selection, {});
    check_selection<V, I>(base, nested, odd_ids);  // what it was selected from is gone
}

// The centers that the labels make; a cluster without weight, or without direction, keeps its center.
Centers naive_centers(const Table& table, const std::vector<int32_t>& labels, const double* weights,
                      const Centers& before, const Task& task) {
    Centers centers = naive_means(table, labels, weights, before);
    std::vector<double> total(before.size(), 0.0);
    for (int64_t i = 0; i < table.n_rows; ++i) total[labels[i]] += weights ? weights[i] : 1.0;
    for (int64_t k = 0; k < before.size(); ++k) {
        const bool none = task.metric == Metric::cosine && centers.items[k].norm2 == 0;
        centers.items[k] = total[k] == 0 || none ? before.items[k]
                                                 : center_of(centers.items[k], task.metric, task.limit);
    }
    return centers;
}

// Squared norms of the means of clusters that have any.
void check_mean_norms(const Table& table, const std::vector<int32_t>& labels, const double* weights,
                      const std::vector<double>& norm2) {
    Centers nothing;
    nothing.items.resize(norm2.size());
    const Centers means = naive_means(table, labels, weights, nothing);
    bool same = true;
    for (size_t k = 0; k < norm2.size(); ++k)
        same &= means.items[k].size() == 0 || close(norm2[k], means.items[k].norm2, table.largest());
    check(same, "norms of means differ");
}

// What happens before the next assignment.
struct Stage {
    double shown;         // share of the rows
    int64_t every;        // one in so many centers moves; 0: none
    bool refill = false;  // a row is given to another cluster
};
const Stage kStages[] = {{0.1, 0}, {0.1, 0}, {0.2, 0}, {0.4, 3}, {0.4, 4}, {0.6, 1}, {0.7, 5, true},
                         {0.8, 0, true}, {0.9, 1}, {1.0, 2}, {1.0, 2}, {1.0, 1, true}};

// One in `every` centers goes to where the others are; how far.
std::vector<double> move_some(Centers& centers, const Centers& others, int64_t every) {
    const Centers before = centers;
    for (int64_t k = every / 2; every > 0 && k < centers.size(); k += every)
        centers.items[k] = others.items[k];
    std::vector<double> shift = moved2(before, centers);
    for (double& value : shift) value = std::sqrt(value);
    return shift;
}

// The labels of all rows in the order of the selection, `table`, while more and more of them are shown; the
// sums follow.
void check_growth(const Table& table, const Rows& rows, const ColumnStats& columns, const double* weights,
                  Centers centers, const Task& task, Assigner& assigner, int n_threads) {
    const int64_t n_clusters = centers.size();
    const double largest = table.largest();
    Sums sums(rows, columns, weights, n_clusters, task.metric, task.limit);
    Centers means = centers;
    std::vector<int32_t> labels(table.n_rows, -1);
    for (const Stage& stage : kStages) {
        const int64_t n = std::max<int64_t>(1, int64_t(stage.shown * double(table.n_rows)));
        const Table part = part_of(table, in_order(n), table.n_features);
        if (stage.refill) {
            labels[0] = int32_t((labels[0] + 1) % n_clusters);
            assigner.forget(0);
        }
        const std::vector<double> shift = move_some(centers, means, stage.every);
        const std::vector<int32_t> before = labels;
        const AssignStats assigned = assigner.assign(centers, shift, labels.data(), n);
        const std::vector<int32_t> expected = naive_labels(naive_distances(part, centers), n_clusters);
        check(std::equal(expected.begin(), expected.end(), labels.begin()), "labels of rows shown differ");
        const bool hidden = std::count(labels.begin() + n, labels.end(), -1) == table.n_rows - n;
        check(hidden, "a row that is not shown has a label");
        int64_t moved = 0;
        for (int64_t i = 0; i < n; ++i) moved += labels[i] != before[i];
        check(assigned.moved == moved, "rows that moved are miscounted");

        const Centers expected_means = naive_centers(part, labels, weights, means, task);
        const UpdateStats updated = sums.update(labels.data(), n, means, n_threads);
        check(same_centers(part, means, expected_means, largest), "centers are not those of the rows shown");
        check_mean_norms(part, labels, weights, sums.mean_norm2());
        const std::vector<double> distance2 = naive_distances(part, means);
        double cost = 0;
        for (int64_t i = 0; i < n; ++i)
            cost += (weights ? weights[i] : 1.0) * distance2[i * n_clusters + labels[i]];
        check(close(updated.cost, cost, cost + weighted_squares(part, weights)), "the cost differs");
    }
}

template <class V, class I>
void check_nested_rows(const Recipe& recipe, const Task& task, const std::string& place, int n_threads) {
    context = place;
    Table table = make_table(recipe);
    if (task.metric == Metric::cosine) put_on_sphere<V>(table);
    const Sample<V, I> sample(table, recipe.sparse);
    Rows base = sample.rows();
    base.inspect(n_threads);
    const std::vector<int64_t> order = shuffled(table.n_rows);
    check_selections<V, I>(base, order);

    std::vector<double> some_weights = make_weights(table.n_rows);
    for (int64_t i = 0; i < table.n_rows; i += 5) some_weights[i] *= task.lightest;
    const double* weights = task.weighted ? some_weights.data() : nullptr;
    Rows rows = base.select(order.data(), table.n_rows);
    const ColumnStats columns = column_stats(rows, weights);
    const Table ordered = part_of(table, order, table.n_features);
    const Centers start = first_centers(ordered, weights, recipe.n_clusters, task);
    for (const Algorithm* algorithm : kAlgorithms) {
        const auto& [name, make, bytes] = *algorithm;
        context = place + ", " + name;
        const std::unique_ptr<Assigner> assigner = make(rows, {n_threads, task.metric});
        check_growth(ordered, rows, columns, weights, start, task, *assigner, n_threads);
    }
}

}  // namespace

void check_nested(const char* level) {
    const Recipe nested[] = {
        {"sparse", 300, 40, 13, 0.15},
        {"dense", 200, 6, 9, 1.0, 0, false, false},
        {"ties", 200, 8, 10, 0.5, 0, true},
        {"several tiles", 150, 15, 70, 0.4},
    };
    for_tasks(nested, [&](const Recipe& recipe, const Task& task, size_t turn) {
        with_types(turn, [&]<class V, class I>(const char* types) {
            const std::string place = place_of(recipe, task, types, level) + ", shown bit by bit, ";
            for (int n_threads : {1, 3})
                check_nested_rows<V, I>(recipe, task, place + std::to_string(n_threads) + " threads", n_threads);
        });
    });
}

}  // namespace sparsecluster
