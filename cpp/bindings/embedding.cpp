// Sparse embedding.
#include "embedding/embed.hpp"

#include "bindings/bindings.hpp"
#include "embedding/column_map.hpp"

namespace sparsecluster {

namespace {

using Places = std::optional<In<int32_t>>;

ColumnMap map_of(const PyRows& rows, int64_t n_components, uint64_t seed, const Places& places) {
    require(n_components >= 1 && n_components <= INT32_MAX, "components must be from 1 to 2^31 - 1");
    if (places) {
        require(int64_t(places->size()) >= rows.get().n_features(), "one place per feature is needed");
        for (size_t f = 0; f < places->size(); ++f)
            require(component_of(places->data()[f]) < n_components, "a place is out of range");
    }
    return {int32_t(n_components), seed, places ? places->data() : nullptr};
}

void check_range(const PyRows& rows, int64_t begin, int64_t end) {
    require(0 <= begin && begin <= end && end <= rows.get().n_rows(), "no such rows");
}

template <class V>
void bind_embed(nb::module_& m) {
    using Table = nb::ndarray<V, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
    m.def("embed_densely",
          [](const PyRows& rows, int64_t n_components, uint64_t seed, Places places, int64_t begin, int64_t end,
             Table out, int n_threads) {
              const ColumnMap map = map_of(rows, n_components, seed, places);
              check_range(rows, begin, end);
              require(int64_t(out.shape(0)) == end - begin && int64_t(out.shape(1)) == n_components,
                      "the result has another shape");
              const GilReleased released;
              return embed_densely<V>(rows.get(), map, begin, end, out.data(), n_threads);
          },
          "rows"_a, "n_components"_a, "seed"_a, "places"_a.none(), "begin"_a, "end"_a, "out"_a.noconvert(),
          "n_threads"_a);
    m.def("embed_sparsely",
          [](const PyRows& rows, int64_t n_components, uint64_t seed, Places places, int64_t begin, int64_t end,
             InOut<int64_t> indptr, InOut<int32_t> indices, InOut<V> values, int n_threads) {
              const ColumnMap map = map_of(rows, n_components, seed, places);
              check_range(rows, begin, end);
              int64_t entries = 0;
              std::visit([&](const auto& view) {
                  for (int64_t i = begin; i < end; ++i) entries += view.row(i).size;
              }, rows.get().matrix());
              require(int64_t(indptr.size()) == end - begin + 1 && int64_t(indices.size()) >= entries &&
                      int64_t(values.size()) >= entries, "the result is too small");
              const GilReleased released;
              return embed_sparsely<V>(rows.get(), map, begin, end, indptr.data(), indices.data(), values.data(),
                                       n_threads);
          },
          "rows"_a, "n_components"_a, "seed"_a, "places"_a.none(), "begin"_a, "end"_a, "indptr"_a.noconvert(),
          "indices"_a.noconvert(), "values"_a.noconvert(), "n_threads"_a);
}

}  // namespace

void bind_embedding(nb::module_& m) {
    bind_embed<float>(m);
    bind_embed<double>(m);
    m.def("hashed_places",
          [](In<int64_t> columns, int64_t n_components, uint64_t seed) {
              require(n_components >= 1 && n_components <= INT32_MAX, "components must be from 1 to 2^31 - 1");
              const HashedColumns hashed(seed, int32_t(n_components));
              std::vector<int32_t> places(columns.size());
              for (size_t i = 0; i < columns.size(); ++i) places[i] = hashed(columns.data()[i]);
              return to_numpy(std::move(places));
          },
          "columns"_a, "n_components"_a, "seed"_a);
}

}  // namespace sparsecluster
