// Screens all candidates of a step together, as if they were centers: one pass over the rows.
#pragma once

#include <cstdint>
#include <vector>

#include "core/rows.hpp"
#include "index/scan.hpp"
#include "seeding/potential.hpp"

namespace sparsecluster {

class CandidateScan {
public:
    template <class V, class I>
    void index(const Rows& rows, const Matrix<V, I>& view, const std::vector<int64_t>& candidates, int n_threads) {
        constexpr int64_t kHeadLimit = int64_t(256) << 20;
        Centers centers;
        centers.n_features = view.n_features;
        centers.items.resize(candidates.size());
        for (size_t c = 0; c < candidates.size(); ++c) {
            const auto row = view.row(candidates[c]);
            centers.items[c].features.assign(row.features, row.features + row.size);
            centers.items[c].values.assign(row.values, row.values + row.size);
            centers.items[c].norm2 = rows.norm2()[candidates[c]];
        }
        index_.build(centers, rows.scale(), {kHeadLimit, direct_limit(rows.nnz())}, n_threads);
    }

    // Calls visit(i, row, c, excess, thread) where row i may be nearer to the c-th candidate than to any seed: half the
    // squared distance, scaled, would fall by no more than the excess.
    template <class Visit>
    void find(const Rows& rows, const Potential& potential, int n_threads, const Visit& visit) {
        scan(rows, index_, nullptr, rows.n_rows(), n_threads, scratches_,
             [&](const Scanned& scanned, const auto& row, int thread) {
                 const double least = double(potential.offsets()[scanned.row]) - scanned.error;
                 for (int64_t c = 0; c < index_.n_centers; ++c)
                     if (!(scanned.scores[c] < least))
                         visit(scanned.row, row, size_t(c), double(scanned.scores[c]) - least, thread);
             });
    }

private:
    CenterIndex index_;
    std::vector<ScanScratch> scratches_;
};

}  // namespace sparsecluster
