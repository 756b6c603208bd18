// How fast the assignment tile runs, beside what this machine allows for the same reads.
#pragma once

#include "core/centers.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

// Multiply-adds per second of all threads together, over one pass of the rows.
struct TileRates {
    double tile = 0;      // the tile kernel
    double reads = 0;     // the same reads in the same order, with nothing done to what is read
    double cached = 0;    // the tile kernel where everything it reads is in the first-level cache
    double whole = 0;     // the whole assignment: packing, lists, tiles, best two; counting its tiles alone
    double entries = 0;   // share of the entries of the rows that go to the tiles
};

TileRates tile_rates(const Rows& rows, const Centers& centers, int n_threads);

// Seconds of the phases of one pass over the rows, of all threads together.
struct ScanPhases {
    double index = 0;  // turning the centers around, which is one thread's share
    double pack = 0;   // looking up where the features of the rows are
    double lists = 0;  // of the tail
    double tiles = 0;  // of the head
    double best = 0;   // the best two scores of each row
    int64_t head_features = 0, tail_entries = 0;  // of the index
    double head_share = 0;                        // of the entries of the rows
};

ScanPhases scan_phases(const Rows& rows, const Centers& centers, int n_threads);

}  // namespace sparsecluster
