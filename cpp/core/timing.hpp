// How long a call takes: where the faster of two ways to the same result is chosen.
#pragma once

#include <chrono>

namespace sparsecluster {

template <class Call>
double seconds_of(const Call& call) {
    const auto started = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

}  // namespace sparsecluster
