// Passes over the labels of all rows, which every iteration makes some of.
#pragma once

#include <cstdint>
#include <vector>

namespace sparsecluster {

// Whether all of n labels are at least `least`, and below the number of clusters.
bool labels_within(const int32_t* labels, int64_t n, int64_t n_clusters, int32_t least);

// How many of n rows have each label; of those with a weight above zero, if there are weights.
std::vector<int64_t> count_labels(const int32_t* labels, const double* weights, int64_t n, int64_t n_clusters);

// The rows from begin to end whose labels are not what they were.
std::vector<int64_t> rows_relabeled(const int32_t* labels, const int32_t* before, int64_t begin, int64_t end);

}  // namespace sparsecluster
