// Sums of all clusters by feature, in float64, that change a little at a time. Where a table of all features and
// clusters is small, it is one. Else a feature that many clusters share is a row of numbers, one a cluster, the
// others are short lists, and memory follows the non-zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/prefetch.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

class FeatureSums {
public:
    FeatureSums(int64_t n_clusters, int64_t table_limit) : n_clusters_(n_clusters), table_limit_(table_limit) {}
    FeatureSums(FeatureSums&&) = default;
    FeatureSums(const FeatureSums&) = delete;

    int64_t n_features() const { return n_features_; }
    int64_t n_known() const { return as_table_ ? n_features_ : int64_t(features_.size()); }  // features
    void widen(int64_t n_features);

    // Makes room for a feature; add() must find it there.
    void make_room(int64_t feature) {
        if (as_table_ || place_[feature] != kNowhere) return;
        place_[feature] = int32_t(features_.size());
        features_.emplace_back();
    }
    // Adds to a sum, and gives what it was before. Different features can be changed by different threads.
    double add(int64_t feature, int32_t cluster, double term) {
        double& sum = as_table_ ? table_row(feature)[cluster] : features_[place_[feature]].at(cluster, n_clusters_);
        const double before = sum;
        sum += term;
        return before;
    }
    // Sets a sum; a zero takes no memory, except in a row.
    void set(int64_t feature, int32_t cluster, double value) {
        make_room(feature);
        if (as_table_)
            table_row(feature)[cluster] = value;
        else
            features_[place_[feature]].set(cluster, value, n_clusters_);
    }
    // Calls visit(cluster, sum) for the sums of a feature that are not zero, by ascending cluster.
    template <class Visit>
    void visit(int64_t feature, const Visit& visit) const {
        if (!as_table_ && place_[feature] == kNowhere) return;
        const double* const row = as_table_ ? table_row(feature) : features_[place_[feature]].row.get();
        for (int64_t k = 0; row && k < n_clusters_; ++k)
            if (row[k] != 0) visit(int32_t(k), row[k]);
        if (row) return;
        for (const Cell& cell : features_[place_[feature]].list)
            if (cell.sum != 0) visit(cell.cluster, cell.sum);
    }

    // How many sums there is room for.
    int64_t n_sums() const {
        int64_t total = as_table_ ? n_features_ * n_clusters_ : 0;
        for (const Feature& sums : features_) total += sums.row ? n_clusters_ : int64_t(sums.list.size());
        return total;
    }
    // row . sums of one cluster. Notes the features that there is no room for.
    template <class V, class I>
    double product(const Row<V, I>& row, int32_t cluster, std::vector<int64_t>& unknown) const {
        double sum = 0;
        for (int64_t e = 0; as_table_ && e < row.size; ++e)
            sum += double(row.values[e]) * table_row(row.features[e])[cluster];
        for (int64_t e = 0; !as_table_ && e < row.size; ++e) {
            const int32_t place = place_[row.features[e]];
            if (place == kNowhere)
                unknown.push_back(row.features[e]);
            else
                sum += double(row.values[e]) * features_[place].value(cluster);
        }
        return sum;
    }

    // Rows that are asked for before they are added.
    static constexpr int64_t kAhead = 6;
    // What multiply() needs besides; products has room for a multiple of four clusters.
    struct Scratch {
        std::vector<double> products;
        std::vector<const double*> rows;
        std::vector<double> values;
    };
    // Asks for a feature, and when that has come for its sums, before they are read or changed.
    void prefetch(int64_t feature) const {
        if (as_table_) return;
        if (const int32_t place = place_[feature]; place != kNowhere) prefetch_line(&features_[place]);
    }
    void prefetch_sums(int64_t feature, int64_t cluster = 0) const {
        if (as_table_) return prefetch_line(table_row(feature) + cluster);
        const int32_t place = place_[feature];
        if (place == kNowhere) return;
        const Feature& sums = features_[place];
        prefetch_line(sums.row ? static_cast<const void*>(sums.row.get() + cluster) : sums.list.data());
    }
    // scratch.products[k] = row . sums of cluster k. Notes the features that there is no room for.
    template <class V, class I>
    void multiply(const Row<V, I>& row, Scratch& scratch, std::vector<int64_t>& unknown) const {
        scratch.products.assign(padded(n_clusters_), 0.0);
        if (int64_t(scratch.rows.size()) < row.size + kAhead) {
            scratch.rows.resize(row.size + kAhead);
            scratch.values.resize(row.size);
        }
        double* const products = scratch.products.data();
        int64_t n_rows = 0;
        for (int64_t e = 0; as_table_ && e < row.size; ++e) {
            scratch.rows[n_rows] = table_row(row.features[e]);
            scratch.values[n_rows++] = double(row.values[e]);
        }
        for (int64_t e = 0; !as_table_ && e < row.size; ++e) {
            const int32_t place = place_[row.features[e]];
            if (place == kNowhere) {
                unknown.push_back(row.features[e]);
                continue;
            }
            const Feature& sums = features_[place];
            const double value = double(row.values[e]);
            if (sums.row) {
                scratch.rows[n_rows] = sums.row.get();
                scratch.values[n_rows++] = value;
            } else {
                for (const Cell& cell : sums.list) products[cell.cluster] += value * cell.sum;
            }
        }
        std::fill_n(scratch.rows.begin() + n_rows, kAhead, products);
        add_rows(scratch.rows.data(), scratch.values.data(), n_rows, padded(n_clusters_), products);
    }

private:
    static constexpr int32_t kNowhere = -1;
    // A list that names more than one in so many clusters becomes a row.
    static constexpr int64_t kRowShare = 6;

    static int64_t padded(int64_t n) { return (n + 3) / 4 * 4; }

    struct Cell {
        int32_t cluster;
        double sum;
    };
    struct Feature {
        std::vector<Cell> list;  // by ascending cluster; empty where there is a row
        std::unique_ptr<double[]> row;

        auto find(int32_t cluster) {
            return std::lower_bound(list.begin(), list.end(), cluster,
                                    [](const Cell& cell, int32_t k) { return cell.cluster < k; });
        }
        double& at(int32_t cluster, int64_t n_clusters) {
            if (row) return row[cluster];
            auto cell = find(cluster);
            if (cell != list.end() && cell->cluster == cluster) return cell->sum;
            if (int64_t(list.size()) * kRowShare <= n_clusters) return list.insert(cell, {cluster, 0.0})->sum;
            row = std::make_unique<double[]>(padded(n_clusters));
            for (const Cell& known : list) row[known.cluster] = known.sum;
            list = {};
            return row[cluster];
        }
        double value(int32_t cluster) const {
            if (row) return row[cluster];
            for (const Cell& cell : list)
                if (cell.cluster >= cluster) return cell.cluster == cluster ? cell.sum : 0.0;
            return 0.0;
        }
        void set(int32_t cluster, double value, int64_t n_clusters) {
            if (value != 0) {
                at(cluster, n_clusters) = value;
            } else if (row) {
                row[cluster] = 0;
            } else if (auto cell = find(cluster); cell != list.end() && cell->cluster == cluster) {
                list.erase(cell);
            }
        }
    };

    // sums[k] += values[0] * rows[0][k] + values[1] * rows[1][k] + ..., in this order; n is a multiple of four.
    static void add_rows(const double* const* rows, const double* values, int64_t n_rows, int64_t n, double* sums);

    double* table_row(int64_t feature) { return table_.data() + feature * padded(n_clusters_); }
    const double* table_row(int64_t feature) const { return table_.data() + feature * padded(n_clusters_); }

    int64_t n_clusters_, table_limit_, n_features_ = 0;
    bool as_table_ = true;
    std::vector<double> table_;   // a row a feature
    std::vector<int32_t> place_;  // per feature, into features_, where there is no table
    std::vector<Feature> features_;
};

}  // namespace sparsecluster
