// Blocks of work over threads that live for one call. Results must not depend on which thread ran a
// block; whoever reduces does so in block order, or in integers.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
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
#ifdef __x86_64__
    // The counter of the processor is read in a fraction of the time of the clock.
    constexpr uint64_t kTicks = uint64_t(1) << 22;  // a millisecond or two
    static thread_local uint64_t last_ticks = 0;
    const uint64_t ticks = __builtin_ia32_rdtsc();
    if (ticks - last_ticks < kTicks) return;
    last_ticks = ticks;
#endif
    const auto now = clock::now();
    if (now - last < std::chrono::milliseconds(50)) return;
    last = now;
    if (interrupt_requested()) throw Interrupted();
}

// Counted in the child of a fork, where only the thread that forked goes on.
inline std::atomic<uint32_t> n_forks{0};

// Thrown in the child of a fork, out of a call that its parent has to finish.
struct Forked : std::runtime_error {
    Forked() : std::runtime_error("The process was forked inside this call, whose threads stayed with the parent.") {}
};

// Spins for a moment, then sleeps, while `state` is `value`.
inline void wait_while(const std::atomic<uint32_t>& state, uint32_t value) {
    constexpr int kSpins = 4000;
    for (int spins = 0; spins < kSpins; ++spins) {
        if (state.load(std::memory_order_acquire) != value) return;
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
    }
    state.wait(value, std::memory_order_acquire);
}

// Does work on a thread of its own that nobody waits for; false where there are no more threads to be had.
template <class Work>
bool run_beside(Work work) {
    try {
        std::thread([work] {
            const HoldInterrupts hold;  // the caller looks for them
            work();
        }).detach();
    } catch (const std::system_error&) {
        return false;
    }
    return true;
}

// Blocks of work that whoever is awake takes, one after the other.
class Round {
public:
    template <class Work>
    Round(int64_t n_blocks, const Work& work)
        : work_(&work), n_blocks_(n_blocks), call_([](const void* function, int64_t block, int thread) {
              (*static_cast<const Work*>(function))(block, thread);
          }) {}

    void take_blocks(int thread) {
        try {
            while (!stop_.load(std::memory_order_relaxed)) {
                const int64_t block = next_.fetch_add(1, std::memory_order_relaxed);
                if (block >= n_blocks_) return;
                call_(work_, block, thread);
                if (thread == 0) poll_interrupt();
            }
        } catch (...) {
            if (!stop_.exchange(true)) error_ = std::current_exception();
        }
    }

    // Once nobody takes blocks any more.
    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    const void* work_;
    int64_t n_blocks_;
    void (*call_)(const void*, int64_t, int);
    std::atomic<int64_t> next_{0};
    std::atomic<bool> stop_{false};
    std::exception_ptr error_;
};

// A thread beside the caller's. Called to a round, it joins in if it wakes before the caller has seen to all blocks;
// a round that was closed it does not touch any more. So the caller never waits for a thread that is not running.
class Helper {
public:
    // Throws std::system_error where there are no more threads to be had.
    static std::shared_ptr<Helper> start(int thread) {
        auto helper = std::make_shared<Helper>(thread);
        std::thread([helper] { helper->serve(); }).detach();
        return helper;
    }
    explicit Helper(int thread) : thread_(thread) {}

    void call(Round& round) {
        round_ = &round;
        set(kCalled);
    }
    // After this the helper is outside: it never entered, or has left.
    void close(uint32_t n_forks_before) {
        uint32_t state = kCalled;
        if (state_.compare_exchange_strong(state, kOutside)) return;
        while (state_.load(std::memory_order_acquire) == kInside) {
            if (n_forks != n_forks_before) throw Forked();
            wait_while(state_, kInside);
        }
    }
    void dismiss() { set(kDismissed); }

    // What its thread does until it is dismissed.
    void serve() {
        const HoldInterrupts hold;  // the caller looks for them
        for (;;) {
            wait_while(state_, kOutside);
            uint32_t state = kCalled;
            if (state_.compare_exchange_strong(state, kInside)) {
                round_->take_blocks(thread_);
                set(kOutside);
            } else if (state == kDismissed) {
                return;
            }
        }
    }

private:
    enum State : uint32_t { kOutside, kCalled, kInside, kDismissed };

    void set(State state) {
        state_.store(state);
        state_.notify_one();
    }

    const int thread_;
    Round* round_ = nullptr;
    std::atomic<uint32_t> state_{kOutside};
};

// The caller and threads that help it, for the length of one call from outside.
class Team {
public:
    explicit Team(int n_threads) {
        helpers_.reserve(std::max(n_threads, 1));
        try {
            for (int thread = 1; thread < n_threads; ++thread) helpers_.push_back(Helper::start(thread));
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
        const uint32_t n_forks_before = n_forks;
        Round round(n_blocks, work);
        const size_t n_called = size_t(std::clamp<int64_t>(n_blocks - 1, 0, int64_t(helpers_.size())));
        for (size_t h = 0; h < n_called; ++h) helpers_[h]->call(round);
        round.take_blocks(0);
        for (size_t h = 0; h < n_called; ++h) helpers_[h]->close(n_forks_before);
        round.rethrow();
    }

private:
    // Not waited for: who still sleeps ends when it wakes.
    void dismiss() {
        for (const auto& helper : helpers_) helper->dismiss();
    }

    std::vector<std::shared_ptr<Helper>> helpers_;
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
