// FOR_EACH_PROCESSOR before a function: the compiler makes a version for each width of vectors, and the one for
// this processor runs. Only for code that comes to the same bits at every width: no sums across lanes, and no
// contraction (see CMakeLists.txt). What may round differently belongs into kernels_body.hpp.
#pragma once

// Sanitizers start after the choice is made.
#if defined(SPARSECLUSTER_X86) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
// WITH_WIDEST_VECTORS(work<kBytes>(...)) for code that is written in vectors: kBytes is how wide those of this processor are.
// Wider ones than it has would be kept in memory, not in registers.
#define WITH_WIDEST_VECTORS(work)                                                                                      \
    do {                                                                                                               \
        if (__builtin_cpu_supports("avx512f"))                                                                         \
            [&]() __attribute__((target("avx512f"))) { constexpr int kBytes = 64; work; }();                           \
        else if (__builtin_cpu_supports("avx2"))                                                                       \
            [&]() __attribute__((target("avx2"))) { constexpr int kBytes = 32; work; }();                              \
        else                                                                                                           \
            [&]() { constexpr int kBytes = 16; work; }();                                                              \
    } while (false)
#else
#define FOR_EACH_PROCESSOR
#define WITH_WIDEST_VECTORS(work)      \
    do {                               \
        constexpr int kBytes = 16;     \
        work;                          \
    } while (false)
#endif
