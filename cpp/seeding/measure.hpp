// Squared distances of rows to a candidate in float64, each product summed in feature order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "core/rows.hpp"

namespace sparsecluster {

template <class V, class I>
class Measure {
public:
    static constexpr int64_t kMostPortions = 64;

    Measure(const Rows& rows, const Matrix<V, I>& view, int n_threads)
        : rows_(rows), view_(view), n_threads_(n_threads), spreads_(n_threads) {}

    // Calls visit(portion, i, squared distance) for the listed rows. Portions, numbered from 0, may run side by side.
    // Gives the number of entries that were read.
    template <class Visit>
    int64_t all(int64_t row, const std::vector<int32_t>& listed, const Visit& visit) {
        const auto candidate = view_.row(row);
        const int64_t n_listed = int64_t(listed.size());
        const double row_size = double(view_.nnz()) / double(view_.n_rows) + 1;
        const int64_t n_portions =
            std::clamp<int64_t>(int64_t(double(n_listed) * row_size / kPortion), 1, kMostPortions);
        std::atomic<int64_t> read{0};
        parallel_blocks(n_portions, n_threads_, [&](int64_t portion, int thread) {
            std::vector<double>& spread = spreads_[thread];
            if (spread.empty()) spread.assign(view_.n_features, 0.0);
            for (int64_t e = 0; e < candidate.size; ++e)
                spread[candidate.features[e]] = double(candidate.values[e]);
            const int64_t end = (portion + 1) * n_listed / n_portions;
            int64_t entries = 0;
            for (int64_t s = portion * n_listed / n_portions; s < end; ++s) {
                ask_for(listed, s, end);
                const int32_t i = listed[s];
                const auto other = view_.row(i);
                double product = 0;
                for (int64_t e = 0; e < other.size; ++e)
                    product += spread[other.features[e]] * double(other.values[e]);
                entries += other.size;
                visit(portion, i, distance2(row, i, product, other));
            }
            for (int64_t e = 0; e < candidate.size; ++e) spread[candidate.features[e]] = 0.0;
            read += entries;
        });
        return read;
    }

    // Makes ready for several candidates at once.
    void prepare(const std::vector<int64_t>& candidates) {
        slot_.resize(view_.n_features, 0);
        for (const int64_t row : prepared_)
            for (int64_t e = 0; e < view_.row(row).size; ++e) slot_[view_.row(row).features[e]] = 0;
        prepared_ = candidates;
        const size_t n = candidates.size();
        table_.assign(n, 0.0);  // slot 0: features of none
        for (size_t c = 0; c < n; ++c) {
            const auto candidate = view_.row(candidates[c]);
            for (int64_t e = 0; e < candidate.size; ++e) {
                int32_t& slot = slot_[candidate.features[e]];
                if (slot == 0) {
                    slot = int32_t(table_.size() / n);
                    table_.resize(table_.size() + n, 0.0);
                }
                table_[size_t(slot) * n + c] = double(candidate.values[e]);
            }
        }
    }

    // The same of row i, whose entries are at hand, and of all these candidates: the same products, in the same order,
    // but for those that are zero because no candidate has the feature.
    void several(int64_t i, const Row<V, I>& other, std::vector<double>& distances) const {
        const size_t n = prepared_.size();
        distances.assign(n, 0.0);
        double* const products = distances.data();
        for (int64_t e = 0; e < other.size; ++e) {
            const int32_t slot = slot_[other.features[e]];
            if (slot == 0) continue;
            const double* const values = table_.data() + size_t(slot) * n;
            const double value = double(other.values[e]);
            for (size_t c = 0; c < n; ++c) products[c] += values[c] * value;
        }
        for (size_t c = 0; c < n; ++c) distances[c] = distance2(prepared_[c], i, products[c], other);
    }

private:
    // Rows that are asked for before they are measured: anywhere in memory, each takes longer to come than to be measured.
    static constexpr int64_t kRowsAhead = 8;
    // Entries of rows that are measured by one thread at a time.
    static constexpr int64_t kPortion = 1 << 12;
    // Below this share of the norms a distance is computed directly, for its digits.
    static constexpr double kCancelled = 0x1p-20;

    void ask_for(const std::vector<int32_t>& listed, int64_t s, int64_t end) const {
        view_.prefetch_listed(s, end, kRowsAhead, [&](int64_t ahead) { return listed[ahead]; });
        if (s + kRowsAhead < end) prefetch_line(&rows_.norm2()[listed[s + kRowsAhead]]);
    }

    double distance2(int64_t row, int64_t i, double product, const Row<V, I>& other) const {
        const double norms = rows_.norm2()[i] + rows_.norm2()[row], expanded = norms - 2 * product;
        return expanded > kCancelled * norms ? expanded : direct_distance2(other, view_.row(row));
    }

    const Rows& rows_;
    const Matrix<V, I>& view_;
    int n_threads_;
    std::vector<std::vector<double>> spreads_;  // per thread: the candidate by feature, zero between portions
    std::vector<int64_t> prepared_;             // candidates,
    std::vector<int32_t> slot_;                 // per feature, where it is in the table, 0 where no candidate has it,
    std::vector<double> table_;                 // and their values, slot by slot
};

}  // namespace sparsecluster
