// Sums in fixed point: two 64-bit integers, a coarse and a fine one. Integer addition is exact in any order.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace sparsecluster {

// A sum of many terms in fixed point: coarse + fine.
struct FixedSum {
    int64_t coarse = 0, fine = 0;

    bool zero() const { return coarse == 0 && fine == 0; }
    void add(const FixedSum& other) {
        coarse += other.coarse;
        fine += other.fine;
    }
};

// Many of them that belong to somebody else; no fine parts where all of these are zero.
struct FixedSumsView {
    std::span<const int64_t> coarse, fine;

    size_t size() const { return coarse.size(); }
    FixedSum operator[](size_t i) const { return {coarse[i], fine.empty() ? 0 : fine[i]}; }
    FixedSumsView between(size_t begin, size_t end) const {
        return {coarse.subspan(begin, end - begin), fine.empty() ? fine : fine.subspan(begin, end - begin)};
    }
};

// Many of them. Float32 values leave nothing for the fine parts as a rule, which are kept only where one is not zero.
class FixedSums {
public:
    size_t size() const { return coarse_.size(); }
    FixedSum operator[](size_t i) const { return {coarse_[i], fine_.empty() ? 0 : fine_[i]}; }
    void clear() {
        coarse_.clear();
        fine_.clear();
    }
    void reserve(size_t size) { coarse_.reserve(size); }
    void push_back(const FixedSum& sum) {
        if (fine_.empty() && sum.fine != 0) fine_.resize(coarse_.size(), 0);
        if (sum.fine != 0 || !fine_.empty()) fine_.push_back(sum.fine);
        coarse_.push_back(sum.coarse);
    }
    void append(const FixedSumsView& others) {
        if (fine_.empty() && !others.fine.empty()) fine_.resize(coarse_.size(), 0);
        coarse_.insert(coarse_.end(), others.coarse.begin(), others.coarse.end());
        if (others.fine.empty())
            fine_.resize(fine_.empty() ? 0 : coarse_.size(), 0);
        else
            fine_.insert(fine_.end(), others.fine.begin(), others.fine.end());
    }
    FixedSumsView view() const { return {coarse_, fine_}; }
    // Adds to one of them.
    void add(size_t i, const FixedSum& sum) {
        if (fine_.empty() && sum.fine != 0) fine_.resize(coarse_.size(), 0);
        coarse_[i] += sum.coarse;
        if (!fine_.empty()) fine_[i] += sum.fine;
    }
    // Puts sums among others: all have keys, which ascend, and none has that of another. A little more room is made than
    // is needed now, so that not every few sums cost a copy of all.
    template <class Key>
    static void insert(std::vector<Key>& keys, FixedSums& sums, const std::vector<Key>& new_keys,
                       const FixedSums& new_sums) {
        size_t from = keys.size(), more = new_keys.size(), to = from + more;
        const bool has_fine = !sums.fine_.empty() || !new_sums.fine_.empty();
        if (has_fine) sums.fine_.resize(from, 0);
        make_room(keys, to);
        make_room(sums.coarse_, to);
        if (has_fine) make_room(sums.fine_, to);
        while (more > 0) {
            const bool old = from > 0 && keys[from - 1] > new_keys[more - 1];
            --to;
            keys[to] = old ? keys[from - 1] : new_keys[more - 1];
            sums.coarse_[to] = old ? sums.coarse_[from - 1] : new_sums.coarse_[more - 1];
            if (has_fine) sums.fine_[to] = old ? sums.fine_[from - 1] : new_sums[more - 1].fine;
            old ? --from : --more;
        }
    }
    // Leaves out what is zero.
    template <class Key>
    static void drop_zeros(std::vector<Key>& keys, FixedSums& sums) {
        size_t kept = 0;
        for (size_t i = 0; i < keys.size(); ++i) {
            if (sums[i].zero()) continue;
            keys[kept] = keys[i];
            sums.coarse_[kept] = sums.coarse_[i];
            if (!sums.fine_.empty()) sums.fine_[kept] = sums.fine_[i];
            ++kept;
        }
        cut(keys, kept);
        cut(sums.coarse_, kept);
        if (!sums.fine_.empty()) cut(sums.fine_, kept);
    }

    // Appends what others are together: both have keys, which ascend. What comes to nothing is left out.
    template <class Key>
    static void append_merged(std::span<const Key> one, const FixedSumsView& one_sums, std::span<const Key> other,
                              const FixedSumsView& other_sums, std::vector<Key>& keys, FixedSums& sums) {
        if (!sums.fine_.empty() || !one_sums.fine.empty() || !other_sums.fine.empty()) {
            sums.fine_.resize(keys.size(), 0);
            append_merged<true>(one, one_sums, other, other_sums, keys, sums);
        } else {
            append_merged<false>(one, one_sums, other, other_sums, keys, sums);
        }
    }

    // A copy that takes no more room than it needs.
    void assign_tightly(const FixedSums& other) {
        tighten(coarse_, other.coarse_);
        tighten(fine_, other.fine_);
    }

    template <class T>
    static void tighten(std::vector<T>& to, const std::vector<T>& from) {
        if (to.capacity() > from.size() + from.size() / 8) std::vector<T>().swap(to);
        to.assign(from.begin(), from.end());
    }

    // The two parts, to be sent and received; `fine` is empty where it is all zero.
    const std::vector<int64_t>& coarse() const { return coarse_; }
    const std::vector<int64_t>& fine() const { return fine_; }
    std::vector<int64_t> take_coarse() { return std::move(coarse_); }
    std::vector<int64_t> take_fine() { return std::move(fine_); }

private:
    // Which of two keys comes first is hard to predict: no step depends on it by a branch.
    template <bool kFine, class Key>
    static void append_merged(std::span<const Key> one, const FixedSumsView& one_sums, std::span<const Key> other,
                              const FixedSumsView& other_sums, std::vector<Key>& keys, FixedSums& sums) {
        const size_t n_one = one.size(), n_other = other.size(), all = keys.size() + n_one + n_other;
        size_t at = 0, o = 0, to = keys.size();
        const auto fine_of = [](const FixedSumsView& view, size_t i) { return view.fine.empty() ? 0 : view.fine[i]; };
        keys.resize(all);
        sums.coarse_.resize(all);
        if (kFine) sums.fine_.resize(all);
        while (at < n_one && o < n_other) {
            const Key a = one[at], b = other[o];
            const int64_t first = a <= b, second = b <= a;
            const int64_t coarse = (-first & one_sums.coarse[at]) + (-second & other_sums.coarse[o]);
            bool zero = coarse == 0;
            keys[to] = std::min(a, b);
            sums.coarse_[to] = coarse;
            if (kFine) {
                sums.fine_[to] = (-first & fine_of(one_sums, at)) + (-second & fine_of(other_sums, o));
                zero &= sums.fine_[to] == 0;
            }
            to += !zero;
            at += first;
            o += second;
        }
        const auto append_rest = [&](std::span<const Key> rest, const FixedSumsView& view, size_t from) {
            for (; from < rest.size(); ++from, ++to) {
                keys[to] = rest[from];
                sums.coarse_[to] = view.coarse[from];
                if (kFine) sums.fine_[to] = fine_of(view, from);
            }
        };
        append_rest(one, one_sums, at);
        append_rest(other, other_sums, o);
        keys.resize(to);
        sums.coarse_.resize(to);
        if (kFine) sums.fine_.resize(to);
    }
    template <class T>
    static void cut(std::vector<T>& values, size_t size) {
        values.resize(size);
        if (values.capacity() > size + size / 8) values.shrink_to_fit();
    }
    template <class T>
    static void make_room(std::vector<T>& values, size_t size) {
        if (size > values.capacity()) values.reserve(size + size / 16);
        values.resize(size);
    }

    std::vector<int64_t> coarse_, fine_;
};

// Two to the power of an exponent, -1022 .. 1023.
inline double power_of_two(int exponent) { return std::bit_cast<double>(uint64_t(exponent + 1023) << 52); }

inline int64_t to_fixed(double value) {
#ifdef __SSE2__
    return _mm_cvtsd_si64(_mm_set_sd(value));
#else
    return std::llrint(value);
#endif
}

// How terms of one kind become fixed point: multiplied by two to these exponents, which is exact.
struct FixedScale {
    int16_t coarse = 0, fine = 0;

    FixedScale() = default;
    // For `count` terms of magnitude up to `largest`.
    FixedScale(double largest, double count) {
        constexpr int kBits = 60;
        int exponent = 0, count_exponent = 0;
        std::frexp(count + 1, &count_exponent);
        if (largest > 0) std::frexp(largest, &exponent);
        coarse = int16_t(std::clamp(kBits - count_exponent - exponent, -1000, 1000));
        // What rounding to the coarse step leaves is at most half of it.
        fine = int16_t(kBits - count_exponent);
    }
    // Whether terms as small as `smallest` keep all digits of a double.
    bool holds(double smallest) const { return smallest * power_of_two(coarse) >= power_of_two(52 - fine); }
    void add(FixedSum& sum, double term, int64_t sign) const {
        add(sum.coarse, term, sign, [&](int64_t rest) { sum.fine += rest; });
    }
    // The same, with the fine part given to `add_fine` if there is one: float32 terms hardly ever have it.
    template <class AddFine>
    void add(int64_t& sum, double term, int64_t sign, const AddFine& add_fine) const {
        const double scaled = term * power_of_two(coarse);
        const int64_t whole = to_fixed(scaled);
        sum += sign * whole;
        const double rest = scaled - double(whole);
        if (rest != 0) [[unlikely]]
            add_fine(sign * to_fixed(rest * power_of_two(fine)));
    }
    double value(const FixedSum& sum) const {
        return (double(sum.coarse) + double(sum.fine) * power_of_two(-fine)) * power_of_two(-coarse);
    }
};

}  // namespace sparsecluster
