// Labels of a few rows from the centers of a large model in a file: only the lists of the rows' own features are read,
// and of the centers themselves those that cannot be told apart by that.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

// For each feature the centers that have it, and their values there. The lists are checked where they are read.
struct CentersByFeature {
    int64_t n_features, n_clusters, n_entries;
    const int64_t* begin;  // per feature, and the end of the last
    const int32_t* clusters;
    const double* values;
    const double* norm2;  // per center
};

// Nothing where more than `most_entries` would be read. `center` gives a center by its number.
std::optional<std::vector<int32_t>> look_up(const Rows& rows, const CentersByFeature& lists, int64_t most_entries,
                                            const std::function<Center(int32_t)>& center);

}  // namespace sparsecluster
