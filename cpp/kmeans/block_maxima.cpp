#include "kmeans/block_maxima.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/parallel.hpp"
#include "core/rounding.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kAlign = 64;  // bytes of the widest vector
// Below every score, for blocks without centers.
constexpr float kNever = -0x1p126f;

// Of numbers that are not negative, which are in the order of their bits.
float largest_float(const float* values, int64_t n) {
    int32_t most = 0;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, std::bit_cast<int32_t>(values[i]));
    return std::bit_cast<float>(most);
}

// Each number as a byte, where sum_bytes looks for it; n is a multiple of 4 lanes.
void write_bytes(const uint32_t* units, int64_t n, int64_t lanes, uint8_t* bytes) {
    static_assert(std::endian::native == std::endian::little, "the first byte of a word is its lowest");
    for (int64_t begin = 0; begin < n; begin += 4 * lanes)
        for (int64_t lane = 0; lane < lanes; ++lane) {
            const uint32_t* const of_lane = units + begin + lane;
            const uint32_t word = of_lane[0] | of_lane[lanes] << 8 | of_lane[2 * lanes] << 16 | of_lane[3 * lanes] << 24;
            std::memcpy(bytes + begin + 4 * lane, &word, 4);
        }
}

}  // namespace

// Of the features from `first` to `last`; `next` tells where these begin in each center, and then where they end.
BlockMaxima::Part BlockMaxima::largest_of(const Centers& centers, const std::vector<int32_t>& order, int64_t block,
                                          int64_t first, int64_t last, double scale, std::vector<int64_t>& next) const {
    std::vector<float> largest((last - first) * width_, 0.0f);
    for (size_t p = 0; p < order.size(); ++p) {
        if (order[p] < 0) continue;
        const Center& center = centers.items[order[p]];
        float* const column = largest.data() + int64_t(p) / block;
        int64_t e = next[p];
        for (; e < center.size() && center.features[e] < last; ++e) {
            float& most = column[(center.features[e] - first) * width_];
            const double scaled = center.values[e] * scale;
            if (scaled > most) most = round_up(scaled);
        }
        next[p] = e;
    }
    Part part;
    std::vector<uint32_t> units(width_);
    for (int64_t feature = first; feature < last; ++feature) {
        const float* const row = largest.data() + (feature - first) * width_;
        const float most = largest_float(row, width_);
        if (!(most > 0)) continue;
        const float step = round_up(double(most) / 255) + 0x1p-140f, units_of_one = 1 / step;
        part.features.push_back(int32_t(feature));
        part.steps.push_back(step);
        for (int64_t b = 0; b < width_; ++b) {
            // Rounded up, with room for the rounding of the product; zero stays zero.
            const float unit = row[b] * units_of_one * kUp + 0.9999995f;
            units[b] = uint32_t(int32_t(unit < 255.0f ? unit : 255.0f));
        }
        const size_t at = part.bytes.size();
        part.bytes.resize(at + width_);
        write_bytes(units.data(), width_, kernels().lanes, part.bytes.data() + at);
    }
    return part;
}

void BlockMaxima::build(const Centers& centers, const std::vector<int32_t>& order, int64_t block, double scale,
                        int n_threads) {
    const int64_t n_blocks = (int64_t(order.size()) + block - 1) / block;
    width_ = (n_blocks + kAlign - 1) / kAlign * kAlign;
    offsets_.assign(width_, kNever);
    for (size_t p = 0; p < order.size(); ++p) {
        if (order[p] < 0) continue;
        const double half = 0.5 * centers.items[order[p]].norm2 * scale * scale;
        offsets_[p / block] = std::max(offsets_[p / block], -round_down(half));
    }
    // Features that are looked at together, so that their maxima stay in the cache.
    const int64_t range = std::clamp<int64_t>((1 << 17) / width_, 64, 2048);
    const int64_t d = centers.n_features, n_parts = (d + range - 1) / range;
    std::vector<Part> parts(n_parts);
    // Several of them in a task, which goes through each center once.
    constexpr int64_t kParts = 4;
    parallel_blocks((n_parts + kParts - 1) / kParts, n_threads, [&](int64_t t, int) {
        std::vector<int64_t> next(order.size(), 0);
        for (size_t o = 0; o < order.size(); ++o) {
            if (order[o] < 0) continue;
            const std::vector<int32_t>& features = centers.items[order[o]].features;
            next[o] = std::lower_bound(features.begin(), features.end(), t * kParts * range) - features.begin();
        }
        for (int64_t p = t * kParts; p < std::min(n_parts, (t + 1) * kParts); ++p)
            parts[p] = largest_of(centers, order, block, p * range, std::min(d, (p + 1) * range), scale, next);
    });
    places_.assign(d, {});
    int64_t n_slots = 0;
    std::vector<int64_t> begin(n_parts, 0);
    for (int64_t p = 0; p < n_parts; ++p) {
        begin[p] = n_slots;
        for (size_t e = 0; e < parts[p].features.size(); ++e)
            places_[parts[p].features[e]] = {int32_t(n_slots++), parts[p].steps[e]};
    }
    table_.reserve(n_slots * width_);
    parallel_blocks(n_parts, n_threads, [&](int64_t p, int) {
        std::copy(parts[p].bytes.begin(), parts[p].bytes.end(), table_.get() + begin[p] * width_);
        parts[p] = {};
    });
}

}  // namespace sparsecluster
