// Memory that was freed, given back to the system: what lies between blocks that are used stays with the process as a rule.
#pragma once

#include <cstdlib>  // tells whether this is glibc
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace sparsecluster {

inline void give_back() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

}  // namespace sparsecluster
