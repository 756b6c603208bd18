// Sparse embedding against sums that are made entry by entry; the hash against its published numbers.
#include <vector>

#include "embedding/column_map.hpp"
#include "embedding/embed.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

template <class V, class I>
void check_sums(const Recipe& recipe, int32_t n_components, bool tabled) {
    const Table table = make_table(recipe);
    const Sample<V, I> sample(table, recipe.sparse);
    Rows rows = sample.rows();
    check(rows.inspect(2).fault == Fault::none, "the rows of an embedding have a fault");
    const HashedColumns hashed(17, n_components);
    std::vector<int32_t> places;
    for (int64_t f = 0; f < table.n_features; ++f) places.push_back(hashed(f));
    const ColumnMap map{n_components, 17, tabled ? places.data() : nullptr};
    std::vector<double> expected(table.n_rows * n_components, 0.0);
    for (int64_t i = 0; i < table.n_rows; ++i)
        for (int64_t f = 0; f < table.n_features; ++f) {
            const double value = table.row(i)[f];
            expected[i * n_components + component_of(places[f])] += places[f] < 0 ? -value : value;
        }
    for (const int n_threads : {1, 3}) {
        for (const int64_t middle : {int64_t(0), table.n_rows / 3}) {
            const int64_t n = table.n_rows - middle;
            std::vector<V> out(n * n_components, V(9));
            check(embed_densely<V>(rows, map, middle, table.n_rows, out.data(), n_threads) == -1,
                  "an embedded row is too large");
            std::vector<int64_t> indptr(n + 1);
            std::vector<int32_t> indices(rows.nnz());
            std::vector<V> values(rows.nnz());
            embed_sparsely<V>(rows, map, middle, table.n_rows, indptr.data(), indices.data(), values.data(), n_threads);
            std::vector<V> spread_out(n * n_components, V(0));
            for (int64_t i = 0; i < n; ++i)
                for (int64_t e = indptr[i]; e < indptr[i + 1]; ++e) {
                    check(e == indptr[i] || indices[e - 1] < indices[e], "components do not ascend");
                    check(values[e] != 0, "a component without a value is stored");
                    spread_out[i * n_components + indices[e]] = values[e];
                }
            bool same = true;
            for (int64_t at = 0; at < n * n_components; ++at) {
                const V sum = V(expected[middle * n_components + at]);
                same &= out[at] == sum && spread_out[at] == sum;
            }
            check(same, "an embedded row is not the sum of its entries");
        }
    }
}

}  // namespace

void check_embedding() {
    const uint64_t gamma = 0x9e3779b97f4a7c15u;
    check(split_mix(gamma) == 0xe220a8397b1dcdafu && split_mix(2 * gamma) == 0x6e789e6aa1b965f4u,
          "the hash is not SplitMix64");
    const Recipe recipes[] = {
        {"sparse", 200, 60, 1, 0.2},
        {"dense", 50, 20, 1, 1.0, 0, false, false},
        {"ties", 70, 30, 1, 0.5, 0, true},
        {"no entries", 12, 5, 1, 0.0},
        {"one row", 1, 40, 1, 0.5},
        {"long", 3, 30000, 1, 0.9},
    };
    for (const Recipe& recipe : recipes)
        for (const int32_t n_components : {1, 7, 64, 5000})
            for (const bool tabled : {false, true}) {
                check_sums<float, int32_t>(recipe, n_components, tabled);
                check_sums<double, int64_t>(recipe, n_components, tabled);
            }
}

}  // namespace sparsecluster
