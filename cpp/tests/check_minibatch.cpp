// The part of the check driver (see check.cpp) for what works on parts of the rows: selections that show more
// and more of them, mini-batches that learn from one selection after the other, and limits of the centers.
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/centers.hpp"
#include "core/parallel.hpp"
#include "core/rows.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/minibatch.hpp"
#include "kmeans/projection.hpp"
#include "kmeans/sums.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

// What centers are made of their rows.
struct Task {
    const char* name;
    Metric metric = Metric::euclidean;
    bool weighted = false;
    CenterLimit limit = {};
    double lightest = 1;  // times the weight of some rows; fixed point cannot hold all of them
};

const Task kTasks[] = {
    {"means"},
    {"weighted means", Metric::euclidean, true},
    {"means of uneven weights", Metric::euclidean, true, {}, 1e-18},
    {"directions", Metric::cosine},
    {"weighted directions", Metric::cosine, true},
    {"means of few entries", Metric::euclidean, true, {2.0, Projection::exact, 0, 4}},
    {"directions of few entries", Metric::cosine, false, {1.2, Projection::epsilon, 0.01, 5}},
};

std::vector<int64_t> in_order(int64_t n) {
    std::vector<int64_t> ids(n);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
}

std::vector<int64_t> shuffled(int64_t n) {
    std::vector<int64_t> ids = in_order(n);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(5));
    return ids;
}

// The listed rows, with fewer features, or with more that are zero.
Table part_of(const Table& table, const std::vector<int64_t>& ids, int64_t n_features) {
    Table part{int64_t(ids.size()), n_features, {}};
    part.values.assign(part.n_rows * n_features, 0.0);
    for (int64_t i = 0; i < part.n_rows; ++i)
        for (int64_t f = 0; f < std::min(n_features, table.n_features); ++f)
            part.at(i, f) = table.row(ids[i])[f];
    return part;
}

// The first rows that can be centers to start from.
Centers first_centers(const Table& table, const double* weights, int64_t n_clusters, const Task& task) {
    Centers centers;
    centers.n_features = table.n_features;
    for (int64_t i = 0; i < table.n_rows && centers.size() < n_clusters; ++i) {
        const Center center = center_at(table.row(i), table.n_features);
        if (center.size() == 0 || (weights && weights[i] == 0)) continue;
        centers.items.push_back(center_of(center, task.metric, task.limit));
    }
    return centers;
}

double weighted_squares(const Table& table, const double* weights) {
    const std::vector<double> origin(table.n_features, 0.0);
    double sum = 0;
    for (int64_t i = 0; i < table.n_rows; ++i)
        sum += (weights ? weights[i] : 1.0) * squared_distance(table.row(i), origin.data(), table.n_features);
    return sum;
}

std::vector<double> moved2(const Centers& before, const Centers& after) {
    std::vector<double> out;
    for (int64_t k = 0; k < before.size(); ++k) {
        const std::vector<double> from = spread(before.items[k], after.n_features);
        const std::vector<double> to = spread(after.items[k], after.n_features);
        out.push_back(squared_distance(from.data(), to.data(), after.n_features));
    }
    return out;
}

// --- rows that are shown bit by bit -------------------------------------------------------------

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
    Rows selection = base.select(ids.data(), int64_t(ids.size()));
    check_selection<V, I>(base, selection, ids);
    std::vector<int64_t> odd, odd_ids;
    for (size_t i = 1; i < ids.size(); i += 2) odd.push_back(int64_t(i)), odd_ids.push_back(ids[i]);
    const Rows nested = selection.select(odd.data(), int64_t(odd.size()));
    selection = base.select(ids.data(), 0);
    check_selection<V, I>(base, selection, {});
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
void check_nested(const Recipe& recipe, const Task& task, const std::string& place, int n_threads) {
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
    for (const auto& [name, make] : kMakers) {
        context = place + ", " + name;
        const std::unique_ptr<Assigner> assigner = make(rows, {n_threads, task.metric});
        check_growth(ordered, rows, columns, weights, start, task, *assigner, n_threads);
    }
}

// --- mini-batches -------------------------------------------------------------------------------

double length_of(const std::vector<double>& point) {
    double square = 0;
    for (double value : point) square += value * value;
    return std::sqrt(square);
}

// What a stream is to learn: sums of the rows that each center has seen.
class NaiveStream {
public:
    NaiveStream(const Centers& starts, const Task& task)
        : n_features_(starts.n_features), counts_(starts.size(), 0.0), task_(task) {
        for (const Center& start : starts.items) sums_.push_back(spread(start, n_features_));
    }

    void learn(const Table& batch, const double* weights, const std::vector<int32_t>& labels) {
        std::vector<double> total(sums_.size(), 0.0);
        for (int64_t i = 0; i < batch.n_rows; ++i)
            if (counts(batch.row(i))) total[labels[i]] += weights ? weights[i] : 1.0;
        for (size_t k = 0; k < sums_.size(); ++k) {
            if (total[k] > 0 && counts_[k] == 0) sums_[k].assign(n_features_, 0.0);
            counts_[k] += total[k];
        }
        for (int64_t i = 0; i < batch.n_rows; ++i)
            for (int64_t f = 0; f < n_features_; ++f)
                sums_[labels[i]][f] += (weights ? weights[i] : 1.0) * batch.row(i)[f];
        for (size_t k = 0; task_.limit.active() && k < sums_.size(); ++k)
            if (total[k] > 0) put(k, center(k), divisor(k));
    }
    void place(size_t k, const double* row, double count) {
        put(k, center_at(row, n_features_), count > 0 ? count : 1.0);
        counts_[k] = count;
    }
    void widen(int64_t n_features) {
        n_features_ = n_features;
        for (auto& sum : sums_) sum.resize(n_features, 0.0);
    }
    Centers centers() const {
        Centers centers;
        centers.n_features = n_features_;
        for (size_t k = 0; k < sums_.size(); ++k) centers.items.push_back(center(k));
        return centers;
    }
    const std::vector<double>& counts() const { return counts_; }

private:
    // For directions rows that have none do not count.
    bool counts(const double* row) const {
        return task_.metric == Metric::euclidean || length_of({row, row + n_features_}) > 0;
    }
    double divisor(size_t k) const {
        return task_.metric == Metric::cosine ? length_of(sums_[k]) : counts_[k] > 0 ? counts_[k] : 1.0;
    }
    Center center(size_t k) const {
        std::vector<double> point = sums_[k];
        const double by = divisor(k);
        for (double& value : point) value /= by;
        return center_at(point.data(), n_features_);
    }
    // Makes a sum so many times the center that a mean makes.
    void put(size_t k, const Center& mean, double times) {
        sums_[k] = spread(center_of(mean, task_.metric, task_.limit), n_features_);
        for (double& value : sums_[k]) value *= times;
    }

    int64_t n_features_;
    std::vector<std::vector<double>> sums_;
    std::vector<double> counts_;
    const Task& task_;
};

// How a stream is run.
struct Way {
    int n_threads;
    int64_t head_limit;
};

// To the bit: labels and centers, which depend on the rows alone, and what is measured besides, which may
// depend on how the sums are stored.
struct Trace {
    std::vector<double> learned, measured;

    template <class Numbers>
    static void append(std::vector<double>& to, const Numbers& numbers) {
        to.insert(to.end(), numbers.begin(), numbers.end());
    }
    void note(const std::vector<int32_t>& labels, const Centers& centers) {
        append(learned, labels);
        for (const Center& center : centers.items) {
            append(learned, center.features);
            append(learned, center.values);
        }
    }
    void note(const BatchStats& stats) {
        append(measured, stats.shift);
        append(measured, stats.distance2);
    }
};

// One batch, in `table` with all features of the stream.
void check_batch(const Table& table, Rows& rows, const double* weights, double largest, MiniBatch& stream,
                 NaiveStream& naive, int n_threads, Trace& trace) {
    const Centers before = stream.centers();
    std::vector<int32_t> labels(table.n_rows, -1);
    const BatchStats stats = stream.learn(rows, weights, labels.data(), n_threads);
    const Centers after = stream.centers();
    const std::vector<double> distance2 = naive_distances(table, before);
    check(labels == naive_labels(distance2, before.size()), "labels of a batch differ");
    naive.learn(table, weights, labels);
    check(same_centers(table, after, naive.centers(), largest), "centers are not what the rows so far make");
    check(stream.counts() == naive.counts(), "weights of the rows so far differ");

    const double reach = largest * largest * double(table.n_features);
    const std::vector<double> moved = moved2(before, after);
    bool same_shift = true, same_distance = true;
    for (int64_t k = 0; k < before.size(); ++k)
        same_shift &= close(stats.shift[k] * stats.shift[k], moved[k], reach);
    for (int64_t i = 0; i < table.n_rows; ++i)
        same_distance &= close(stats.distance2[i], distance2[i * before.size() + labels[i]], reach);
    check(same_shift, "shifts of a batch differ");
    check(same_distance, "distances of a batch differ");

    trace.note(labels, after);
    trace.note(stats);
}

// Centers that are put where rows are that no center has seen, so that none is nearly the same: one as if it
// had seen some there, the last as one to start from.
void check_placing(const Table& table, const Rows& rows, double largest, MiniBatch& stream,
                   NaiveStream& naive) {
    std::vector<int64_t> useful;
    for (int64_t i = 0; i < table.n_rows; ++i)
        if (rows.norm2()[i] > 0) useful.push_back(i);
    if (useful.size() < 2) return;
    const int32_t last = int32_t(stream.size() - 1);
    stream.place({0}, rows, &useful[0], 2.5);
    stream.place({last}, rows, &useful[1], 0);
    naive.place(0, table.row(useful[0]), 2.5);
    naive.place(last, table.row(useful[1]), 0);
    check(same_centers(table, stream.centers(), naive.centers(), largest), "centers are not where put");
    check(stream.counts() == naive.counts(), "weights of centers that were put somewhere differ");
}

// A stream that is taken up again from its sums goes on to the same bits.
void check_taken_up(MiniBatch& stream, Rows& rows, const Task& task, const Way& way) {
    MiniBatch again(stream.sums(), stream.counts(), task.metric, task.limit, way.head_limit);
    again.squares() = stream.squares();
    std::vector<int32_t> labels(rows.n_rows(), -1), labels_again(rows.n_rows(), -1);
    stream.learn(rows, nullptr, labels.data(), way.n_threads);
    again.learn(rows, nullptr, labels_again.data(), way.n_threads);
    Trace trace, trace_again;
    trace.note(labels, stream.centers());
    trace_again.note(labels_again, again.centers());
    check(trace.learned == trace_again.learned, "a stream that is taken up again goes elsewhere");
}

// A table in the types of a kernel.
template <class V, class I>
struct Source {
    Source(Table rows, bool sparse, Metric metric) : table(std::move(rows)) {
        if (metric == Metric::cosine) put_on_sphere<V>(table);
        sample = std::make_unique<Sample<V, I>>(table, sparse);
    }
    Table table;
    std::unique_ptr<Sample<V, I>> sample;
};

// Batches of the first half of the features, then of all, then of fewer again.
template <class V, class I>
Trace check_stream(const Source<V, I>& wide, const Source<V, I>& narrow, int64_t n_clusters, int64_t n_batch,
                   const Task& task, const Way& way) {
    TeamScope team(way.n_threads);
    const std::vector<int64_t> order = shuffled(wide.table.n_rows);
    std::vector<double> some_weights = make_weights(wide.table.n_rows);
    for (int64_t i = 0; i < wide.table.n_rows; i += 5) some_weights[i] *= task.lightest;
    const double* weights = task.weighted ? some_weights.data() : nullptr;
    const double largest = wide.table.largest();
    Rows rows[] = {narrow.sample->rows(), wide.sample->rows()};
    for (Rows& some : rows) some.inspect(way.n_threads);

    const Centers start =
        first_centers(part_of(narrow.table, order, narrow.table.n_features), weights, n_clusters, task);
    MiniBatch stream(start, std::vector<double>(start.size(), 0.0), task.metric, task.limit, way.head_limit);
    NaiveStream naive(start, task);
    Trace trace;
    const bool is_wide[] = {false, false, true, true, false, true};
    for (int64_t b = 0; b < int64_t(std::size(is_wide)); ++b) {
        if (is_wide[b]) stream.widen(wide.table.n_features), naive.widen(wide.table.n_features);
        // The weights are in the order of the batches.
        const std::vector<int64_t> ids(order.begin() + b * n_batch, order.begin() + (b + 1) * n_batch);
        const Table batch = part_of(is_wide[b] ? wide.table : narrow.table, ids, stream.n_features());
        Rows batch_rows = rows[is_wide[b]].select(ids.data(), n_batch);
        if (b == 3) check_placing(batch, batch_rows, largest, stream, naive);
        check_batch(batch, batch_rows, weights ? weights + b * n_batch : nullptr, largest, stream, naive,
                    way.n_threads, trace);
        if (b + 1 == int64_t(std::size(is_wide))) check_taken_up(stream, batch_rows, task, way);
    }
    return trace;
}

template <class V, class I>
void check_streams(const Recipe& recipe, const Task& task, const std::string& place) {
    constexpr int64_t kBatches = 6;
    const Table table = make_table(recipe);
    const Table half = part_of(table, in_order(table.n_rows), (table.n_features + 1) / 2);
    const Source<V, I> wide(table, recipe.sparse, task.metric), narrow(half, recipe.sparse, task.metric);
    // Sums and centers in tables, in tables until there are more features, and in lists.
    const int64_t in_tables = int64_t(1) << 32, padded = (recipe.n_clusters + 3) / 4 * 4;
    const int64_t at_first = half.n_features * padded * int64_t(sizeof(double));
    std::vector<double> learned;
    for (int64_t head_limit : {in_tables, at_first, int64_t(0)}) {
        std::vector<double> measured;
        for (int n_threads : {1, 3}) {
            context = place + ", " + std::to_string(n_threads) + " threads, " + std::to_string(head_limit) +
                      " bytes";
            const Trace trace = check_stream(wide, narrow, recipe.n_clusters, recipe.n_rows / kBatches, task,
                                             {n_threads, head_limit});
            if (learned.empty()) learned = trace.learned;
            if (measured.empty()) measured = trace.measured;
            check(trace.learned == learned, "labels or centers depend on the threads, or on the memory");
            check(trace.measured == measured, "shifts or distances depend on the threads");
        }
    }
}

// Rows that have no direction, or that add up to none: then the first with one stands for them. Rows that
// nearly do leave a sum, short against what it is a sum of.
void check_directions() {
    struct Case {
        const char* name;
        std::vector<int64_t> batch;
        double count;
        int64_t center;  // the row whose direction it has
    };
    const Table table{6, 4, {0, 1, 0, 0, 0, 0, 0, 0, 0.6, 0, 0.8, 0, -0.6, 0, -0.8, 0, -0.6, 0, -0.8, 1e-8,
                             0, 0, 0, 1}};
    const Case cases[] = {
        {"none", {1}, 0, 0}, {"opposite ones", {1, 2, 3}, 2, 2}, {"nearly opposite ones", {2, 4}, 2, 5}};
    const Sample<double, int32_t> sample(table, true);
    Rows rows = sample.rows();
    rows.inspect(1);
    Centers start, expected;
    start.n_features = expected.n_features = table.n_features;
    start.items = {center_at(table.row(0), table.n_features)};
    for (const Case& c : cases) {
        context = std::string("directions, ") + c.name;
        expected.items = {center_at(table.row(c.center), table.n_features)};
        for (int64_t head_limit : {0, 1 << 20}) {
            MiniBatch stream(start, {0.0}, Metric::cosine, {}, head_limit);
            std::vector<int32_t> labels(c.batch.size(), -1);
            Rows batch = rows.select(c.batch.data(), int64_t(c.batch.size()));
            stream.learn(batch, nullptr, labels.data(), 1);
            check(same_centers(table, stream.centers(), expected, 1), "a center has another direction");
            check(stream.counts()[0] == c.count, "rows are miscounted");
        }
    }
}

// A request to stop a batch leaves the stream as it was, whenever it comes, and the batch can come again.
int requests_until_stop = 0;

bool stop_at_last_request() {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // requests are looked for now and then
    return --requests_until_stop == 0;
}

void check_stopped_stream(const Recipe& recipe) {
    context = std::string("interrupt, ") + recipe.name;
    const Table table = make_table(recipe);
    const Sample<float, int32_t> sample(table, true);
    Rows rows = sample.rows();
    rows.inspect(3);
    const Centers start = first_centers(table, nullptr, recipe.n_clusters, kTasks[0]);
    MiniBatch undisturbed(start, std::vector<double>(start.size(), 0.0), Metric::euclidean, {}, 0);
    std::vector<int32_t> labels(table.n_rows, -1);
    Trace at_first, at_last;
    at_first.note({}, undisturbed.centers());
    undisturbed.learn(rows, nullptr, labels.data(), 3);
    at_last.note({}, undisturbed.centers());
    int n_stops = 0;
    for (bool stopped = true; stopped; n_stops += stopped) {
        MiniBatch stream(start, std::vector<double>(start.size(), 0.0), Metric::euclidean, {}, 0);
        requests_until_stop = n_stops + 1;
        interrupt_requested = stop_at_last_request;
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        try {
            stream.learn(rows, nullptr, labels.data(), 3);
            stopped = false;
        } catch (const Interrupted&) {
        }
        interrupt_requested = nullptr;
        Trace trace, trace_again;
        trace.note({}, stream.centers());
        check(trace.learned == (stopped ? at_first : at_last).learned, "a stop leaves a batch half learned");
        if (stopped) stream.learn(rows, nullptr, labels.data(), 3);
        trace_again.note({}, stream.centers());
        check(trace_again.learned == at_last.learned, "a batch after a stop teaches something else");
    }
    check(n_stops > 0, "a request to stop a batch was not heard");
}

// --- limits of the centers ----------------------------------------------------------------------

// By the definition: sorted magnitudes, and the most of them that stay above the theta which they make.
double naive_threshold(const std::vector<double>& values, double radius) {
    std::vector<double> sorted;
    for (double value : values) sorted.push_back(std::abs(value));
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    double sum = 0, theta = 0;
    for (size_t j = 0; j < sorted.size(); ++j) {
        sum += sorted[j];
        const double next = (sum - radius) / double(j + 1);
        if (sorted[j] > next) theta = next;
    }
    return std::max(theta, 0.0);
}

double shrunk_l1(const std::vector<double>& values, double theta) {
    double sum = 0;
    for (double value : values) sum += std::abs(shrunk(value, theta));
    return sum;
}

void check_threshold(const std::vector<double>& values, double radius) {
    const double exact = naive_threshold(values, radius), l1 = shrunk_l1(values, 0);
    std::vector<double> scratch;
    auto threshold = [&](Projection method, double epsilon) {
        return l1_threshold(values.data(), int64_t(values.size()), radius, method, epsilon, scratch);
    };
    check(close(threshold(Projection::exact, 0), exact, l1), "the threshold of an exact projection differs");
    for (double epsilon : {0.0, 1e-6, 0.01, 0.5}) {
        const double theta = threshold(Projection::epsilon, epsilon), left = shrunk_l1(values, theta);
        check(theta <= exact + 1e-12 * l1, "a projection to within epsilon goes too far");
        check(left <= radius * (1 + epsilon) + 1e-12 * l1, "a projection to within epsilon does not arrive");
        check(theta == 0 || left >= radius - 1e-12 * l1, "a projection to within epsilon falls short");
    }
}

void to_unit_length(std::vector<double>& point) {
    const double length = length_of(point);
    for (double& value : point) value /= length;
}

// How much has to go until the L1 norm of what is left is at most so many times its length.
double naive_unit_threshold(const std::vector<double>& values, double radius) {
    auto fits = [&](double theta) {
        std::vector<double> left = values;
        for (double& value : left) value = shrunk(value, theta);
        return shrunk_l1(left, 0) <= radius * (1 + 1e-12) * length_of(left);
    };
    if (fits(0)) return 0;
    double lower = 0, upper = 0;
    for (double value : values) upper = std::max(upper, std::abs(value));
    for (int step = 0; step < 200; ++step) {
        const double theta = 0.5 * (lower + upper);
        (fits(theta) ? upper : lower) = theta;
    }
    return lower;
}

// Projected, then the largest kept, of equals the first.
std::vector<double> naive_center(std::vector<double> point, Metric metric, const CenterLimit& limit) {
    if (metric == Metric::cosine) to_unit_length(point);
    const double theta =
        metric == Metric::cosine ? naive_unit_threshold(point, limit.l1) : naive_threshold(point, limit.l1);
    for (double& value : point) value = shrunk(value, theta);
    std::vector<int64_t> order = in_order(int64_t(point.size()));
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return std::abs(point[a]) > std::abs(point[b]); });
    for (int64_t j = limit.nnz; j < int64_t(order.size()); ++j) point[order[j]] = 0;
    if (metric == Metric::cosine) to_unit_length(point);
    return point;
}

void check_center(const std::vector<double>& point, Metric metric, const CenterLimit& limit) {
    const int64_t n = int64_t(point.size());
    const Center center = center_of(center_at(point.data(), n), metric, limit);
    const std::vector<double> expected = naive_center(point, metric, limit), found = spread(center, n);
    bool same = true, stored = true;
    for (int64_t f = 0; f < n; ++f) same &= close(found[f], expected[f], length_of(point));
    for (int64_t e = 0; e < center.size(); ++e)
        stored &= center.values[e] != 0 && (e == 0 || center.features[e - 1] < center.features[e]);
    check(same, "a center within limits differs");
    check(stored, "a center within limits stores zeros, or is not in order");
    check(center.size() <= limit.nnz, "a center has more entries than it may");
    check(close(std::sqrt(center.norm2), length_of(found), length_of(point)), "the norm of a center differs");
}

// --- what is run ---------------------------------------------------------------------------------

std::string place_of(const Recipe& recipe, const Task& task, const char* types, const char* level) {
    return std::string(recipe.name) + ", " + task.name + ", " + types + ", " + level;
}

// One of the types, the next one at the next turn.
template <class Run>
void with_types(size_t turn, const Run& run) {
    switch (turn % 4) {
        case 0: return run.template operator()<float, int32_t>("float32 int32");
        case 1: return run.template operator()<double, int64_t>("float64 int64");
        case 2: return run.template operator()<float, int64_t>("float32 int64");
        default: return run.template operator()<double, int32_t>("float64 int32");
    }
}

// Ties are sure to stay only where centers are means; much data takes its time.
bool go_together(const Recipe& recipe, const Task& task) {
    const bool large = recipe.n_rows * recipe.n_features > 100000;
    const bool plain = task.metric == Metric::euclidean && !task.limit.active();
    return (plain || !recipe.integers) && (!large || (task.weighted && task.lightest == 1));
}

// Calls run(recipe, task, turn) for what goes together.
template <size_t kRecipes, class Run>
void for_tasks(const Recipe (&recipes)[kRecipes], const Run& run) {
    size_t turn = 0;
    for (const Recipe& recipe : recipes)
        for (const Task& task : kTasks)
            if (go_together(recipe, task)) run(recipe, task, turn++);
}

}  // namespace

void check_parts(const char* level) {
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
                check_nested<V, I>(recipe, task, place + std::to_string(n_threads) + " threads", n_threads);
        });
    });
    // Batches are a sixth of the rows.
    const Recipe streams[] = {
        // Large against the centers: these are worth an index.
        {"large batches", 1500, 30, 7, 0.3},
        {"large dense batches", 600, 7, 5, 1.0, 0, false, false},
        {"large batches with ties", 1200, 8, 10, 0.5, 0, true},
        // Enough entries for threads to share out the features.
        {"long dense batches", 2400, 100, 4, 1.0, 0, false, false},
        {"long batches", 216, 2400, 2, 0.5},
        // Not worth an index.
        {"small batches", 72, 1000, 5, 0.01},
        {"small dense batches", 24, 60, 6, 1.0, 0, false, false},
        {"small batches far from the origin", 24, 60, 3, 1.0, 1000, false, false},
        {"small batches with ties", 36, 12, 6, 0.4, 0, true},
        {"small batches, many clusters", 120, 300, 44, 0.05},
    };
    for_tasks(streams, [&](const Recipe& recipe, const Task& task, size_t turn) {
        with_types(turn, [&]<class V, class I>(const char* types) {
            check_streams<V, I>(recipe, task, place_of(recipe, task, types, level));
        });
    });
    check_directions();
    check_stopped_stream({"large batch", 250, 30, 7, 0.3});
    check_stopped_stream({"small batch", 12, 1000, 5, 0.01});
}

void check_projection() {
    context = "projection";
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    for (int64_t size : {1, 2, 7, 16, 17, 50, 1000}) {
        for (bool integers : {false, true}) {
            std::vector<double> values(size);
            for (double& value : values) value = integers ? double(random() % 5) - 2 : normal(random);
            values[0] = 3;  // not all are zero
            for (double share : {1e-6, 0.1, 0.5, 0.999, 1.0, 2.0, double(INFINITY)})
                check_threshold(values, share * shrunk_l1(values, 0));
            for (Metric metric : {Metric::euclidean, Metric::cosine})
                for (int64_t nnz : {int64_t(1), int64_t(5), INT64_MAX})
                    for (double radius : {metric == Metric::cosine ? 1.0 : 0.5, 1.5, 4.0, double(INFINITY)})
                        check_center(values, metric, {radius, Projection::exact, 0, nnz});
        }
    }
    check_threshold({}, 1);
    check_threshold({0, 0}, 1);
}

}  // namespace sparsecluster
