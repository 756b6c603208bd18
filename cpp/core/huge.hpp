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
    bool reserve(int64_t count) { return reserve(count, [](size_t bytes) { return std::malloc(bytes); }); }
    // The same, where new memory is zeros: what comes from the system is so already, and is not written for it.
    bool reserve_zeros(int64_t count) { return reserve(count, [](size_t bytes) { return std::calloc(bytes, 1); }); }
    T* get() const { return data_.get(); }
    T& operator[](int64_t at) const { return data_[at]; }
    int64_t capacity() const { return data_ ? capacity_ : 0; }

private:
    // Frees what was allocated, of which the aligned part is used.
    struct Free {
        void* allocated = nullptr;
        void operator()(T*) const { std::free(allocated); }
    };

    template <class Allocate>
    bool reserve(int64_t count, const Allocate& allocate) {
        if (count <= capacity()) return false;
        constexpr auto kHuge = size_t(kHugePage);
        size_t bytes = std::max<size_t>(size_t(count) * sizeof(T), 64);
        const size_t alignment = bytes >= kHuge ? kHuge : 64;
        bytes = (bytes + alignment - 1) / alignment * alignment;
        data_.reset();
        void* const allocated = allocate(bytes + alignment);
        if (!allocated) throw std::bad_alloc();
        const auto begin = (uintptr_t(allocated) + alignment - 1) / alignment * alignment;
        data_ = std::unique_ptr<T[], Free>(reinterpret_cast<T*>(begin), Free{allocated});
        capacity_ = int64_t(bytes / sizeof(T));
#ifdef __linux__
        if (alignment == kHuge) madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
        return true;
    }

    std::unique_ptr<T[], Free> data_;
    int64_t capacity_ = 0;  // of these, where there are any
};

}  // namespace sparsecluster
