// The kernels at SIMD level "avx2".
#include "kernels.hpp"

#define LEVEL avx2
#define LEVEL_NAME "avx2"
#define LANES 8
#define TILE_VECTORS 8
#include "kernels_body.hpp"
