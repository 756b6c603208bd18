// Seeding by Markov chains (AFK-MC2: Bachem, Lucic, Hassani and Krause 2016; SPKM-MCMC for cosines): one pass over
// the rows, then for each center a chain whose end is nearly a draw of k-means++.
#pragma once

#include <cstdint>

#include "core/rows.hpp"
#include "seeding/greedy.hpp"

namespace sparsecluster {

struct ChainOptions {
    int64_t n_clusters = 1;
    int64_t length = 1;               // steps of a chain
    int64_t first = 0;                // the row of the first center
    uint64_t seed = 0;                // of the chains
    const double* weights = nullptr;  // of the rows, or null
    double floor = 0;                 // as in SeedOptions
    int n_threads = 1;
    std::function<void(int64_t)> on_center = nullptr;  // as in SeedOptions
};

Seeds chain_seeds(const Rows& rows, const ChainOptions& options);

}  // namespace sparsecluster
