// Per feature the largest value of any center of a block, rounded up to bytes. With it a row gets a bound from above of
// its scores with all centers of a block at once (block maxima: Ding and Suel 2011, for retrieval).
#pragma once

#include <cstdint>
#include <vector>

#include "core/centers.hpp"
#include "core/huge.hpp"
#include "simd/kernels.hpp"

namespace sparsecluster {

class BlockMaxima {
public:
    // `order` lists centers, `block` of them in a row making one; -1 is none. Values are multiplied by `scale`.
    void build(const Centers& centers, const std::vector<int32_t>& order, int64_t block, double scale, int n_threads);

    // What a value that is not negative multiplies, and by what; a slot below zero: nothing.
    HeadEntry entry(int64_t feature, double scaled_value) const {
        const Place place = places_[feature];
        return {uint32_t(place.slot), float(scaled_value * place.step)};
    }
    const uint8_t* table() const { return table_.get(); }
    int64_t width() const { return width_; }  // bytes per slot: one per block, and some for alignment
    const std::vector<float>& offsets() const { return offsets_; }  // per block: of all |c|^2/2 the least, negative

private:
    struct Part {
        std::vector<int32_t> features;
        std::vector<float> steps;
        std::vector<uint8_t> bytes;
    };
    // Where a feature is in the table, and what one unit of its bytes stands for.
    struct Place {
        int32_t slot = -1;  // where no center has the feature
        float step = 0;
    };
    Part largest_of(const Centers& centers, const std::vector<int32_t>& order, int64_t block, int64_t first,
                    int64_t last, double scale, std::vector<int64_t>& next) const;

    int64_t width_ = 0;
    std::vector<Place> places_;  // per feature
    HugeBuffer<uint8_t> table_;
    std::vector<float> offsets_;
};

}  // namespace sparsecluster
