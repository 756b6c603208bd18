// Builds the center index: count per feature, choose the head, fill head rows and tail lists.
#include "index/center_index.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>

#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

// A list entry costs about as much as kListCost floats of a SIMD row, and entering a list as kListStart
// entries (measured on text at K = 100 and 1000; the optimum is flat).
constexpr double kListCost = 8.0;
constexpr double kListStart = 4.0;
// Up to so many centers may get a row for every feature. A tile of every SIMD level is as wide.
constexpr int64_t kDirectCenters = 32;

// Sets the rows of a table that have a bit to zero, and the bits; the first one stands for `row`. Rows are short: a call
// of memset each, which the compiler would make of the inner loop, costs more than the stores.
__attribute__((optimize("no-tree-loop-distribute-patterns"))) void clear_rows(float* table, int64_t width, int64_t row,
                                                                              std::span<uint64_t> bits) {
    for (uint64_t& word : bits) {
        for (; word; word &= word - 1) {
            float* at = table + (row + std::countr_zero(word)) * width;
            for (float* const end = at + width; at < end; at += 4) __builtin_memset(at, 0, 16);
        }
        row += 64;
    }
}

}  // namespace

double common_scale(const Rows& rows, const Centers& centers) {
    double norm2 = 0;
    for (const Center& center : centers.items) norm2 = std::max(norm2, center.norm2);
    return std::min(rows.scale(), scale_for(std::sqrt(norm2)));
}

void CenterIndex::build(const Centers& centers, double scale, IndexLimits limits, int n_threads) {
    std::vector<int32_t> all(centers.size());
    std::iota(all.begin(), all.end(), 0);
    build(centers, all, scale, limits, n_threads);
}

void CenterIndex::build(const Centers& centers, const std::vector<int32_t>& which, double by,
                        IndexLimits limits, int n_threads) {
    simd = &kernels();
    scale = by;
    ids = which;
    n_centers = int64_t(ids.size());
    stride = (n_centers + simd->lanes - 1) / simd->lanes * simd->lanes;

    start.assign(stride, -std::numeric_limits<float>::infinity());
    norm.resize(n_centers);
    max_norm = 0;
    for (int64_t k = 0; k < n_centers; ++k) {
        norm[k] = std::sqrt(centers.items[ids[k]].norm2) * scale;
        start[k] = float(-0.5 * norm[k] * norm[k]);
        max_norm = std::max(max_norm, norm[k]);
    }

    if (!build_direct(centers, limits, n_threads)) build_hybrid(centers, limits.head, n_threads);
}

void CenterIndex::clear() {
    ids.clear();
    n_centers = stride = 0;
}

// Few centers: a head row for every feature, so that no feature has to be looked up.
bool CenterIndex::build_direct(const Centers& centers, IndexLimits limits, int n_threads) {
    const int64_t old_width = direct ? stride_of_filled_ : 0;
    direct = stride <= kDirectCenters &&
             centers.n_features * stride * int64_t(sizeof(float)) <= std::min(limits.head, limits.direct);
    if (!direct) return false;
    const int64_t n_words = (centers.n_features + 63) / 64;
    if (head_.reserve(centers.n_features * stride) || old_width != stride || int64_t(filled_.size()) != n_words) {
        std::memset(head_.get(), 0, size_t(centers.n_features * stride) * sizeof(float));
        filled_.assign(n_words, 0);
    }
    stride_of_filled_ = stride;
    // Range by range of the features, so that the rows of a range stay in the cache for all centers.
    constexpr int64_t kWords = 32, kRangesOfTask = 8;
    const int64_t words_of_task = kWords * kRangesOfTask, n_tasks = (n_words + words_of_task - 1) / words_of_task;
    parallel_blocks(n_tasks, n_threads, [&](int64_t task, int) {
        const int64_t first = task * words_of_task, last = std::min(n_words, first + words_of_task);
        std::vector<int64_t> next(n_centers);
        for (int64_t k = 0; k < n_centers; ++k) {
            const std::vector<int32_t>& features = centers.items[ids[k]].features;
            next[k] = std::lower_bound(features.begin(), features.end(), first * 64) - features.begin();
        }
        for (int64_t word = first; word < last; word += kWords) {
            const int64_t end = (word + kWords) * 64;
            clear_rows(head_.get(), stride, word * 64, std::span(filled_).subspan(word, std::min(kWords, last - word)));
            for (int64_t k = 0; k < n_centers; ++k) {
                const Center& center = centers.items[ids[k]];
                int64_t e = next[k];
                for (; e < center.size() && center.features[e] < end; ++e) {
                    const int64_t feature = center.features[e];
                    filled_[feature >> 6] |= uint64_t(1) << (feature & 63);
                    head_[feature * stride + k] = float(center.values[e] * scale);
                }
                next[k] = e;
            }
        }
    });
    n_head = centers.n_features;
    tiles.assign(1, Tile{0, int(stride / simd->lanes), 0});
    return true;
}

void CenterIndex::build_hybrid(const Centers& centers, int64_t head_limit, int n_threads) {
    const int64_t d = centers.n_features;
    const int64_t wanted = n_threads > 1 ? 4 * n_threads : 1;  // to look for a range in each center takes time
    const int64_t range = std::max<int64_t>(1024, (d + wanted - 1) / wanted);
    const int64_t n_ranges = (d + range - 1) / range;
    // Calls visit(center, from, to) with the entries of each center in a range of features.
    auto visit_range = [&](int64_t r, const auto& visit) {
        for (int64_t k = 0; k < n_centers; ++k) {
            const std::vector<int32_t>& features = centers.items[ids[k]].features;
            const auto from = std::lower_bound(features.begin(), features.end(), r * range);
            const auto to = std::lower_bound(from, features.end(), (r + 1) * range);
            visit(k, from - features.begin(), to - features.begin());
        }
    };

    place.resize(d);
    parallel_blocks(n_ranges, n_threads, [&](int64_t r, int) {
        std::fill(place.begin() + r * range, place.begin() + std::min(d, (r + 1) * range), FeaturePlace{0, 0});
        visit_range(r, [&](int64_t k, int64_t from, int64_t to) {
            const int32_t* features = centers.items[ids[k]].features.data();
            for (int64_t e = from; e < to; ++e) ++place[features[e]].count;
        });
    });

    // Dense enough for a SIMD row to beat a list; denser still where the rows would not fit the limit.
    double threshold = std::max(1.0, double(stride) / kListCost - kListStart);
    const int64_t head_rows_allowed = head_limit / (stride * int64_t(sizeof(float)));
    auto rows_above = [&](double least) {
        return std::count_if(place.begin(), place.end(), [&](auto p) { return p.count >= least; });
    };
    while (threshold <= double(n_centers) && rows_above(threshold) > head_rows_allowed) threshold *= 1.5;

    n_head = 0;
    int64_t n_tail = 0;
    std::vector<int64_t> head_of_range(n_ranges + 1, 0);
    for (int64_t f = 0; f < d; ++f) {
        if (f % range == 0) head_of_range[f / range] = n_head;
        FeaturePlace& at = place[f];
        if (at.count == 0) continue;
        if (at.count >= threshold) {
            at = {uint32_t(n_head++), FeaturePlace::kHead};
        } else {
            at.position = uint32_t(n_tail);
            n_tail += at.count;
        }
    }
    head_of_range[n_ranges] = n_head;
    if (n_tail > int64_t(UINT32_MAX)) throw std::length_error("the centers have more than 2^32 entries");

    tiles.clear();
    // As few tiles as hold all centers, and these about equally wide.
    const int64_t n_vectors = stride / simd->lanes;
    const int64_t n_tiles = (n_vectors + simd->tile_vectors - 1) / simd->tile_vectors;
    const int64_t width = (n_vectors + n_tiles - 1) / std::max<int64_t>(n_tiles, 1) * simd->lanes;
    for (int64_t first = 0; first < n_centers; first += width) {
        const int64_t left = std::min(width, n_centers - first);
        tiles.push_back({first, int((left + simd->lanes - 1) / simd->lanes), first * n_head});
    }

    head_.reserve(n_head * stride);
    tail.resize(n_tail);
    parallel_blocks(n_ranges, n_threads, [&](int64_t r, int) {
        for (const Tile& tile : tiles) {
            const int64_t columns = int64_t(tile.vectors) * simd->lanes;
            std::fill(head_.get() + tile.offset + head_of_range[r] * columns,
                      head_.get() + tile.offset + head_of_range[r + 1] * columns, 0.0f);
        }
        visit_range(r, [&](int64_t k, int64_t from, int64_t to) {
            const Center& center = centers.items[ids[k]];
            const Tile& tile = tiles[k / width];
            const int64_t columns = int64_t(tile.vectors) * simd->lanes;
            float* const column = head_.get() + tile.offset + (k - tile.first);
            for (int64_t e = from; e < to; ++e) {
                FeaturePlace& at = place[center.features[e]];
                const float value = float(center.values[e] * scale);
                // Both are written, one of them nowhere: whether a feature has a list is hard to predict.
                const bool listed = at.count > 0;
                float no_row;
                TailEntry no_list;
                float* const in_row = listed ? &no_row : column + int64_t(at.position) * columns;
                TailEntry* const in_list = listed ? tail.data() + at.position : &no_list;
                *in_row = value;
                *in_list = {int32_t(k), value};
                at.position += listed;  // how far the list is filled
            }
        });
        for (int64_t f = r * range; f < std::min(d, (r + 1) * range); ++f)
            place[f].position -= uint32_t(std::max(place[f].count, 0));
    });
}

}  // namespace sparsecluster
