// Rows drawn for steps of k-means++ that are still to come, so that all of them can be looked into together. They are
// drawn in proportion to the potentials of the moment. When its turn comes, a row is taken with the probability that is
// left of its potential: what is taken is drawn by the potentials of its own step, because these only fall.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.hpp"
#include "seeding/potential.hpp"

namespace sparsecluster {

class Proposals {
public:
    explicit Proposals(uint64_t seed) : random_(seed) {}

    // Draws so many rows, in place of those before.
    void draw(const Potential& potential, int64_t n) {
        const double total = potential.total();
        proposals_.clear();
        next_ = 0;
        for (int64_t p = 0; p < n; ++p) {
            const int64_t row = potential.row_at(random_.uniform() * total);
            proposals_.push_back({row, random_.uniform() * potential.chance(row)});
        }
    }

    // The next row that is taken; -1 where all had their turn.
    int64_t take(const Potential& potential) {
        while (next_ < proposals_.size()) {
            const Proposal& proposal = proposals_[next_++];
            if (proposal.least < potential.chance(proposal.row)) return proposal.row;
        }
        return -1;
    }

    // Calls visit(row) with those whose turn has not come, until it gives false.
    template <class Visit>
    void visit_next(const Visit& visit) const {
        for (size_t p = next_; p < proposals_.size() && visit(proposals_[p].row); ++p) continue;
    }

private:
    struct Proposal {
        int64_t row;
        double least;  // it is taken where its potential exceeds this
    };
    SeededRandom random_;
    std::vector<Proposal> proposals_;
    size_t next_ = 0;
};

}  // namespace sparsecluster
