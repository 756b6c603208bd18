// Assignment within size bounds: of all assignments that give every cluster at least and at most so many rows, one of
// the lowest cost, which is the weighted sum of squared distances. Sizes count rows, whatever their weight.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kmeans/assign.hpp"
#include "sizes/candidates.hpp"
#include "sizes/cost_table.hpp"
#include "sizes/simplex.hpp"
#include "sizes/size_tree.hpp"

namespace sparsecluster {

// What an assignment is reached from, beside the labels: per cluster the node above it in the tree of size_tree.hpp, and
// the row that it hangs by. Empty for none.
struct SizeBasis {
    std::vector<int64_t> parents, rows;
};

class BoundedAssigner final : public Assigner {
public:
    // `weights` may be null, and must outlive this object. What is kept of costs may take `cost_limit` bytes, or what the
    // shortest lists need. The basis is that of an earlier assignment.
    BoundedAssigner(const Rows& rows, const double* weights, SizeBounds bounds, AssignOptions options,
                    int64_t cost_limit, SizeBasis basis = {});

    // Told, from now on, which share of an assignment is done; may be empty.
    void tell(std::function<void(double)> progress) { tell_ = std::move(progress); }

    // That of the last assignment. Together with labels and centers it is the state of a run.
    const SizeBasis& basis() const { return basis_; }

protected:
    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override;

private:
    // The steps of an assignment by a source: prepare(ids, prices) makes it ready for these rows, and
    // beyond(ids, tree, labels) says whether rows may gain by what it did not have.
    template <class Source, class Prepare, class Beyond>
    void solve(const Source& source, bool known, int32_t* labels, const Prepare& prepare, const Beyond& beyond);
    // Prices of the clusters by samples of the rows, each of which begins with those of a smaller one.
    template <class Source, class Prepare, class Beyond>
    std::vector<double> guess_prices(const Source& source, const Prepare& prepare, const Beyond& beyond);
    // How far apart the rows of the smallest sample are; 1 where rows are few enough without.
    int64_t largest_step(int64_t n_clusters) const;
    std::vector<int64_t> every(int64_t step) const;
    // Whether many rows of a sample gain something by the prices of the tree: then its basis is of little use.
    template <class Source, class Prepare>
    bool many_gain(const Source& source, const SizeTree& tree, const int32_t* labels, const Prepare& prepare);
    template <class Source>
    SizeTree plant_basis(const Source& source, int32_t* labels);
    // Makes new lists for those of some rows that may gain by what is not on theirs; whether any would.
    bool look_beyond(const std::vector<int64_t>& ids, const SizeTree& tree, const int32_t* labels);
    bool within_bounds(const int32_t* labels, int64_t n_clusters) const;
    // Whether the basis is one for these labels.
    bool hangs_together(const int32_t* labels, const SizeBasis& basis, int64_t n_clusters) const;
    void remember(const SizeTree& tree);

    SizeBounds bounds_;
    int64_t cost_limit_;
    CostTable table_;
    Candidates candidates_;
    SizeBasis basis_;
    CostUnit unit_{1, 1};
    std::vector<double> costs_;  // per row, where it is
    double first_cost_ = 0;      // their sum before the first step
    std::function<void(double)> tell_;
    SizeProgress progress_;
};

}  // namespace sparsecluster
