// For each row the clusters that cost it least under prices: what an assignment within size bounds looks at, in place
// of rows x clusters. Costs are float64, in a fixed order of operations; a bound tells what is not on the list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "index/center_index.hpp"
#include "index/scan.hpp"
#include "kmeans/assign.hpp"

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
    // at most as many as there are centers, unless more are asked for.
    void start(const Centers& centers, double scale, IndexLimits limits, int64_t length);
    // Lists the `length` clusters of lowest cost + price for these rows (ascending); the cluster of the row's label is
    // one of them in any case, where labels are given.
    void find(const std::vector<int64_t>& ids, const std::vector<double>& prices, const int32_t* labels,
              int64_t length);
    // Bounds by prices that have changed. Of these clusters (ascending) the distances to all rows are computed, to the
    // precision of the kernels; what the others cost follows from how far their prices rose.
    void tighten(const std::vector<int32_t>& clusters, const std::vector<double>& prices);

    std::span<const Candidate> of(int64_t row) const {
        const int32_t size = sizes_[row];
        return {size <= length_ ? lists_.data() + row * length_ : grown_.at(row).data(), size_t(size)};
    }
    // What no cluster outside of the list falls below with cost + price, as long as prices only rise.
    double beyond(int64_t row) const { return bounds_[row]; }
    // The amount by which the price of each listed cluster would have to fall, so that so many more rows (`wanted`)
    // prefer it to what they have, which is `best`; to the precision of the kernels.
    std::vector<double> falls_for(const std::vector<int32_t>& clusters, const std::vector<int64_t>& wanted,
                                  const std::vector<double>& prices, const std::vector<double>& best,
                                  const int32_t* labels);

    // How many rows each cluster gets if every row is shared out among all, by cost + price: a share falls by a factor of e
    // with every `temperature`. To the precision of the kernels; added up in integers.
    std::vector<double> shares(const std::vector<double>& prices, double temperature);
    // What a row's squared distances are multiplied by.
    double factor(int64_t i) const { return indifferent(i) ? 0.0 : weight(i); }
    // What an assignment costs, added up in row order.
    double cost(const int32_t* labels) const;

    int64_t n_rows() const { return rows_.n_rows(); }
    int64_t n_clusters() const { return centers_->size(); }
    int64_t length() const { return length_; }
    int64_t distances() const { return distances_; }  // since the start
    int n_threads() const { return options_.n_threads; }

private:
    struct Scratch {
        std::vector<double> keys, least;
        std::vector<int32_t> order;
    };
    // The picks of a chunk of rows, and what they cost.
    struct Chunk {
        int64_t most = 0;  // per row
        std::vector<int32_t> clusters, n_picked;
        std::vector<double> costs, cut;  // cut: a bound of what was left out though it is no worse than what was picked
    };

    double weight(int64_t i) const {
        return weights_ ? (weights_[i] > 0 ? weights_[i] : least_weight_) : 1.0;
    }
    // With cosines, a row without direction is as far from every center.
    bool indifferent(int64_t i) const { return unit_ && rows_.norm2()[i] == 0; }
    void find_chunk(const int64_t* ids, int64_t n_ids, const std::vector<double>& prices, const int32_t* labels,
                    int64_t length);
    void pick(const Scanned& scanned, const std::vector<double>& prices, const int32_t* labels, int64_t length,
              Scratch& scratch);
    void measure(const int64_t* ids, int64_t n_ids);
    bool listed(int64_t row, int32_t cluster) const {
        const auto list = of(row);
        return std::any_of(list.begin(), list.end(), [=](const Candidate& one) { return one.cluster == cluster; });
    }
    void keep(int64_t row, int64_t position, const std::vector<double>& prices, const int32_t* labels,
              int64_t length, std::vector<Candidate>& list);

    const Rows& rows_;
    const double* weights_;
    double least_weight_ = 1;  // stands for no weight: less than any that counts
    AssignOptions options_;
    bool unit_;
    int64_t length_ = 0;
    const Centers* centers_ = nullptr;
    CenterIndex index_;
    IndexLimits limits_;
    std::vector<ScanScratch> scans_;
    std::vector<Scratch> scratches_;
    Chunk chunk_;
    std::vector<int32_t> positions_, slot_labels_;  // per row
    std::vector<Candidate> lists_;                  // per row, length_ entries
    std::unordered_map<int64_t, std::vector<Candidate>> grown_;  // longer ones
    std::vector<int32_t> sizes_, epochs_;                        // per row
    std::vector<double> bounds_;                                 // per row, by the prices of its epoch
    std::vector<std::vector<double>> prices_;                    // per epoch
    int64_t distances_ = 0;
};

}  // namespace sparsecluster
