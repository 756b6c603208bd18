// Locks for a state that one thread changes now and then while others look at it. Python's signal handlers, which run
// inside a long call, may look too, and a fork finds the state whole.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>
#include <thread>

#include "core/parallel.hpp"

namespace sparsecluster {

// Shared by all who are inside a state; a fork waits until nobody is.
inline std::shared_mutex& fork_gate() {
    static std::shared_mutex gate;
    return gate;
}

inline void prepare_for_forks() {
    static const int registered = pthread_atfork(
        [] { fork_gate().lock(); }, [] { fork_gate().unlock(); },
        [] {
            // Made anew: the thread that locked it has another number here.
            new (&fork_gate()) std::shared_mutex;
            ++n_forks;
        });
    if (registered != 0) throw std::bad_alloc();
}

// To look at a state, or to change it; for a moment only, and never while Python code may run.
class Inside {
public:
    explicit Inside(std::mutex& mutex) : gate_(fork_gate()), lock_(mutex) {}

private:
    std::shared_lock<std::shared_mutex> gate_;
    std::lock_guard<std::mutex> lock_;
};

// Who changes the state next: held for a whole call, Python code that runs meanwhile included.
class Turns {
public:
    void take() {
        for (;;) {
            const uint32_t mine = n_forks + 1;
            uint32_t now = holder_.load();
            if (now == mine) {
                if (owner_.load() == std::this_thread::get_id())
                    throw std::runtime_error("A signal handler cannot change what the call that it interrupted changes.");
                holder_.wait(now);
            } else if (holder_.compare_exchange_strong(now, mine)) {
                // It was free, or held by a thread that stayed with the parent of this process.
                owner_ = std::this_thread::get_id();
                return;
            }
        }
    }
    void give_back() {
        owner_ = std::thread::id();
        holder_ = 0;
        holder_.notify_all();
    }

private:
    std::atomic<uint32_t> holder_{0};  // 1 + the forks before it was taken
    std::atomic<std::thread::id> owner_{};
};

class Turn {
public:
    explicit Turn(Turns& turns) : turns_(turns), n_forks_before_(n_forks) { turns_.take(); }
    ~Turn() {
        if (n_forks == n_forks_before_) turns_.give_back();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // In the child of a fork someone else may have had a turn since.
    void check() const {
        if (n_forks != n_forks_before_) throw Forked();
    }

private:
    Turns& turns_;
    uint32_t n_forks_before_;
};

}  // namespace sparsecluster
