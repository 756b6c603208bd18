// The kernels of "avx512" in instructions that every processor has: a level for tests, where AVX-512 is not at hand.
#include "simd/kernels.hpp"

#define LEVEL wide
#define LEVEL_NAME "wide"
#define LANES 16
#define TILE_VECTORS 8
#define STORED_VECTORS 8
#include "simd/kernels_body.hpp"
