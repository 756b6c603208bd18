// How many rows a cluster may have.
#pragma once

#include <cstdint>

namespace sparsecluster {

struct SizeBounds {
    int64_t least = 0, most = INT64_MAX;
};

}  // namespace sparsecluster
