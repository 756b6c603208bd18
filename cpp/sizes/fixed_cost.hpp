// Costs as integers: prices are sums of them along a tree, and exact in any order. So no price drifts, and a step that
// gains something gains it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace sparsecluster {

__extension__ typedef __int128 FixedCost;

// The unit that costs are multiples of: a power of two, so small that a cost of 53 bits is kept whole unless it is very
// small against the largest one.
class CostUnit {
public:
    // For costs of up to `largest`, and sums along a path over all clusters.
    CostUnit(double largest, int64_t n_clusters) : largest_(std::min(largest, kLargest)) {
        const int of_cost = std::ilogb(std::max(largest_, kSmallest)) + 1;
        const int of_sums = std::ilogb(double(n_clusters) + 1) + 3;
        bits_ = std::clamp(kBits - of_cost - of_sums, -kMostBits, kMostBits);
        unit_ = std::ldexp(1.0, -bits_);
    }

    FixedCost fixed(double cost) const { return FixedCost(std::ldexp(std::min(cost, largest_), bits_)); }
    double rounded(FixedCost cost) const { return double(cost) * unit_; }
    double unit() const { return unit_; }

private:
    static constexpr int kBits = 126, kMostBits = 1000;
    static constexpr double kLargest = 0x1p1000, kSmallest = 0x1p-1000;

    double largest_, unit_;
    int bits_;
};

}  // namespace sparsecluster
