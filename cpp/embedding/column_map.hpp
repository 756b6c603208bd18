// Where sparse embedding sends a column: to one of so many components, with a sign. By a hash that needs no memory and
// is the same on every machine, or by a table.
#pragma once

#include <bit>
#include <cstdint>

namespace sparsecluster {

// A component c is written as c where values keep their sign, as ~c where they change it.
inline int32_t component_of(int32_t place) { return place ^ (place >> 31); }

// A value with the sign that it has there; without a branch, which would be taken at random.
inline double signed_value(int32_t place, double value) {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ (uint64_t(uint32_t(place) >> 31) << 63));
}

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
inline uint64_t split_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// The hash of a column is number `column` of the SplitMix64 stream that begins at split_mix(seed). Its lowest bit is
// the sign, its other 63 bits, as a fraction of 2^63, are multiplied by the number of components. Tests fix it: files
// depend on it.
class HashedColumns {
public:
    HashedColumns(uint64_t seed, int32_t n_components) : begin_(split_mix(seed)), n_components_(n_components) {}

    int32_t operator()(int64_t column) const {
        const uint64_t hash = split_mix(begin_ + (uint64_t(column) + 1) * 0x9e3779b97f4a7c15u);
        const auto component = int32_t((__uint128_t(hash >> 1) * uint64_t(n_components_)) >> 63);
        return component ^ -int32_t(hash & 1);
    }

private:
    uint64_t begin_;
    int32_t n_components_;
};

class TabledColumns {
public:
    explicit TabledColumns(const int32_t* places) : places_(places) {}
    int32_t operator()(int64_t column) const { return places_[column]; }

private:
    const int32_t* places_;
};

}  // namespace sparsecluster
