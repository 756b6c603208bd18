// Mini-batch k-means (Sculley 2010): each batch is assigned to the centers as they are, then every center moves
// towards its rows with its own learning rate, one over the rows that it has seen: it is the mean of them all.
// A small batch costs what its entries cost, whatever the centers hold; a large one pays for an index of the
// centers, and limited centers are written out for every batch. Nothing that is kept depends on how many rows there were.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/centers.hpp"
#include "core/metric.hpp"
#include "core/rows.hpp"
#include "index/center_index.hpp"
#include "index/scan.hpp"
#include "kmeans/feature_sums.hpp"
#include "kmeans/projection.hpp"

namespace sparsecluster {

// A squared norm that follows a sum of rows: two doubles, and how wrong they may be.
struct RunningSquare {
    double high = 0, low = 0, error = 0;

    double value() const { return high + low; }
    void add(double gain, double slack) {
        const double sum = high + gain, part = sum - high;
        low += (high - (sum - part)) + (gain - part);
        high = sum;
        error += slack;
    }
};

struct BatchStats {
    std::vector<double> shift;      // per center, how far it moved
    std::vector<double> distance2;  // of the rows to their centers, before these moved
};

// What an assignment finds besides labels.
struct Batch {
    std::vector<double> own;                    // products of the rows with the sums of their clusters
    std::vector<double> distance2;              // of the rows to their centers
    std::vector<std::vector<int64_t>> unknown;  // features that no center has yet, per thread
};

class MiniBatch {
public:
    // `sums` and `counts`: of the rows that each center has seen. Where the count is zero the sum is the center
    // to start from, which the first rows replace.
    // `head_limit`: bytes of SIMD rows in an index of the centers.
    MiniBatch(const Centers& sums, std::vector<double> counts, Metric metric, CenterLimit limit,
              int64_t head_limit);

    // Labels the rows; what others can see of the centers stays as it is.
    Batch assign(const Rows& rows, int32_t* labels, int n_threads);
    // Moves the centers towards the rows of the batch; nothing stops it half way. `weights` may be null.
    BatchStats move(Batch batch, const Rows& rows, const double* weights, const int32_t* labels, int n_threads);
    BatchStats learn(const Rows& rows, const double* weights, int32_t* labels, int n_threads) {
        return move(assign(rows, labels, n_threads), rows, weights, labels, n_threads);
    }
    // Puts centers where these rows are, as if each had seen rows of this weight there.
    void place(const std::vector<int32_t>& clusters, const Rows& rows, const int64_t* ids, double count);
    // Later batches have more features.
    void widen(int64_t n_features);

    int64_t size() const { return int64_t(counts_.size()); }
    int64_t n_features() const { return sums_.n_features(); }
    Centers centers() const;
    Centers sums() const;
    const std::vector<double>& counts() const { return counts_; }
    // For the sums to be taken up again elsewhere, to the bit.
    std::vector<RunningSquare>& squares() { return squares_; }

private:
    struct Scale : CenterScale {
        // To a vector of this squared norm and product with the center, as far as rounding goes.
        double distance(double other_norm2, double product) const {
            const double most = std::sqrt(norm2 * other_norm2);
            return std::sqrt(std::max(0.0, norm2 + other_norm2 - 2 * std::clamp(product, -most, most)));
        }
    };
    // What a batch does to a center.
    struct Move {
        Scale before;
        double kept = 0;             // square of the sum that stays
        double weight = 0;           // of the rows that come,
        double product = 0;          // their product with the sum before,
        int64_t first = -1;          // and the first of them
    };
    Scale scale(int64_t k) const;
    bool worth_an_index(const Rows& rows) const;
    void assign_by_index(const Rows& rows, int32_t* labels, int n_threads, Batch& batch);
    void assign_by_sums(const Rows& rows, int32_t* labels, int n_threads, Batch& batch) const;
    template <class V, class I, class Written>
    double distance2(const Row<V, I>& row, double norm2, double product, int64_t k, const Written& written) const;
    void add(const Rows& rows, const double* weights, const int32_t* labels, int n_threads);
    void forget_start(int32_t k);
    void write(int32_t cluster, const std::vector<int32_t>& features, const Center& center, double times);
    void limit_centers(const std::vector<Move>& moves, BatchStats& stats);
    void refresh_stale_squares();
    void refresh_square(int64_t k, const Center& sum);

    FeatureSums sums_;
    std::vector<double> counts_;
    std::vector<RunningSquare> squares_;  // of the sums
    Metric metric_;
    CenterLimit limit_;
    int64_t head_limit_;
    // Not here while an assignment uses it: the child of a fork makes another one.
    struct Workspace {
        CenterIndex index;
        std::vector<ScanScratch> scans;
    };
    std::unique_ptr<Workspace> workspace_;
    Centers starts_;   // the centers that have seen nothing
    Centers limited_;  // all centers, where there is a limit
};

}  // namespace sparsecluster
