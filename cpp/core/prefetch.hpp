// Asks for memory to be brought into the cache before it is read.
#pragma once

#include <cstdint>

namespace sparsecluster {

// A function that does nothing but __builtin_prefetch has no effect in the eyes of GCC, which leaves out calls of it
// altogether. The empty statement is an effect.
inline void prefetch_line(const void* at) {
    __builtin_prefetch(at);
    asm volatile("" : : "r"(at));
}

// Entries of a row, at most: of a long one those that it begins with, from where the hardware prefetcher goes on.
inline constexpr int64_t kPrefetchedEntries = 256;

// All cache lines from `begin` to `end`.
inline void prefetch_lines(const void* begin, const void* end) {
    constexpr uintptr_t kLine = 64;
    for (uintptr_t at = uintptr_t(begin) & ~(kLine - 1); at < uintptr_t(end); at += kLine)
        prefetch_line(reinterpret_cast<const void*>(at));
}

}  // namespace sparsecluster
