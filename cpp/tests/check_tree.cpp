// Nodes split within bounds, to the bit the same for any number of threads; the assignment against trying all.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "simd/kernels.hpp"
#include "sizes/balanced_assign.hpp"
#include "sizes/best_lane.hpp"
#include "tests/check.hpp"
#include "tree/column_marks.hpp"
#include "tree/grow.hpp"
#include "tree/node_sums.hpp"
#include "tree/quantized_rows.hpp"
#include "tree/route.hpp"
#include "tree/split.hpp"

namespace sparsecluster {

namespace {

// The best total of scores within the bounds, by trying all ways.
double best_total(const std::vector<double>& scores, int64_t n, int k, SizeBounds bounds, int64_t i,
                  std::vector<int64_t>& sizes) {
    if (i == n) {
        for (int64_t size : sizes)
            if (size < bounds.least) return -INFINITY;
        return 0;
    }
    double best = -INFINITY;
    for (int c = 0; c < k; ++c) {
        if (sizes[c] == bounds.most) continue;
        ++sizes[c];
        best = std::max(best, scores[i * k + c] + best_total(scores, n, k, bounds, i + 1, sizes));
        --sizes[c];
    }
    return best;
}

// Whether no circle of moves, nor a way from a cluster that may lose a row to one that may get one, gains anything.
bool is_best(const std::vector<double>& scores, const std::vector<int32_t>& labels, const std::vector<int64_t>& sizes,
             SizeBounds bounds) {
    const int k = int(sizes.size());
    std::vector<double> loss((k + 1) * (k + 1), INFINITY);  // the last one is outside
    for (size_t i = 0; i < labels.size(); ++i)
        for (int b = 0; b < k; ++b) {
            double& least = loss[labels[i] * (k + 1) + b];
            least = std::min(least, scores[i * k + labels[i]] - scores[i * k + b]);
        }
    for (int c = 0; c < k; ++c) {
        if (sizes[c] > bounds.least) loss[k * (k + 1) + c] = 0;
        if (sizes[c] < bounds.most) loss[c * (k + 1) + k] = 0;
    }
    for (int by = 0; by <= k; ++by)
        for (int a = 0; a <= k; ++a)
            for (int b = 0; b <= k; ++b) {
                const double over = loss[a * (k + 1) + by] + loss[by * (k + 1) + b];
                if (over < loss[a * (k + 1) + b]) loss[a * (k + 1) + b] = over;
            }
    for (int c = 0; c <= k; ++c)
        if (loss[c * (k + 1) + c] < -1e-9) return false;
    return true;
}

void check_assignment(unsigned seed, int64_t n, int k, SizeBounds bounds, bool ties, bool exhaustive) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    std::vector<double> scores(n * k);
    for (int64_t at = 0; at < n * k; ++at)
        scores[at] = ties ? double(random() % 3) : uniform(random) + (at % k == 0 ? 1.0 : 0.0);
    std::vector<int32_t> labels(n), again(n);
    BalancedAssigner<double>().assign(scores.data(), n, k, k, bounds, labels.data(), 1);
    BalancedAssigner<double>().assign(scores.data(), n, k, k, bounds, again.data(), 3);
    check(labels == again, "bounded labels depend on the number of threads");
    std::vector<int64_t> sizes(k, 0);
    double total = 0;
    for (int64_t i = 0; i < n; ++i) ++sizes[labels[i]], total += scores[i * k + labels[i]];
    for (int64_t size : sizes) check(size >= bounds.least && size <= bounds.most, "a size is out of bounds");
    if (n <= 1000) check(is_best(scores, labels, sizes, bounds), "an assignment within bounds can be improved");
    if (!exhaustive) return;
    std::vector<int64_t> none(k, 0);
    const double best = best_total(scores, n, k, bounds, 0, none);
    check(std::abs(total - best) <= 1e-9, "a balanced assignment is not the best");
}

template <class T>
void check_best_lanes(unsigned seed, int64_t n, int stride) {
    std::mt19937 random(seed);
    std::vector<T> scores((n + 1) * stride), prices(stride), best(n);
    for (T& score : scores) score = T(random() % 8);
    for (T& price : prices) price = T(random() % 3);
    if (stride > 1) prices.back() = std::numeric_limits<T>::infinity();
    std::vector<int64_t> rows(n);
    for (int64_t& row : rows) row = int64_t(random() % uint32_t(n + 1));
    std::vector<int32_t> labels(n);
    for (const int64_t* of : {static_cast<const int64_t*>(rows.data()), static_cast<const int64_t*>(nullptr)}) {
        best_lanes(scores.data(), of, n, stride, prices.data(), labels.data(), best.data());
        for (int64_t j = 0; j < n; ++j) {
            const T* const row = scores.data() + (of ? of[j] : j) * stride;
            int at = 0;
            for (int c = 1; c < stride; ++c)
                if (row[c] - prices[c] > row[at] - prices[at]) at = c;
            check(labels[j] == at && best[j] == row[at] - prices[at], "not the first of the best lanes");
        }
    }
}

bool same(const Split& a, const Split& b) {
    if (a.labels != b.labels || a.costs != b.costs || a.centers.size() != b.centers.size()) return false;
    for (size_t c = 0; c < a.centers.size(); ++c)
        if (a.centers[c].features != b.centers[c].features || a.centers[c].values != b.centers[c].values) return false;
    return true;
}

void check_nodes(const Recipe& recipe, bool bounded, bool unit) {
    const Table table = make_table(recipe);
    const Sample<float, int32_t> sample(table, recipe.sparse);
    Rows rows = sample.rows();
    check(rows.inspect(2).fault == Fault::none, "the rows of a tree have a fault");
    std::vector<int32_t> ids(table.n_rows);
    for (int64_t i = 0; i < table.n_rows; ++i) ids[i] = int32_t(i);
    const int k = int(recipe.n_clusters);
    const int64_t half = table.n_rows / 2;
    std::vector<NodeTask> nodes;
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, table.n_rows}, {0, half}, {half, table.n_rows - half}})
        if (n >= k) nodes.push_back({ids.data() + first, n, k, bounded ? Bounding::always : Bounding::none, {n / k, (n + k - 1) / k}, uint64_t(first + n)});
    SplitOptions options;
    options.unit = unit;
    const std::vector<Split> one = split_nodes(rows, nodes, options);
    options.n_threads = 3;
    const std::vector<Split> three = split_nodes(rows, nodes, options);
    for (size_t t = 0; t < nodes.size(); ++t) {
        check(same(one[t], three[t]), "a split depends on the number of threads");
        std::vector<int64_t> sizes(one[t].centers.size(), 0);
        for (int32_t label : one[t].labels) ++sizes.at(label);
        for (int64_t size : sizes)
            check(size > 0 && (!bounded || (size >= nodes[t].bounds.least && size <= nodes[t].bounds.most)),
                  "a child has a size that it may not have");
        check(!bounded || int(sizes.size()) == k, "a split within bounds has fewer children");
    }
    if (bounded || nodes.empty()) return;
    // A tree of one level routes rows as the split did.
    const Split& split = one[0];
    const auto n_children = int32_t(split.centers.size());
    std::vector<int32_t> first_child(n_children + 1, 0), counts(n_children + 1, 0), columns;
    first_child[0] = 1, counts[0] = n_children;
    std::vector<int64_t> indptr{0, 0};
    std::vector<double> values;
    for (const Center& center : split.centers) {
        columns.insert(columns.end(), center.features.begin(), center.features.end());
        values.insert(values.end(), center.values.begin(), center.values.end());
        indptr.push_back(int64_t(columns.size()));
    }
    const TreeView tree{n_children + 1, first_child.data(), counts.data(), indptr.data(), columns.data(), values.data(),
                        unit};
    for (const int beam : {1, 3}) {
        const std::vector<int32_t> leaves = route(rows, tree, beam, 2);
        for (int64_t i = 0; i < table.n_rows; ++i)
            check(leaves[i] == split.labels[i] + 1, "a row is not taken to its own child");
    }
}

// Two levels: the same for any number of threads; rows stand node by node, and centers are those of their rows.
void check_growth(Bounding bounding) {
    const Table table = make_table({"sparse", 300, 60, 5, 0.1});
    const Sample<float, int32_t> sample(table, true);
    Rows rows = sample.rows();
    check(rows.inspect(2).fault == Fault::none, "the rows of a tree have a fault");
    std::vector<int32_t> orders[2];
    TreeGrower::Csr centers[2];
    for (const int t : {0, 1}) {
        SplitOptions options;
        options.n_threads = 1 + 2 * t;
        TreeGrower grower(rows, options);
        const auto first = grower.split({{0, 300, 3, {60, 120}, 7}}, bounding, nullptr);
        std::vector<TreeGrower::Node> nodes;
        int64_t begin = 0;
        for (const int64_t size : first.sizes) {
            nodes.push_back({begin, size, 4, {size / 8, size - size / 8}, uint64_t(size)});
            begin += size;
        }
        check(begin == 300, "children have not the rows of their parent");
        const auto second = grower.split(nodes, bounding, nullptr);
        begin = 0;
        for (const int64_t size : second.sizes) begin += size;
        check(begin == 300, "children have not the rows of their parents");
        orders[t] = grower.order();
        centers[t] = grower.take_centers();
        check(int64_t(centers[t].indptr.size()) == 2 + int64_t(first.sizes.size() + second.sizes.size()),
              "not as many centers as nodes");
    }
    check(orders[0] == orders[1] && centers[0].indptr == centers[1].indptr, "a tree depends on the number of threads");
    for (int64_t e = 0; e < centers[0].indptr.back(); ++e)
        check(centers[0].columns[e] == centers[1].columns[e] && centers[0].values[e] == centers[1].values[e],
              "centers depend on the number of threads");
    std::sort(orders[0].begin(), orders[0].end());
    for (int32_t i = 0; i < 300; ++i) check(orders[0][i] == i, "a row is lost");
}

// Room that was made for few columns grows with them.
void check_column_marks() {
    context = "column marks";
    ColumnMarks marks;
    for (const int32_t n_columns : {1, 200, 300, 2047, 2048, 5000, 300}) {
        marks.reserve(n_columns);
        std::vector<int64_t> expected, found;
        for (int32_t column = 0; column < n_columns; column += 7) expected.push_back(column);
        for (auto column = expected.rbegin(); column != expected.rend(); ++column) marks.mark(int32_t(*column));
        marks.take([&](int64_t column) { found.push_back(column); });
        check(found == expected, "columns that were marked are not those that are listed");
    }
}

// Products, sums and distances of 16-bit rows against those of the rows themselves.
void check_quantized_rows(bool unit, int k) {
    context = "quantized rows";
    const Table table = make_table({"most cells", 300, 33, k, 0.6});
    const Sample<float, int32_t> sample(table, true);
    Rows rows = sample.rows();
    check(rows.inspect(2).fault == Fault::none, "the rows of a node have a fault");
    std::vector<int32_t> ids(table.n_rows);
    for (int64_t i = 0; i < table.n_rows; ++i) ids[i] = int32_t(i);
    SplitOptions options;
    options.unit = unit;
    NodePoints<float> points;
    points.load(rows, ids.data(), table.n_rows, options, 1);
    QuantizedRows quantized;
    const bool loaded = quantized.load(points);
    check(loaded, "rows of most cells are not quantized");
    if (!loaded) return;
    std::vector<int32_t> labels(table.n_rows), other(table.n_rows);
    for (int64_t i = 0; i < table.n_rows; ++i) labels[i] = int32_t(i % k), other[i] = int32_t(i % 9 == 0 ? (i + 1) % k : i % k);
    NodeSums<float, float> plain;
    LaneTable<float> sums;
    plain.reset(points, k);
    sums.reserve(points.rows.n_columns(), lanes_for<float>(k));
    double most = 0;
    for (int64_t i = 0; i < table.n_rows; ++i) most = std::max(most, rows.norm2()[i]);
    const double close = 1e-4 * std::sqrt(most) * double(table.n_rows);
    // From nothing, then only what moved.
    for (const auto& of : {labels, other}) {
        plain.sum(points, of);
        quantized.sum(of, k, 1, NodeRows<float>::kBlock, 3, sums);
        for (int64_t at = 0; at < sums.size(); ++at)
            check(std::abs(double(sums.column(0)[at]) - double(plain.table.column(0)[at])) <= close, "sums of 16-bit rows are off");
    }
    std::vector<double> norms2(sums.lanes());
    lane_norms2(sums, norms2.data());
    for (int c = 0; c < k; ++c) {
        const double by = unit ? std::sqrt(norms2[c]) : double(table.n_rows) / k * 2;
        sums.scales[c] = plain.table.scales[c] = float(1 / by);
        sums.halves[c] = plain.table.halves[c] = float(c) / 16;
    }
    quantized.set_centers(sums);
    std::vector<float> exact(table.n_rows * sums.lanes()), found(exact.size());
    points.rows.rows(0, table.n_rows, [&](const NodeBlock<float>& block) { lane_scores(block, plain.table, exact.data()); });
    quantized.scores(0, table.n_rows, found.data());
    for (int64_t i = 0; i < table.n_rows; ++i)
        for (int c = 0; c < k; ++c)
            check(std::abs(exact[i * sums.lanes() + c] - found[i * sums.lanes() + c]) <= 1e-3 * std::max(most, 1.0),
                  "scores of 16-bit rows are off");
    check(quantized.distance2(3, 3) == 0, "a row is apart from itself");
}

// Short rows beside a long one would have no digits left.
void check_unlike_rows() {
    context = "rows of unlike lengths";
    Table table = make_table({"most cells", 300, 33, 2, 0.6});
    for (int64_t f = 0; f < table.n_features; ++f) table.at(0, f) = 100;
    const Sample<float, int32_t> sample(table, true);
    Rows rows = sample.rows();
    check(rows.inspect(1).fault == Fault::none, "the rows of a node have a fault");
    std::vector<int32_t> ids(table.n_rows);
    for (int64_t i = 0; i < table.n_rows; ++i) ids[i] = int32_t(i);
    NodePoints<float> points;
    points.load(rows, ids.data(), table.n_rows, SplitOptions(), 1);
    check(!QuantizedRows().load(points), "short rows beside a long one are quantized");
}

}  // namespace

// Sums of 16-bit products against plain ones, with all signs, the largest numbers, and nothing written beyond the last.
void check_pair_products(const char* level) {
    context = std::string("pair products, ") + level;
    constexpr int32_t kGuard = 0x5a5a5a5a;
    std::mt19937 random(3);
    for (const int64_t n_rows : {1, 2, 7, 8, 9, 16, 33})
        for (const int64_t n_pairs : {1, 2, 5, 32})
            for (const int64_t lanes : {kProductLanes, 2 * kProductLanes}) {
                const int64_t stride = 2 * n_pairs + 2 * (n_rows % 2);
                const int most = n_pairs == 1 ? 32760 : 32760 / int(n_pairs);
                std::uniform_int_distribution<int> value(-most, most);
                std::vector<int16_t> rows(n_rows * stride), table(2 * n_pairs * lanes);
                for (int16_t& one : rows) one = int16_t(random() % 4 == 0 ? (random() % 2 ? most : -most) : value(random));
                for (int16_t& one : table) one = int16_t(random() % 4 == 0 ? (random() % 2 ? most : -most) : value(random));
                std::vector<int32_t> sums(n_rows * lanes + 1, kGuard);
                kernels().pair_products(rows.data(), stride, n_rows, n_pairs, table.data(), lanes, sums.data());
                bool same = sums.back() == kGuard;
                for (int64_t r = 0; r < n_rows; ++r)
                    for (int64_t c = 0; c < lanes; ++c) {
                        int64_t sum = 0;
                        for (int64_t p = 0; p < 2 * n_pairs; ++p)
                            sum += int64_t(rows[r * stride + p]) * table[(p / 2 * lanes + c) * 2 + p % 2];
                        same &= sums[r * lanes + c] == sum;
                    }
                check(same, "products of pairs differ");
            }
}

void check_tree() {
    check_unlike_rows();
    for (const bool unit : {false, true})
        for (const int k : {2, 16, 17}) check_quantized_rows(unit, k);
    check_column_marks();
    for (const int stride : {1, 2, 3, 4, 6, 8, 12, 16, 20, 32, 48, 64, 80})
        for (const int64_t n : {1, 2, 7, 8, 19, 37})
            check_best_lanes<float>(unsigned(stride), n, stride), check_best_lanes<double>(unsigned(stride), n, stride);
    check_growth(Bounding::if_needed);
    check_growth(Bounding::always);
    for (unsigned seed = 0; seed < 20; ++seed) {
        check_assignment(seed, 9, 3, {3, 3}, false, true);
        check_assignment(seed, 8, 3, {2, 3}, seed % 2, true);
        check_assignment(seed, 200, 7, {28, 29}, seed % 2, false);
        check_assignment(seed, 300, 16, {18, 19}, seed % 2, false);
    }
    for (unsigned seed = 0; seed < 20; ++seed) check_assignment(seed, 300, 5, {1, 250}, seed % 2, false);
    check_assignment(1, 20000, 16, {1250, 1250}, false, false);
    check_assignment(2, 20000, 16, {1250, 1250}, true, false);
    const Recipe recipes[] = {
        {"sparse", 300, 60, 5, 0.1},         {"ties", 100, 5, 3, 0.5, 0, true},
        {"dense", 120, 6, 4, 1.0, 0, false, false}, {"one row", 1, 5, 1, 0.5},
        {"no entries", 30, 5, 3, 0.0},       {"many children", 200, 40, 40, 0.2},
        {"wide", 400, 700, 4, 0.02},         {"most cells", 700, 33, 20, 0.6},
    };
    for (const Recipe& recipe : recipes)
        for (const bool bounded : {false, true})
            for (const bool unit : {false, true}) {
                if (unit && recipe.offset != 0) continue;
                check_nodes(recipe, bounded, unit);
            }
}

}  // namespace sparsecluster
