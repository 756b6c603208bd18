// Times the tile kernel on real rows and centers, block by block as an assignment does.
#include "index/roofline.hpp"

#include <chrono>
#include <numeric>

#include "core/parallel.hpp"
#include "index/scan.hpp"

namespace sparsecluster {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

TileRates tile_rates(const Rows& rows, const Centers& centers, int n_threads) {
    CenterIndex index;
    index.build(centers, common_scale(rows, centers), IndexLimits{}, n_threads);
    std::vector<ScanScratch> scratches(std::max(n_threads, 1));
    const int64_t n = rows.n_rows(), block = block_rows(index, n, n_threads);
    const int64_t n_blocks = (n + block - 1) / block;
    double n_entries = 0;

    // One pass over all rows, with the kernel alone timed; the seconds of all threads.
    auto time_pass = [&](auto kernel, uint32_t slots) {
        std::vector<double> seconds(n_blocks, 0), entries(n_blocks, 0);
        std::visit(
            [&](const auto& view) {
                parallel_blocks(n_blocks, n_threads, [&](int64_t b, int thread) {
                    ScanScratch& scratch = scratches[thread];
                    const int64_t block_end = std::min(n, (b + 1) * block);
                    for (int64_t begin = b * block, end; begin < block_end; begin = end) {
                        end = end_of_pack(view, nullptr, begin, block_end);
                        start_block(view, index, nullptr, begin, end, scratch);
                        if (slots)
                            for (HeadEntry& entry : scratch.head) entry.slot %= slots;
                        const auto start = Clock::now();
                        for (const Tile& tile : index.tiles)
                            kernel(tile.vectors, index.tile_rows(tile), scratch.head.data(),
                                   scratch.head_begin.data(), end - begin,
                                   scratch.scores.data() + tile.first, index.stride);
                        seconds[b] += seconds_since(start);
                        entries[b] += double(scratch.head_begin[end - begin]);
                    }
                });
            },
            rows.matrix());
        n_entries = std::accumulate(entries.begin(), entries.end(), 0.0);
        return std::accumulate(seconds.begin(), seconds.end(), 0.0);
    };
    const double tile_seconds = time_pass(index.simd->add_tile, 0);
    const double read_seconds = time_pass(index.simd->read_tile, 0);
    const double cached_seconds = time_pass(index.simd->add_tile, 4);
    const double products = n_entries * double(index.n_centers);
    const auto start = Clock::now();
    scan(rows, index, nullptr, n, n_threads, scratches, [](const Scanned&, const auto&, int) {});
    const double scan_seconds = seconds_since(start);
    auto rate = [&](double seconds) { return seconds > 0 ? products * n_threads / seconds : 0.0; };
    return {rate(tile_seconds), rate(read_seconds), rate(cached_seconds), products / scan_seconds,
            n_entries / std::max(1.0, double(rows.nnz()))};
}

ScanPhases scan_phases(const Rows& rows, const Centers& centers, int n_threads) {
    ScanPhases phases;
    CenterIndex index;
    auto start = Clock::now();
    index.build(centers, common_scale(rows, centers), IndexLimits{}, n_threads);
    phases.index = seconds_since(start);
    std::vector<ScanScratch> scratches(std::max(n_threads, 1));
    std::vector<ScanPhases> found(std::max(n_threads, 1));
    std::vector<double> entries(std::max(n_threads, 1), 0), sums(std::max(n_threads, 1), 0);
    const int64_t n = rows.n_rows(), block = block_rows(index, n, n_threads);
    std::visit(
        [&](const auto& view) {
            parallel_blocks((n + block - 1) / block, n_threads, [&](int64_t b, int thread) {
                ScanScratch& scratch = scratches[thread];
                ScanPhases& mine = found[thread];
                const int64_t block_end = std::min(n, (b + 1) * block);
                for (int64_t begin = b * block, end; begin < block_end; begin = end) {
                    end = end_of_pack(view, nullptr, begin, block_end);
                    auto at = Clock::now();
                    auto lap = [&] {
                        const double seconds = seconds_since(at);
                        at = Clock::now();
                        return seconds;
                    };
                    pack(view, index, nullptr, begin, end, scratch);
                    mine.pack += lap();
                    start_scores(index, end - begin, scratch);
                    add_lists(index, end - begin, scratch);
                    mine.lists += lap();
                    add_tiles(index, end - begin, scratch);
                    mine.tiles += lap();
                    find_tops(index, end - begin, scratch);
                    for (int64_t i = begin; i < end; ++i)
                        sums[thread] += double(read_scores(rows, index, scratch, i, i - begin).top.best);
                    mine.best += lap();
                    entries[thread] += double(scratch.head_begin[end - begin]);
                }
            });
        },
        rows.matrix());
    for (const ScanPhases& mine : found) {
        phases.pack += mine.pack;
        phases.lists += mine.lists;
        phases.tiles += mine.tiles;
        phases.best += mine.best;
    }
    phases.head_features = index.n_head;
    phases.tail_entries = int64_t(index.tail.size());
    phases.head_share = std::accumulate(entries.begin(), entries.end(), 0.0) / std::max(1.0, double(rows.nnz()));
    return phases;
}

}  // namespace sparsecluster
