// Trees against the definitions of their linkages: every merge is the cheapest that there is.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <vector>

#include "hierarchy/agglomerate.hpp"
#include "hierarchy/feature_lists.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

using Members = std::vector<int64_t>;

std::vector<double> mean_of(const Table& table, const Members& members) {
    std::vector<double> mean(table.n_features, 0.0);
    for (const int64_t i : members)
        for (int64_t f = 0; f < table.n_features; ++f) mean[f] += table.row(i)[f] / double(members.size());
    return mean;
}

double naive_cost(const Table& table, Linkage linkage, const Members& a, const Members& b) {
    if (linkage == Linkage::average) {
        double sum = 0;
        for (const int64_t i : a)
            for (const int64_t j : b) sum += squared_distance(table.row(i), table.row(j), table.n_features);
        return sum / double(a.size()) / double(b.size());
    }
    const std::vector<double> one = mean_of(table, a), other = mean_of(table, b);
    const double distance2 = squared_distance(one.data(), other.data(), table.n_features);
    if (linkage == Linkage::centroid) return distance2;
    return 2.0 * double(a.size()) * double(b.size()) / double(a.size() + b.size()) * distance2;
}

void check_merges(const Table& table, Linkage linkage, const Merges& merges) {
    const double scale = table.largest() * table.largest() * double(table.n_features) + 1e-9;
    std::map<int64_t, Members> clusters;
    for (int64_t i = 0; i < table.n_rows; ++i) clusters[i] = {i};
    check(int64_t(merges.cost.size()) == table.n_rows - 1, "a tree has another number of merges");
    for (size_t m = 0; m < merges.cost.size(); ++m) {
        double least = INFINITY;
        for (auto a = clusters.begin(); a != clusters.end(); ++a)
            for (auto b = std::next(a); b != clusters.end(); ++b)
                least = std::min(least, naive_cost(table, linkage, a->second, b->second));
        Members &one = clusters.at(merges.one[m]), &other = clusters.at(merges.other[m]);
        const double cost = naive_cost(table, linkage, one, other);
        check(close(merges.cost[m], cost, scale), "a merge does not cost what it should");
        check(close(cost, least, scale), "a merge is not the cheapest");
        one.insert(one.end(), other.begin(), other.end());
        clusters.erase(merges.other[m]);
    }
}

void check_tree(const Recipe& recipe) {
    const Table table = make_table(recipe);
    const Sample<float, int32_t> sample(table, recipe.sparse);
    Rows rows = sample.rows();
    check(rows.inspect(2).fault == Fault::none, "the rows of a tree have a fault");
    for (const Linkage linkage : {Linkage::ward, Linkage::centroid, Linkage::average}) {
        std::vector<Merges> found;
        for (const int n_threads : {1, 3}) {
            AgglomerateOptions options;
            options.linkage = linkage;
            options.n_threads = n_threads;
            options.cache_bytes = n_threads == 1 ? 1 : 1 << 20;
            found.push_back(agglomerate(rows, options));
            check_merges(table, linkage, found.back());
        }
    }
    const FeatureLists lists = lists_of(rows, nullptr);
    std::vector<double> products(table.n_rows * table.n_rows);
    total_terms(Product(), rows, 0, table.n_rows, lists, products.data(), 3);
    for (int64_t i = 0; i < table.n_rows; ++i)
        for (int64_t j = 0; j < table.n_rows; ++j) {
            double expected = 0;
            for (int64_t f = 0; f < table.n_features; ++f) expected += table.row(i)[f] * table.row(j)[f];
            check(close(products[i * table.n_rows + j], expected, std::abs(expected) + 1), "a product differs");
        }
}

}  // namespace

void check_hierarchy() {
    const Recipe recipes[] = {
        {"sparse", 40, 30, 1, 0.2},
        {"ties", 40, 5, 1, 0.5, 0, true},
        {"dense", 30, 4, 1, 1.0, 0, false, false},
        {"one row", 1, 5, 1, 0.5},
        {"no entries", 12, 5, 1, 0.0},
    };
    for (const Recipe& recipe : recipes) check_tree(recipe);
}

}  // namespace sparsecluster
