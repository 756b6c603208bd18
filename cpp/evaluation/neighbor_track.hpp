// The nearest clusters beside the rows' own for one labelling after the other, as those of a growing number of clusters.
// A cluster that stays as it was is at the distances that it had, so that rows only look at those that changed, unless
// that leaves their nearest one in doubt. What is found does not depend on what was known.
#pragma once

#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "evaluation/nearest_cluster.hpp"
#include "index/center_index.hpp"
#include "index/scan.hpp"

namespace sparsecluster {

class NeighborTrack {
public:
    // Distances are measured in several ways, which differ in what is added to their squares for each cluster. Rows must
    // outlive this object. SIMD rows of centers take at most `head_limit` bytes.
    NeighborTrack(const Rows& rows, int64_t n_measures, int64_t head_limit)
        : rows_(rows), head_limit_(head_limit), measures_(n_measures) {}

    int64_t n_measures() const { return int64_t(measures_.size()); }
    // Takes a labelling. `spreads` has for each measure a number per center that is added to its squared distances; an
    // infinite one leaves the center out.
    void update(const Centers& centers, const double* spreads, const int32_t* labels, int n_threads);

    // For each row the cluster beside its own of the least squared distance plus spread, the first of equal ones, or -1;
    // and that sum, or infinity.
    const std::vector<int32_t>& nearest(int64_t measure) const { return measures_[measure].nearest; }
    std::vector<double> least(int64_t measure) const;

private:
    struct Measure {
        SpreadClusters clusters;
        std::vector<int32_t> nearest;   // per row, and
        std::vector<double> distance2;  // how far it is,
        std::vector<double> others;     // what no score with a cluster beside these two exceeds,
        std::vector<char> unmeasured;   // and whether the distance is to be computed
    };

    bool note_changes(const Centers& centers, const double* spreads);
    void take(const Centers& centers, const double* spreads);
    void index(const std::vector<int32_t>* clusters, int n_threads);
    std::vector<int64_t> scan_changed(const int32_t* labels, int n_threads);
    bool decides(Measure& measure, const Scanned& scanned, int32_t own) const;
    void scan_all(const int64_t* ids, int64_t n_ids, const int32_t* labels, int n_threads);
    void measure_distances(Measure& measure, int n_threads);
    ScannedProducts products(const Scanned& scanned) const {
        return {scanned, 1 / (scale_ * scale_), rows_.norm2()[scanned.row]};
    }

    const Rows& rows_;
    int64_t head_limit_;
    double scale_ = 0;
    bool known_ = false;  // whether there is a labelling
    Centers centers_;
    std::vector<int32_t> labels_;
    std::vector<char> changed_;  // per cluster
    std::vector<Measure> measures_;
    CenterIndex index_;
    std::vector<ScanScratch> scratches_;
};

}  // namespace sparsecluster
