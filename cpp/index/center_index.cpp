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

#include "core/fixed.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

// A list entry costs about as much as kListCost floats of a SIMD row, and entering a list as kListStart
// entries (measured on text at K = 100 and 1000; the optimum is flat).
constexpr double kListCost = 8.0;
constexpr double kListStart = 4.0;
// Up to so many centers may get a row for every feature.
constexpr int64_t kDirectCenters = 128;
// Of a direct index: words of bits, a bit per feature, whose rows stay in the cache for all centers, and how many of these
// ranges a thread takes at a time.
constexpr int64_t kWords = 32, kRangesOfTask = 8, kWordsOfTask = kWords * kRangesOfTask;

// Sets the rows of a table that have a bit to zero; the first bit stands for `row`. Rows are short: a call of memset each,
// which the compiler would make of the inner loop, costs more than the stores.
template <class T>
__attribute__((optimize("no-tree-loop-distribute-patterns"))) void clear_rows(T* table, int64_t width, int64_t row,
                                                                              std::span<const uint64_t> bits) {
    for (uint64_t word : bits) {
        for (; word; word &= word - 1) {
            T* at = table + (row + std::countr_zero(word)) * width;
            for (T* const end = at + width; at < end; at += 4) __builtin_memset(at, 0, 4 * sizeof(T));
        }
        row += 64;
    }
}

// As few tiles of at most so many vectors as hold them all, and these about equally wide.
std::vector<Tile> tiles_of(int64_t n_vectors, int64_t most, int64_t lanes, int64_t n_head) {
    const int64_t n_tiles = (n_vectors + most - 1) / most;
    const int64_t width = (n_vectors + n_tiles - 1) / std::max<int64_t>(n_tiles, 1);
    std::vector<Tile> tiles;
    for (int64_t first = 0; first < n_vectors; first += width)
        tiles.push_back({first * lanes, int(std::min(width, n_vectors - first)), first * lanes * n_head});
    return tiles;
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

double quantization_step(const Centers& centers, std::span<const int32_t> ids, double scale, int n_threads) {
    std::vector<double> largest(ids.size(), 0);  // infinity where a value is negative
    parallel_blocks(int64_t(ids.size()), n_threads, [&](int64_t p, int) {
        double most = 0, least = 0;
        for (const double value : centers.items[ids[p]].values) {
            most = value > most ? value : most;
            least = value < least ? value : least;
        }
        largest[p] = least < 0 ? std::numeric_limits<double>::infinity() : most;
    });
    const double step = largest.empty() ? 0 : *std::max_element(largest.begin(), largest.end()) * scale / UINT16_MAX;
    // What a value of a row times the step loses where it is no normal float, 2^-150, comes back times up to 2^16. With
    // this least step that is far below what error_of_scores() allows for, for rows of any length.
    constexpr double kLeast = 0x1p-60, kMost = 0x1p60, kMostFactor = 0x1p120;
    const double factor = step * scale;
    return step > kLeast && step < kMost && factor > 1 / kMostFactor && factor < kMostFactor ? step : 0;
}

void CenterIndex::clear() {
    ids.clear();
    n_centers = stride = 0;
}

// Few centers: a head row for every feature, so that no feature has to be looked up.
bool CenterIndex::build_direct(const Centers& centers, IndexLimits limits, int n_threads) {
    const int64_t d = centers.n_features;
    const int64_t row_width = n_centers <= 4 ? 4 : n_centers <= 8 ? 8 : stride;
    const bool was_direct = direct, was_quantized = step > 0;
    direct = false;  // until all went well
    step = 0;
    if (n_centers > kDirectCenters || d * row_width * int64_t(sizeof(float)) > std::min(limits.head, limits.direct))
        return false;
    if (limits.quantized) step = quantization_step(centers, ids, scale, n_threads);
    const bool known = was_direct && was_quantized == (step > 0) && int64_t(filled_.size()) == (d + 63) / 64;
    std::vector<Tile> wanted = tiles_of(stride / simd->lanes, simd->stored_vectors, simd->lanes, d);
    if (step > 0) {
        fill_direct(quantized_, centers, known, std::move(wanted), row_width, n_threads);
    } else {
        quantized_ = HugeBuffer<uint16_t>();
        fill_direct(head_, centers, known, std::move(wanted), row_width, n_threads);
    }
    direct = true;
    return true;
}

// `known`: the table is that of the last index, which was as direct.
template <class T>
void CenterIndex::fill_direct(HugeBuffer<T>& table, const Centers& centers, bool known, std::vector<Tile> wanted,
                              int64_t row_width, int n_threads) {
    const int64_t n_words = (centers.n_features + 63) / 64, n_tasks = (n_words + kWordsOfTask - 1) / kWordsOfTask;
    if (!known) n_zeros_ = 0;
    if (known && !(row_width == row_width_ && wanted == tiles))
        parallel_blocks(n_tasks, n_threads, [&](int64_t task, int) {
            clear_filled(table, task * kWordsOfTask, std::min(n_words, (task + 1) * kWordsOfTask));
        });
    tiles = std::move(wanted);
    row_width_ = row_width;
    n_head = centers.n_features;
    make_room(table, n_words, n_threads);
    // Range by range of the features.
    parallel_blocks(n_tasks, n_threads, [&](int64_t task, int) {
        const int64_t first = task * kWordsOfTask, last = std::min(n_words, first + kWordsOfTask);
        std::vector<int64_t> next(n_centers);
        for (int64_t k = 0; k < n_centers; ++k) {
            const std::vector<int32_t>& features = centers.items[ids[k]].features;
            next[k] = std::lower_bound(features.begin(), features.end(), first * 64) - features.begin();
        }
        for (int64_t word = first; word < last; word += kWords) {
            const int64_t end = (word + kWords) * 64;
            clear_filled(table, word, std::min(word + kWords, last));
            for (const Tile& tile : tiles) {
                const int64_t width = width_of(tile);
                for (int64_t k = tile.first; k < std::min(n_centers, tile.first + width); ++k)
                    next[k] = fill_column(table.get() + tile.offset + (k - tile.first), width, centers.items[ids[k]], next[k],
                                          end);
            }
        }
    });
}

// Puts the values of a center into its column, from entry `from` to a feature; answers where that is.
template <class T>
int64_t CenterIndex::fill_column(T* column, int64_t width, const Center& center, int64_t from, int64_t end_feature) {
    constexpr bool kFloats = std::is_same_v<T, float>;
    const double factor = kFloats ? scale : scale / step;
    int64_t e = from;
    for (; e < center.size() && center.features[e] < end_feature; ++e) {
        const int64_t feature = center.features[e];
        const double value = center.values[e] * factor;
        filled_[feature >> 6] |= uint64_t(1) << (feature & 63);
        column[feature * width] = kFloats ? T(value) : T(to_fixed(value));
    }
    return e;
}

// Makes the rows of features that have a bit in these words zeros again.
template <class T>
void CenterIndex::clear_filled(HugeBuffer<T>& table, int64_t first_word, int64_t last_word) {
    const auto words = std::span(filled_).subspan(first_word, last_word - first_word);
    for (const Tile& tile : tiles) clear_rows(table.get() + tile.offset, width_of(tile), first_word * 64, words);
    std::fill(words.begin(), words.end(), 0);
}

// Zeros for a row of every feature.
template <class T>
void CenterIndex::make_room(HugeBuffer<T>& table, int64_t n_words, int n_threads) {
    constexpr int64_t kPart = 1 << 18;
    const int64_t wanted = n_head * row_width_;
    if (table.reserve_zeros(wanted)) {
        n_zeros_ = table.capacity();
        filled_.assign(n_words, 0);
    } else if (n_zeros_ == 0) {
        filled_.assign(n_words, 0);
    }
    if (n_zeros_ >= wanted) return;
    const int64_t first = n_zeros_, n_parts = (wanted - first + kPart - 1) / kPart;
    parallel_blocks(n_parts, n_threads, [&](int64_t part, int) {
        const int64_t begin = first + part * kPart, end = std::min(wanted, begin + kPart);
        std::memset(table.get() + begin, 0, size_t(end - begin) * sizeof(T));
    });
    n_zeros_ = wanted;
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

    tiles = tiles_of(stride / simd->lanes, simd->tile_vectors, simd->lanes, n_head);
    const int64_t width = tiles.empty() ? 1 : tiles[0].vectors * simd->lanes;

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
