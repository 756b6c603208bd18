// Random numbers: a sequence that its seed alone decides (splitmix64, Steele et al. 2014).
#pragma once

#include <cstdint>

namespace sparsecluster {

class SeededRandom {
public:
    explicit SeededRandom(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    double uniform() { return double(next() >> 11) * 0x1p-53; }
    int64_t below(int64_t n) { return int64_t(uniform() * double(n)); }

private:
    uint64_t state_;
};

}  // namespace sparsecluster
