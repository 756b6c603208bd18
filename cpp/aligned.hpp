// An array of numbers aligned for SIMD, on huge pages where there are many.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace sparsecluster {

template <class T>
class AlignedArray {
public:
    // Makes room for n numbers, not set to anything; answers whether that is new memory.
    bool reserve(int64_t n) {
        if (n <= capacity_ && items_) return false;
        constexpr size_t kHuge = size_t(1) << 21;
        const size_t bytes = std::max<size_t>(size_t(n) * sizeof(T), 64);
        const size_t alignment = bytes >= kHuge ? kHuge : 64;
        const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
        items_.reset();
        capacity_ = 0;
        items_.reset(static_cast<T*>(std::aligned_alloc(alignment, rounded)));
        if (!items_) throw std::bad_alloc();
        capacity_ = int64_t(rounded / sizeof(T));
#ifdef __linux__
        if (alignment == kHuge) madvise(items_.get(), rounded, MADV_HUGEPAGE);
#endif
        return true;
    }
    T* data() { return items_.get(); }
    const T* data() const { return items_.get(); }
    int64_t capacity() const { return capacity_; }

private:
    struct Free {
        void operator()(T* p) const { std::free(p); }
    };
    std::unique_ptr<T[], Free> items_;
    int64_t capacity_ = 0;
};

}  // namespace sparsecluster
