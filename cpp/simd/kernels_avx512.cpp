// The kernels at SIMD level "avx512".
#include "simd/kernels.hpp"

#define LEVEL avx512
#define LEVEL_NAME "avx512"
#define LANES 16
#define TILE_VECTORS 8
#define STORED_VECTORS 8
#include "simd/kernels_body.hpp"
