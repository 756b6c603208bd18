// How far rows are from the nearest seed so far, and draws of rows in proportion to that.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/rows.hpp"
#include "seeding/greedy.hpp"

namespace sparsecluster {

class Potential {
public:
    // Rows whose potentials are summed together; a draw looks at the sums first.
    static constexpr int64_t kBlock = 256;

    Potential(const Rows& rows, const SeedOptions& options)
        : rows_(rows), options_(options), n_(rows.n_rows()),
          distance2_(n_, std::numeric_limits<double>::infinity()), offset_(n_), blocks_((n_ + kBlock - 1) / kBlock) {}

    double weight(int64_t i) const { return options_.weights ? options_.weights[i] : 1.0; }
    // Squared distance to the nearest seed.
    double distance2(int64_t i) const { return distance2_[i]; }
    // A row nearer to a seed: to be followed by a refresh.
    void set(int64_t i, double distance2) { distance2_[i] = distance2; }
    // (|x|^2 - distance2) / 2, scaled, rounded down: what a product with a nearer seed exceeds.
    const float* offsets() const { return offset_.data(); }

    void refresh() {
        for (int64_t i = 0; i < n_; ++i) refresh_offset(i);
        for (size_t b = 0; b < blocks_.size(); ++b) refresh_block(int64_t(b));
    }
    // Takes over the distances of rows that are nearer to a new seed.
    void accept(const std::vector<int32_t>& nearer, const std::vector<double>& distance2) {
        std::vector<char> stale(blocks_.size(), 0);
        for (size_t p = 0; p < nearer.size(); ++p) {
            distance2_[nearer[p]] = distance2[p];
            refresh_offset(nearer[p]);
            stale[nearer[p] / kBlock] = 1;
        }
        for (size_t b = 0; b < stale.size(); ++b)
            if (stale[b]) refresh_block(int64_t(b));
    }

    // What draws are made of, and what the seeds leave.
    double total() const {
        double sum = 0;
        for (double potential : blocks_) sum += potential;
        return sum;
    }
    double cost() const {
        double sum = 0;
        for (int64_t i = 0; i < n_; ++i) sum += weight(i) * distance2_[i];
        return sum;
    }

    // In proportion to which a row is drawn.
    double chance(int64_t i) const { return weight(i) * (distance2_[i] + options_.floor); }
    // How much a seed at this squared distance of a row lowers the cost, in steps of a fixed point: sums of these do not
    // depend on their order.
    int64_t gain(int64_t i, double distance2, double step) const {
        return std::llrint(weight(i) * (distance2_[i] - distance2) * step);
    }

    // The rows that the draws of a step choose, ascending, each once.
    std::vector<int64_t> draw(int64_t step, double total) const {
        std::vector<int64_t> drawn;
        for (int64_t c = 0; c < options_.n_candidates; ++c)
            drawn.push_back(row_at(options_.draws[step * options_.n_candidates + c] * total));
        std::sort(drawn.begin(), drawn.end());
        drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
        return drawn;
    }

    // The row that a number from 0 to the total falls on.
    int64_t row_at(double left) const {
        size_t b = 0;
        while (b + 1 < blocks_.size() && left >= blocks_[b]) left -= blocks_[b++];
        int64_t chosen = -1;
        for (int64_t i = int64_t(b) * kBlock; i < std::min(n_, int64_t(b + 1) * kBlock); ++i) {
            const double part = chance(i);
            if (part <= 0) continue;
            chosen = i;
            if (left < part) break;
            left -= part;
        }
        // Rounding can run past the last block that has any potential.
        for (int64_t i = n_; chosen < 0 && i-- > 0;)
            if (chance(i) > 0) chosen = i;
        return chosen;
    }

private:
    void refresh_offset(int64_t i) {
        const double offset = 0.5 * (rows_.norm2()[i] - distance2_[i]) * rows_.scale() * rows_.scale();
        offset_[i] = float(offset) - std::abs(float(offset)) * 0x1p-20f;
    }
    void refresh_block(int64_t b) {
        double potential = 0;
        for (int64_t i = b * kBlock; i < std::min(n_, (b + 1) * kBlock); ++i) potential += chance(i);
        blocks_[b] = potential;
    }

    const Rows& rows_;
    const SeedOptions& options_;
    int64_t n_;
    std::vector<double> distance2_;
    std::vector<float> offset_;
    std::vector<double> blocks_;
};

}  // namespace sparsecluster
