#include "core/labels.hpp"

#include <algorithm>

namespace sparsecluster {

bool labels_within(const int32_t* labels, int64_t n, int64_t n_clusters, int32_t least) {
    if (n_clusters <= least) return n == 0;
    // No early exit, so that the loop is vectorized. Labels below `least` become large numbers.
    const auto n_allowed = uint32_t(std::min<int64_t>(n_clusters, INT32_MAX)) - uint32_t(least);
    uint32_t outside = 0;
    for (int64_t i = 0; i < n; ++i) outside |= uint32_t(uint32_t(labels[i]) - uint32_t(least) >= n_allowed);
    return outside == 0;
}

std::vector<int64_t> count_labels(const int32_t* labels, const double* weights, int64_t n, int64_t n_clusters) {
    // Rows in turns to several tables, where one would wait for itself; to a single one where tables would be large compared
    // with the rows.
    constexpr int64_t kTurns = 4;
    const int64_t n_tables = n_clusters < n / kTurns ? kTurns : 1;
    std::vector<int64_t> counts(n_clusters * n_tables, 0);
    const auto counted = [&](int64_t i) { return int64_t(!weights || weights[i] > 0); };
    int64_t i = 0;
    for (; n_tables == kTurns && i + kTurns <= n; i += kTurns)
        for (int64_t turn = 0; turn < kTurns; ++turn) counts[turn * n_clusters + labels[i + turn]] += counted(i + turn);
    for (; i < n; ++i) counts[labels[i]] += counted(i);
    for (int64_t table = 1; table < n_tables; ++table)
        for (int64_t k = 0; k < n_clusters; ++k) counts[k] += counts[table * n_clusters + k];
    counts.resize(n_clusters);
    return counts;
}

}  // namespace sparsecluster
