// The best of a few clusters for each of many rows, by score less price.
#pragma once

#include <cstdint>

namespace sparsecluster {

// rows: which of the scores, or null for the first n. labels[j], best[j]: the lane of the largest score less price, the
// lowest of equal ones, and that difference. `prices` has one for each of the `stride` lanes.
void best_lanes(const float* scores, const int64_t* rows, int64_t n, int stride, const float* prices, int32_t* labels,
                float* best);
void best_lanes(const double* scores, const int64_t* rows, int64_t n, int stride, const double* prices, int32_t* labels,
                double* best);

}  // namespace sparsecluster
