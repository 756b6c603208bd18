// Blocks of work over threads that live for one call. Results must not depend on which thread ran a
// block; whoever reduces does so in block order, or in integers.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace sparsecluster {

// Thrown out of a kernel when the user asked to stop.
struct Interrupted : std::exception {
    const char* what() const noexcept override { return "interrupted"; }
};

// Asked now and then from the calling thread; the bindings set it to look for Ctrl-C.
inline bool (*interrupt_requested)() = nullptr;

inline void poll_interrupt() {
    using clock = std::chrono::steady_clock;
    static thread_local clock::time_point last = clock::now();
    if (!interrupt_requested) return;
    const auto now = clock::now();
    if (now - last < std::chrono::milliseconds(50)) return;
    last = now;
    if (interrupt_requested()) throw Interrupted();
}

// Calls work(block, thread) for every block; thread 0 is the caller, and rethrows what any thread threw.
template <class Work>
void parallel_blocks(int64_t n_blocks, int n_threads, const Work& work) {
    n_threads = int(std::clamp<int64_t>(n_threads, 1, std::max<int64_t>(n_blocks, 1)));
    if (n_threads == 1) {
        for (int64_t block = 0; block < n_blocks; ++block) {
            work(block, 0);
            poll_interrupt();
        }
        return;
    }
    std::atomic<int64_t> next{0};
    std::atomic<bool> stop{false};
    std::exception_ptr error;
    std::mutex error_mutex;
    auto run = [&](int thread) {
        try {
            while (!stop.load(std::memory_order_relaxed)) {
                const int64_t block = next.fetch_add(1, std::memory_order_relaxed);
                if (block >= n_blocks) return;
                work(block, thread);
                if (thread == 0) poll_interrupt();
            }
        } catch (...) {
            const std::lock_guard lock(error_mutex);
            if (!error) error = std::current_exception();
            stop = true;
        }
    };
    {
        std::vector<std::jthread> helpers;
        try {
            for (int thread = 1; thread < n_threads; ++thread) helpers.emplace_back(run, thread);
        } catch (const std::system_error&) {
            // No more threads to be had: those that started, and this one, do the work.
        }
        run(0);
    }
    if (error) std::rethrow_exception(error);
}

}  // namespace sparsecluster
