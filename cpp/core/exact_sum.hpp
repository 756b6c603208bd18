// A sum of doubles without rounding: a fixed-point number as wide as the range of double, in limbs of 32 bits (Neal,
// "Fast exact summation using small and large superaccumulators", 2015). It is the same for any order and any
// partition of its terms, and rounded once, when its value is asked for.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace sparsecluster {

class ExactSum {
public:
    // 2098 bits of finite doubles, and room for the sum of many.
    static constexpr int kLimbs = 70;

    void add(double term) {
        if (term == 0) return;
        const uint64_t bits = std::bit_cast<uint64_t>(term);
        const int biased = int(bits >> 52 & 0x7ff);
        if (biased == 0x7ff) return overflow();
        const uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
        const uint64_t mantissa = biased ? fraction | uint64_t(1) << 52 : fraction;
        const int place = biased ? biased - 1 : 0;  // of its last bit, above 2^-1074
        const int64_t sign = bits >> 63 ? -1 : 1;
        const int limb = place >> 5, shift = place & 31;
        const uint64_t low = mantissa << shift, high = shift ? mantissa >> (64 - shift) : 0;
        limbs_[limb] += sign * int64_t(low & kMask);
        limbs_[limb + 1] += sign * int64_t(low >> 32);
        limbs_[limb + 2] += sign * int64_t(high);
        if (++n_terms_ >= kMostTerms) carry();
    }

    void add(const ExactSum& other) {
        for (int l = 0; l < kLimbs; ++l) limbs_[l] += other.limbs_[l];
        n_terms_ += other.n_terms_ + 1;
        if (n_terms_ >= kMostTerms) carry();
    }

    // The sum, rounded to nearest.
    double value() const {
        ExactSum sum = *this;
        sum.carry();
        const bool negative = sum.limbs_[kLimbs - 1] < 0;
        if (negative) {
            for (int64_t& limb : sum.limbs_) limb = -limb;
            sum.carry();
        }
        int top = kLimbs - 1;
        while (top > 0 && sum.limbs_[top] == 0) --top;
        // The first four limbs, and whether anything follows: more bits than a double has, so that they round alike.
        const int last = top < 3 ? 0 : top - 3;
        uint64_t head = uint64_t(sum.limbs_[top]), tail = 0;
        int dropped = 0;  // limbs of the four that are in `tail`
        if (top > last) head = head << 32 | uint64_t(sum.limbs_[top - 1]);
        for (int l = top - 2; l >= last; --l, ++dropped) tail = tail << 32 | uint64_t(sum.limbs_[l]);
        bool sticky = false;
        for (int l = 0; l < last; ++l) sticky |= sum.limbs_[l] != 0;
        int exponent = 32 * last - 1074;
        if (dropped) {
            // `head` has 33 bits at least: fill it up to 64 from `tail`.
            const int width = 32 * dropped, room = std::countl_zero(head), moved = room < width ? room : width;
            if (moved) head = head << moved | tail >> (width - moved);
            sticky |= width > moved && tail << (64 - width + moved) != 0;
            exponent += width - moved;
        }
        const double rounded = std::ldexp(double(head | uint64_t(sticky)), exponent);
        return negative ? -rounded : rounded;
    }

    // In a form that is the same for equal sums, of which 2^30 can be added up limb by limb.
    const std::array<int64_t, kLimbs>& limbs() {
        carry();
        return limbs_;
    }
    static ExactSum of_limbs(const int64_t* limbs) {
        ExactSum sum;
        for (int l = 0; l < kLimbs; ++l) sum.limbs_[l] = limbs[l];
        sum.carry();
        return sum;
    }

private:
    static constexpr uint64_t kMask = 0xffffffff;
    static constexpr int64_t kMostTerms = int64_t(1) << 29;  // a limb takes less than 2^33 with each

    // Terms that are not finite make a sum that is above all doubles.
    void overflow() { limbs_[kLimbs - 1] = int64_t(1) << 20; }
    // Every limb but the last to 0 .. 2^32 - 1.
    void carry() {
        for (int l = 0; l + 1 < kLimbs; ++l) {
            limbs_[l + 1] += limbs_[l] >> 32;
            limbs_[l] &= int64_t(kMask);
        }
        n_terms_ = 0;
    }

    std::array<int64_t, kLimbs> limbs_{};
    int64_t n_terms_ = 0;
};

}  // namespace sparsecluster
