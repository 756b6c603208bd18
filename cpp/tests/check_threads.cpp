// Teams: every block is done once, whoever wakes when, whatever is thrown.
#include <atomic>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/parallel.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

// A helper that wakes when the round is over, and its work gone, takes nothing.
void check_late_helper() {
    context = "late helper";
    const auto helper = std::make_shared<Helper>(1);
    for (int turn = 0; turn < 3; ++turn) {
        std::vector<int> done(5, 0);
        const auto work = [&](int64_t block, int thread) { done[block] += thread == 0; };
        Round round(5, work);
        helper->call(round);
        round.take_blocks(0);
        helper->close(n_forks);
        check(std::accumulate(done.begin(), done.end(), 0) == 5, "the caller waited for a helper, or left blocks");
    }
    std::thread late([&] { helper->serve(); });
    helper->dismiss();
    late.join();
}

void check_every_block_once(int n_threads) {
    context = "blocks once, threads " + std::to_string(n_threads);
    const TeamScope team(n_threads);
    std::vector<int64_t> of_thread(n_threads, 0);  // without locks: a thread has its own
    int64_t expected = 0;
    for (int turn = 0; turn < 400; ++turn) {
        const int64_t n_blocks = turn % 7;
        std::vector<int> done(n_blocks, 0);
        parallel_blocks(n_blocks, n_threads, [&](int64_t block, int thread) {
            ++done[block];
            of_thread[thread] += block + 1;
        });
        expected += n_blocks * (n_blocks + 1) / 2;
        check(done == std::vector<int>(n_blocks, 1), "a block was left out, or done twice");
    }
    check(std::accumulate(of_thread.begin(), of_thread.end(), int64_t(0)) == expected, "a thread's sum is wrong");
}

void check_thrown() {
    context = "thrown in a block";
    const TeamScope team(4);
    for (int turn = 0; turn < 200; ++turn) {
        bool caught = false;
        try {
            parallel_blocks(16, 4, [&](int64_t block, int) {
                if (block == turn % 16) throw std::out_of_range("as it should be");
            });
        } catch (const std::out_of_range&) {
            caught = true;
        }
        check(caught, "what a block threw was lost");
    }
    std::atomic<int> after{0};
    parallel_blocks(16, 4, [&](int64_t, int) { ++after; });
    check(after == 16, "a team does not go on after an exception");
}

void check_nested() {
    context = "nested";
    const TeamScope team(3);
    std::atomic<int> done{0};
    for (int turn = 0; turn < 20; ++turn)
        parallel_blocks(6, 3, [&](int64_t, int) { parallel_blocks(5, 2, [&](int64_t, int) { ++done; }); });
    check(done == 20 * 6 * 5, "blocks inside blocks were left out");
}

}  // namespace

void check_threads() {
    check_late_helper();
    for (int n_threads : {1, 2, 3, 16}) check_every_block_once(n_threads);
    check_thrown();
    check_nested();
    // Several callers at once, each with helpers of its own.
    std::vector<std::thread> callers;
    std::atomic<int> done{0};
    for (int caller = 0; caller < 4; ++caller)
        callers.emplace_back([&] {
            for (int turn = 0; turn < 50; ++turn) parallel_blocks(9, 3, [&](int64_t, int) { ++done; });
        });
    for (std::thread& caller : callers) caller.join();
    context = "several callers";
    check(done == 4 * 50 * 9, "blocks were left out");
}

}  // namespace sparsecluster
