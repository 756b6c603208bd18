// For each row the clusters that cost it least under prices: what an assignment within size bounds looks at, in place
// of rows x clusters. Costs are float64, in a fixed order of operations, and the float32 kernels only say which ones need
// not be computed: lists and bounds are the same on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "index/center_index.hpp"
#include "index/scan.hpp"
#include "kmeans/assign.hpp"
#include "sizes/simplex.hpp"

namespace sparsecluster {

struct Candidate {
    double cost;  // weight times squared distance
    int32_t cluster;
};

class Candidates {
public:
    // `weights` may be null.
    Candidates(const Rows& rows, const double* weights, const AssignOptions& options);

    // By these centers from now on, which must stay as they are; there are no lists yet. A list has `length` entries,
    // at most as many as there are centers.
    void start(const Centers& centers, double scale, IndexLimits limits, int64_t length);
    // Lists the clusters of lowest cost + price for these rows (ascending). `tell` is called with the share that is done.
    template <class Tell>
    void find(const std::vector<int64_t>& ids, const std::vector<double>& prices, const Tell& tell) {
        begin_epoch(prices);
        const int64_t most = rows_of_chunk(), n = int64_t(ids.size());
        for (int64_t begin = 0; begin < n; begin += most) {
            find_chunk(ids.data() + begin, std::min(most, n - begin), prices);
            tell(double(std::min(begin + most, n)) / double(n));
        }
        distances_ += n * n_clusters();
    }

    std::span<const Candidate> of(int64_t row) const { return {lists_.data() + row * length_, size_t(length_)}; }
    // Per time that find() was called: the least that a price has risen by since, if prices are these now.
    std::vector<double> rises(const std::vector<double>& prices) const;
    // What no cluster outside of the list falls below with cost + price, by these rises.
    double beyond(int64_t row, const std::vector<double>& rises) const { return bounds_[row] + rises[epochs_[row]]; }

    // A source for simplex.hpp: what is listed.
    template <class See>
    void visit(int64_t row, const See& see) const {
        for (const Candidate& one : of(row)) see(one.cluster, one.cost);
    }
    SizeOffer best(int64_t row, int32_t label, const std::vector<double>& prices) const {
        SizeOffer best;
        double least = INFINITY;
        for (const Candidate& one : of(row))
            if (const double value = one.cost + prices[one.cluster]; value < least && one.cluster != label)
                least = value, best = {one.cluster, one.cost};
        return best;
    }
    uint64_t with_better(int64_t, int64_t, const int32_t*, const std::vector<double>&) const { return ~uint64_t(0); }
    // Any cost, listed or not.
    double cost(int64_t row, int32_t cluster) const;
    // What all rows cost where they are.
    void own_costs(const int32_t* labels, double* costs) const;

    // What a row's squared distances are multiplied by. With cosines, a row without direction is as far from every center.
    double factor(int64_t i) const { return unit_ && rows_.norm2()[i] == 0 ? 0.0 : weight(i); }
    // No row costs more with any of these centers.
    double most_cost(const Centers& centers) const;
    int64_t n_rows() const { return rows_.n_rows(); }
    int64_t n_clusters() const { return centers_->size(); }
    int64_t distances() const { return distances_; }  // since the start

private:
    struct Scratch {
        std::vector<double> keys, least;
        std::vector<int32_t> order;
    };
    // What may be among the best of some rows.
    struct Chunk {
        std::vector<std::vector<int32_t>> picks;  // per row
        std::vector<int64_t> begin;               // per row of those that are measured, into costs
        std::vector<double> costs;
    };

    double weight(int64_t i) const {
        return weights_ ? (weights_[i] > 0 ? weights_[i] : least_weight_) : 1.0;
    }
    void begin_epoch(const std::vector<double>& prices);
    int64_t rows_of_chunk() const;
    void find_chunk(const int64_t* ids, int64_t n_ids, const std::vector<double>& prices);
    void pick(const Scanned& scanned, const std::vector<double>& prices, Scratch& scratch);
    void measure(const int64_t* ids, int64_t first, int64_t last);
    void keep(int64_t row, const std::vector<int32_t>& picks, const double* costs, const std::vector<double>& prices,
              std::vector<Candidate>& list);

    const Rows& rows_;
    const double* weights_;
    double least_weight_ = 1;  // stands for no weight: less than any that counts
    double most_weight_ = 1, most_norm_ = 0;
    AssignOptions options_;
    bool unit_;
    int64_t length_ = 0;
    const Centers* centers_ = nullptr;
    CenterIndex index_;
    std::vector<ScanScratch> scans_;
    std::vector<Scratch> scratches_;
    Chunk chunk_;
    std::vector<int32_t> positions_;           // per row, in the chunk
    std::vector<Candidate> lists_;             // per row, length_ entries
    std::vector<int32_t> epochs_;              // per row
    std::vector<double> bounds_;               // per row, by the prices of its epoch
    std::vector<std::vector<double>> prices_;  // per epoch
    double largest_price_ = 0;                 // of the last epoch
    int64_t distances_ = 0;
};

}  // namespace sparsecluster
