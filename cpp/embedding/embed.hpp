// Sparse embedding (Liu, Shen and Tsang 2017, Algorithm 1): every entry of a row is added to the component of its
// column, with the sign of the column. One pass over the entries.
#pragma once

#include <cstdint>

#include "core/rows.hpp"

namespace sparsecluster {

struct ColumnMap {
    int32_t n_components = 1;
    uint64_t seed = 0;
    const int32_t* places = nullptr;  // a table, one for each feature of the rows; null: by hash
};

// Rows begin .. end as rows of components, in the type of their values. Sums are made in float64, in the order of a
// row's features, and rounded once: they depend on the row alone. Both answer the first row with a value that is too
// large for its type, or -1.

// `out` has n_components values for each of these rows.
template <class V>
int64_t embed_densely(const Rows& rows, const ColumnMap& map, int64_t begin, int64_t end, V* out, int n_threads);

// CSR: `indptr` has end - begin + 1 entries, the others room for as many as these rows have. Components ascend, and
// those that come to zero are left out.
template <class V>
int64_t embed_sparsely(const Rows& rows, const ColumnMap& map, int64_t begin, int64_t end, int64_t* indptr,
                       int32_t* indices, V* values, int n_threads);

}  // namespace sparsecluster
