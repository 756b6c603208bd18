// A set of features that is read back in ascending order: bits, and a bit per word of bits.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace sparsecluster {

class FeatureSet {
public:
    void resize(int64_t n_features) {
        words_.assign((n_features + 63) / 64, 0);
        summary_.assign((words_.size() + 63) / 64, 0);
    }
    bool empty() const { return words_.empty(); }
    void insert(int64_t feature) {
        words_[feature >> 6] |= uint64_t(1) << (feature & 63);
        summary_[feature >> 12] |= uint64_t(1) << ((feature >> 6) & 63);
    }
    // Visits all features in ascending order and leaves the set empty.
    template <class Visit>
    void drain(const Visit& visit) {
        for (size_t s = 0; s < summary_.size(); ++s) {
            for (uint64_t left = summary_[s]; left; left &= left - 1) {
                const size_t w = s * 64 + std::countr_zero(left);
                for (uint64_t bits = words_[w]; bits; bits &= bits - 1)
                    visit(int32_t(w * 64 + std::countr_zero(bits)));
                words_[w] = 0;
            }
            summary_[s] = 0;
        }
    }

private:
    std::vector<uint64_t> words_, summary_;
};

}  // namespace sparsecluster
