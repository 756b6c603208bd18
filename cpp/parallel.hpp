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
// Set for a thread whose work another thread may call off.
inline thread_local const std::atomic<bool>* called_off = nullptr;

// While this lives nothing is called off on this thread: what it guards is done whole.
class HoldInterrupts {
public:
    HoldInterrupts() : before_(held_) { held_ = true; }
    ~HoldInterrupts() { held_ = before_; }
    HoldInterrupts(const HoldInterrupts&) = delete;
    HoldInterrupts& operator=(const HoldInterrupts&) = delete;
    static bool held() { return held_; }

private:
    bool before_;
    static inline thread_local bool held_ = false;
};

inline void poll_interrupt() {
    if (HoldInterrupts::held()) return;
    using clock = std::chrono::steady_clock;
    static thread_local clock::time_point last = clock::now();
    if (called_off && called_off->load(std::memory_order_relaxed)) throw Interrupted();
    if (!interrupt_requested) return;
    const auto now = clock::now();
    if (now - last < std::chrono::milliseconds(50)) return;
    last = now;
    if (interrupt_requested()) throw Interrupted();
}

// Threads that take blocks of work, for the length of one call from outside. Between two runs they spin
// for a moment, then sleep.
class Team {
public:
    explicit Team(int n_threads) {
        try {
            for (int thread = 1; thread < n_threads; ++thread)
                helpers_.emplace_back([this, thread] { serve(thread); });
        } catch (const std::system_error&) {
            // No more threads to be had: those that started, and the caller, do the work.
        } catch (...) {
            dismiss();
            throw;
        }
    }
    ~Team() { dismiss(); }
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Calls work(block, thread) for every block; thread 0 is the caller, and rethrows what any thread threw.
    template <class Work>
    void run(int64_t n_blocks, const Work& work) {
        work_ = &work;
        call_ = [](const void* function, int64_t block, int thread) {
            (*static_cast<const Work*>(function))(block, thread);
        };
        n_blocks_ = n_blocks;
        next_ = 0;
        stop_ = false;
        error_ = nullptr;
        busy_ = int(helpers_.size());
        round_.fetch_add(1);
        round_.notify_all();
        take_blocks(0);
        for (int spins = 0; busy_.load() > 0; ++spins)
            if (spins > kSpins) std::this_thread::yield();
        if (error_) std::rethrow_exception(error_);
    }

private:
    static constexpr int kSpins = 4000;

    void dismiss() {
        quit_ = true;
        round_.fetch_add(1);
        round_.notify_all();
    }

    void serve(int thread) {
        int64_t seen = 0;
        for (;;) {
            for (int spins = 0; round_.load() == seen && spins < kSpins; ++spins) relax();
            round_.wait(seen);
            seen += 1;
            if (quit_) return;
            take_blocks(thread);
            busy_.fetch_sub(1);
        }
    }

    void take_blocks(int thread) {
        try {
            while (!stop_.load(std::memory_order_relaxed)) {
                const int64_t block = next_.fetch_add(1, std::memory_order_relaxed);
                if (block >= n_blocks_) return;
                call_(work_, block, thread);
                if (thread == 0) poll_interrupt();
            }
        } catch (...) {
            const std::lock_guard lock(error_mutex_);
            if (!error_) error_ = std::current_exception();
            stop_ = true;
        }
    }

    static void relax() {
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
    }

    const void* work_ = nullptr;
    void (*call_)(const void*, int64_t, int) = nullptr;
    int64_t n_blocks_ = 0;
    std::atomic<int64_t> round_{0}, next_{0};
    std::atomic<int> busy_{0};
    std::atomic<bool> stop_{false}, quit_{false};
    std::exception_ptr error_;
    std::mutex error_mutex_;
    std::vector<std::jthread> helpers_;  // last: they end before what they use
};

// A team for everything that this thread runs in parallel until the end of the scope: threads are not
// started anew for each loop.
class TeamScope {
public:
    explicit TeamScope(int n_threads) : team_(n_threads), n_threads_(n_threads), outer_(current_) {
        current_ = this;
    }
    ~TeamScope() { current_ = outer_; }
    TeamScope(const TeamScope&) = delete;
    TeamScope& operator=(const TeamScope&) = delete;

    // Runs the work if there is a scope whose team is free, and not larger than asked for.
    template <class Work>
    static bool run(int64_t n_blocks, int n_threads, const Work& work) {
        if (!current_ || current_->busy_ || current_->n_threads_ > n_threads) return false;
        TeamScope& scope = *current_;
        scope.busy_ = true;
        try {
            scope.team_.run(n_blocks, work);
        } catch (...) {
            scope.busy_ = false;
            throw;
        }
        scope.busy_ = false;
        return true;
    }

private:
    Team team_;
    int n_threads_;
    bool busy_ = false;
    TeamScope* outer_;
    static inline thread_local TeamScope* current_ = nullptr;
};

// Calls work(block, thread) for every block; with the team of the scope, or one for this loop.
template <class Work>
void parallel_blocks(int64_t n_blocks, int n_threads, const Work& work) {
    const int useful = int(std::clamp<int64_t>(n_threads, 1, std::max<int64_t>(n_blocks, 1)));
    if (useful > 1 && TeamScope::run(n_blocks, n_threads, work)) return;
    Team(useful).run(n_blocks, work);
}

}  // namespace sparsecluster
