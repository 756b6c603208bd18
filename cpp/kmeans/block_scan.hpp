// One pass of rows that have a label, with whole blocks of centers ruled out at once. Of each block a row computes a
// bound from above of all its scores (block_maxima.hpp), and only the blocks whose bound reaches the best score that the
// row has with its own group are looked at: first that of the highest bound, and then those that its best score does not
// rule out either. A score x.c - |c|^2/2 is lowered the most by centers of large norm: a block
// has centers of about the same norm, so that the bound can take off the least of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/centers.hpp"
#include "core/rows.hpp"
#include "index/scan.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/block_maxima.hpp"

namespace sparsecluster {

// The next float above a value that was rounded to one. (A few instructions, for most rows of most passes.)
__attribute__((always_inline)) inline float next_above(double value) {
    const float rounded = float(value);
    if (!(std::abs(rounded) < std::numeric_limits<float>::infinity()) || rounded == 0)
        return std::nextafter(rounded, std::numeric_limits<float>::infinity());
    return std::bit_cast<float>(std::bit_cast<int32_t>(rounded) + (rounded > 0 ? 1 : -1));
}

// What is known of rows between two passes.
struct RowScores {
    // In place of a row's own score where every look at moved centers must become one at all of them.
    static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

    std::vector<float> own;    // scores with their own centers,
    std::vector<float> error;  // which are off by this at most
    std::vector<float> other;  // what no score with another center exceeds

    int64_t size() const { return int64_t(own.size()); }
    void resize(int64_t n) {
        own.resize(n);
        error.resize(n);
        other.resize(n);
    }
};

class BlockScan {
public:
    // `scores` and the rows must outlive it.
    BlockScan(const Rows& rows, AssignOptions options, double scale, RowScores& scores)
        : rows_(rows), options_(options), scale_(scale), scores_(scores) {}

    // Chooses the centers that count: all of them, or those that moved (ascending), where only rows that a center
    // which stayed may win are left in doubt.
    void arrange(const Centers& centers, const std::vector<int32_t>& moved, bool all);
    // What assigning the rows will take, by a sample of rows. To be called before they are assigned.
    double expected_seconds(const Centers& centers, const int32_t* labels);
    // Gives all rows whose scores are known their labels. Rows that stay in doubt are added to `doubtful`.
    AssignStats assign(const Centers& centers, int32_t* labels, std::vector<int64_t>& doubtful);

private:
    // What the groups that were looked into hold for a row, but for the row's own center: the three best scores.
    struct Found {
        float best = -INFINITY, second = -INFINITY, third = -INFINITY;
        int32_t center = -1, second_center = -1;

        void add(float score, int32_t of) {
            if (score > best) {
                third = second;
                second = best;
                second_center = center;
                best = score;
                center = of;
            } else if (score > second) {
                third = second;
                second = score;
                second_center = of;
            } else {
                third = std::max(third, score);
            }
        }
    };
    // The groups that rows may have to look into, row by row: the one of the highest bound first.
    struct OpenGroups {
        int64_t first_row = 0, n_rows = 0;
        std::vector<int64_t> row_begin;  // one more than there are rows
        std::vector<int32_t> groups;     // kRuledOut where another one turned out to be better
        std::vector<float> bounds;       // of all scores with the centers of the group
        std::vector<float> below;        // per row, of all other groups
        std::vector<char> doubtful;      // per row: whether a center that does not count may win
    };
    static constexpr int32_t kRuledOut = -1;
    // The rows that look into each group, ascending.
    struct RowsByGroup {
        std::vector<int64_t> begin;  // per group, into rows; one more than there are groups
        std::vector<int32_t> rows;
    };
    struct Scratch {
        std::vector<HeadEntry> entries;
        std::vector<int64_t> row_begin;
        std::vector<float> sums;
        std::vector<int32_t> reaching, candidates;
        std::vector<int64_t> ids;
        ScanScratch scan;
    };

    int64_t group_of(int32_t label) const;
    float error_of(int64_t row, int64_t size) const;
    template <class V, class I>
    void sum_blocks(const Matrix<V, I>& view, int64_t begin, int64_t end, int64_t step, Scratch& scratch) const;
    float factor_of(int64_t r, const Scratch& scratch) const;
    int64_t reaching(int64_t r, double score, Scratch& scratch, float& below) const;
    template <class Visit>
    void visit_groups_of(int64_t r, int64_t n_reaching, const Scratch& scratch, const Visit& visit) const;
    void index_group(int64_t group, const Centers& centers, int n_threads);
    int64_t rows_of_part() const;
    void look_further(int64_t begin, int64_t end, const Centers& centers, int32_t* labels,
                      std::vector<int64_t>& doubtful, AssignStats& stats);
    OpenGroups list_open(int64_t begin, int64_t end, const int32_t* labels);
    template <class V, class I>
    bool rules_out(const Row<V, I>& row, int64_t i, int64_t group, OpenGroups& open) const;
    template <class Visit>
    RowsByGroup by_group(int64_t begin, int64_t end, const Visit& visit) const;
    template <class Skip>
    void look_into(const RowsByGroup& listed, const Centers& centers, const int32_t* labels, AssignStats& stats,
                   const Skip& skip);
    template <class V, class I>
    void look_into_group(const Matrix<V, I>& view, int64_t group, const int32_t* labels, Scratch& scratch);
    void decide_rows(const OpenGroups& open, const Centers& centers, int32_t* labels, std::vector<int64_t>& doubtful,
                     AssignStats& stats);
    template <class V, class I>
    bool decide_row(int64_t i, const Row<V, I>& row, const OpenGroups& open, const Centers& centers, int32_t* labels,
                    Scratch& scratch);

    const Rows& rows_;
    AssignOptions options_;
    double scale_;
    RowScores& scores_;
    bool all_ = true;  // whether all centers count, not only those that moved
    double open_groups_ = 0;  // per row, by their bounds, as a sample of rows had it
    int64_t n_groups_ = 0;
    int64_t direct_limit_ = 0;               // bytes for the table of a group
    double longest_ = 0;                     // of the centers, scaled
    std::vector<int32_t> order_, position_;  // centers that count, by group; where each is there, or -1
    BlockMaxima maxima_;
    CenterIndex index_;         // of the group that is looked into,
    std::vector<Found> found_;  // and what all so far hold for each row
    std::vector<Scratch> scratches_;
};

}  // namespace sparsecluster
