// FOR_EACH_PROCESSOR before a function: the compiler makes a version for each width of vectors, and the one for
// this processor runs. Only for code that comes to the same bits at every width: no sums across lanes, and no
// contraction (see CMakeLists.txt). What may round differently belongs into kernels_body.hpp.
#pragma once

// Sanitizers start after the choice is made.
#if defined(SPARSECLUSTER_X86) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
