// Chooses the kernels for this CPU. Asked when an index or a screen is built, never in an inner loop.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "simd/kernels.hpp"

namespace sparsecluster {

namespace {

bool cpu_has(const std::string& level) {
    if (level == "base" || level == "wide") return true;
#ifdef SPARSECLUSTER_X86
    if (level == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (level == "avx512")
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
    return false;
}

const Kernels& table_of(const std::string& level) {
#ifdef SPARSECLUSTER_X86
    if (level == "avx2") return avx2::table;
    if (level == "avx512") return avx512::table;
#endif
    if (level == "wide") return wide::table;
    return base::table;
}

}  // namespace

const Kernels& kernels() {
    if (const char* forced = std::getenv("SPARSECLUSTER_SIMD"); forced && *forced) {
        const std::string level = forced;
        if (level != "base" && level != "wide" && level != "avx2" && level != "avx512")
            throw std::runtime_error("SPARSECLUSTER_SIMD is '" + level + "'; it can be base, avx2 or avx512");
        if (!cpu_has(level))
            throw std::runtime_error("SPARSECLUSTER_SIMD asks for " + level +
                                     ", which this CPU or this build does not have");
        return table_of(level);
    }
    static const Kernels& best = table_of(cpu_has("avx512") ? "avx512" : cpu_has("avx2") ? "avx2" : "base");
    return best;
}

}  // namespace sparsecluster
