// Mini-batches that learn from one selection of rows after the other.
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/parallel.hpp"
#include "core/rows.hpp"
#include "kmeans/minibatch.hpp"
#include "tests/check_tasks.hpp"

namespace sparsecluster {

namespace {

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

}  // namespace

void check_minibatch(const char* level) {
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

}  // namespace sparsecluster
