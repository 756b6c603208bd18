// Assignment within size bounds: of all assignments that give every cluster at least and at most so many rows, one of
// the lowest cost, which is the weighted sum of squared distances. Sizes count rows, whatever their weight.
#pragma once

#include <cstdint>
#include <vector>

#include "kmeans/assign.hpp"
#include "sizes/candidates.hpp"
#include "sizes/cost_table.hpp"
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

    // That of the last assignment. Together with labels and centers it is the state of a run.
    const SizeBasis& basis() const { return basis_; }

protected:
    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override;

private:
    void by_lists(int64_t n_clusters, bool known, int32_t* labels);
    template <class Source>
    SizeTree plant(const Source& source, bool known, int32_t* labels);
    // Makes new lists for rows that may gain by what is not on theirs; whether any would.
    bool look_beyond(const SizeTree& tree, const int32_t* labels);
    bool within_bounds(const int32_t* labels, int64_t n_clusters) const;
    // Whether the basis is one for these labels.
    bool hangs_together(const int32_t* labels, const SizeBasis& basis, int64_t n_clusters) const;
    void remember(const SizeTree& tree);

    SizeBounds bounds_;
    int64_t cost_limit_;
    CostTable table_;
    Candidates candidates_;
    SizeBasis basis_;
    std::vector<double> costs_;  // per row, where it is
    double first_cost_ = 0;      // their sum before the first step
};

}  // namespace sparsecluster
