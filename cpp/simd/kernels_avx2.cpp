// The kernels at SIMD level "avx2".
#include "simd/kernels.hpp"

#define LEVEL avx2
#define LEVEL_NAME "avx2"
#define LANES 8
#define TILE_VECTORS 8
#define STORED_VECTORS 14
#include "simd/kernels_body.hpp"
