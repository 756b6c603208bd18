// Assignment within size bounds: of all assignments that give every cluster at least and at most so many rows, one of
// the lowest cost, which is the weighted sum of squared distances. Sizes count rows, whatever their weight.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kmeans/assign.hpp"
#include "sizes/plan.hpp"

namespace sparsecluster {

class BoundedAssigner final : public Assigner {
public:
    // `weights` may be null, and must outlive this object. The lists of candidates may take `list_limit` bytes; they
    // take more only where bounds cannot be kept without. Prices to begin with may be empty.
    BoundedAssigner(const Rows& rows, const double* weights, SizeBounds bounds, AssignOptions options,
                    int64_t list_limit, std::vector<double> prices = {});

    // Those that the last assignment ended with. Together with labels and centers they are the state of a run.
    const std::vector<double>& prices() const { return prices_; }

protected:
    AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift, int32_t* labels) override;

private:
    // Both answer what the assignment costs.
    double by_table(const Centers& centers, Plan& plan, AssignStats& stats);
    double by_lists(const Centers& centers, Plan& plan, AssignStats& stats);
    bool all_in_table(int64_t n_clusters) const;
    // By the costs of the last call to either.
    double cost_of(const int32_t* labels) const;
    bool within_bounds(const int32_t* labels, int64_t n_clusters) const;

    SizeBounds bounds_;
    int64_t list_limit_;
    CostTable table_;
    Candidates candidates_;
    std::vector<double> prices_;  // per cluster
};

}  // namespace sparsecluster
