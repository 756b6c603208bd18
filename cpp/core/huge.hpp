// Memory for large tables that are read at random: on huge pages, where the system has them.
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

constexpr int64_t kHugePage = int64_t(1) << 21;

// Aligned to huge pages from the size of one on. Below that small pages are there sooner: a whole huge one would be cleared.
template <class T>
class HugeBuffer {
public:
    // Makes room for so many; answers whether that is new memory, whose content is undefined.
    bool reserve(int64_t count) {
        if (count <= capacity_ && data_) return false;
        constexpr auto kHuge = size_t(kHugePage);
        const size_t bytes = std::max<size_t>(size_t(count) * sizeof(T), 64);
        const size_t alignment = bytes >= kHuge ? kHuge : 64;
        const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
        data_.reset();
        capacity_ = 0;
        data_.reset(static_cast<T*>(std::aligned_alloc(alignment, rounded)));
        if (!data_) throw std::bad_alloc();
        capacity_ = int64_t(rounded / sizeof(T));
#ifdef __linux__
        if (alignment == kHuge) madvise(data_.get(), rounded, MADV_HUGEPAGE);
#endif
        return true;
    }
    T* get() const { return data_.get(); }
    T& operator[](int64_t at) const { return data_[at]; }
    int64_t capacity() const { return capacity_; }

private:
    struct Free {
        void operator()(T* p) const { std::free(p); }
    };
    std::unique_ptr<T[], Free> data_;
    int64_t capacity_ = 0;
};

}  // namespace sparsecluster
