// Mini-batch k-means (Sculley 2010): each batch is assigned to the centers as they are, then every center moves
// towards its rows with its own learning rate, one over the rows that it has seen. What is kept does not depend
// on how many rows there were.
#pragma once

#include <cstdint>
#include <vector>

#include "assign.hpp"
#include "centers.hpp"
#include "csr.hpp"
#include "features.hpp"
#include "index.hpp"
#include "projection.hpp"
#include "scan.hpp"

namespace sparsecluster {

struct BatchStats {
    std::vector<double> shift;      // per center, how far it moved
    std::vector<double> distance2;  // of the rows to their centers, before these moved
    int64_t distances = 0;
    const char* path = "full scan";
};

class MiniBatch {
public:
    // `counts`: the weight of the rows that each center has seen. `lengths` (for cosines): of the sum of its rows.
    MiniBatch(Centers centers, std::vector<double> counts, std::vector<double> lengths, Metric metric,
              CenterLimit limit, int64_t head_limit)
        : centers_(std::move(centers)), counts_(std::move(counts)), lengths_(std::move(lengths)),
          metric_(metric), limit_(limit), head_limit_(head_limit) {}

    // Labels the rows and moves the centers. The rows' scale must cover the centers.
    BatchStats learn(const Rows& rows, const double* weights, int32_t* labels, int n_threads);
    // Puts a center where row i is, as if it had seen rows of this weight there.
    void place(int64_t cluster, const Rows& rows, int64_t i, double count);
    // Later batches have more features.
    void widen(int64_t n_features) { centers_.n_features = n_features; }

    const Centers& centers() const { return centers_; }
    const std::vector<double>& counts() const { return counts_; }
    const std::vector<double>& lengths() const { return lengths_; }

private:
    struct Scratch {
        std::vector<double> center, sums;  // per feature, zero between clusters
        FeatureSet touched;
    };

    void assign(const Rows& rows, int32_t* labels, int n_threads, BatchStats& stats);
    template <class View>
    void move(const View& view, const double* weights, const int64_t* begin, const int64_t* end, int64_t k,
              Scratch& scratch, BatchStats& stats);

    Centers centers_;
    std::vector<double> counts_, lengths_;
    Metric metric_;
    CenterLimit limit_;
    int64_t head_limit_;
    CenterIndex index_;
    std::vector<ScanScratch> scans_;    // per thread
    std::vector<Scratch> scratches_;
};

}  // namespace sparsecluster
