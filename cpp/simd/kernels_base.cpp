// The kernels at SIMD level "base".
#include "simd/kernels.hpp"

#define LEVEL base
#define LEVEL_NAME "base"
#define LANES 4
#define TILE_VECTORS 8
#define STORED_VECTORS 8
#include "simd/kernels_body.hpp"
