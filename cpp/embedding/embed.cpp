// Compiled without contraction, as exact.cpp: sums in float64, row by row, in the order of the features.
#include "embedding/embed.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/parallel.hpp"
#include "embedding/column_map.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kBlockEntries = 1 << 14;  // about as many are one thread's work at a time
constexpr int64_t kSlabBlocks = 16;         // whose results wait to be put in their places

// Calls work(places, view) with the way in which columns find their places, and the rows as they are stored.
template <class V, class Work>
void with_places(const Rows& rows, const ColumnMap& map, const Work& work) {
    std::visit(
        [&](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            if constexpr (std::is_same_v<typename View::Value, V>) {
                const HashedColumns hashed(map.seed, map.n_components);
                if (map.places) return work(TabledColumns(map.places), view);
                if (view.indptr) return work(hashed, view);
                // Dense rows all have the same columns, and a table of them is a row among rows.
                std::vector<int32_t> places(view.n_features);
                for (int64_t f = 0; f < view.n_features; ++f) places[f] = hashed(f);
                work(TabledColumns(places.data()), view);
            } else {
                throw std::invalid_argument("values and result differ in type");
            }
        },
        rows.matrix());
}

// Ends of blocks of rows with about as many entries each.
template <class View>
std::vector<int64_t> block_ends(const View& view, int64_t begin, int64_t end) {
    std::vector<int64_t> ends;
    int64_t entries = 0;
    for (int64_t i = begin; i < end; ++i) {
        entries += view.row(i).size + 1;
        if (entries >= kBlockEntries || i + 1 == end) ends.push_back(i + 1), entries = 0;
    }
    return ends;
}

void keep_least(std::atomic<int64_t>& least, int64_t row) {
    int64_t known = least.load();
    while ((known < 0 || row < known) && !least.compare_exchange_weak(known, row)) {
    }
}

// Adds the entries of a row to the sums of their components, and sets the bits of these where there are any.
template <class Places, class Row>
void add_up(const Places& places, const Row& row, double* sums, uint64_t* bits = nullptr) {
    constexpr int64_t kAtOnce = 64;
    int32_t found[kAtOnce];  // first, so that no place waits for a sum
    for (int64_t begin = 0; begin < row.size; begin += kAtOnce) {
        const int64_t n = std::min(kAtOnce, row.size - begin);
        for (int64_t e = 0; e < n; ++e) found[e] = places(row.features[begin + e]);
        for (int64_t e = 0; bits && e < n; ++e) {
            const int32_t component = component_of(found[e]);
            bits[component / 64] |= uint64_t(1) << (component % 64);
        }
        for (int64_t e = 0; e < n; ++e)
            sums[component_of(found[e])] += signed_value(found[e], row.values[begin + e]);
    }
}

// The components that a row reaches, with their sums, ascending; sums are zero before and after.
class Reached {
public:
    explicit Reached(int32_t n_components) : sums_(n_components, 0.0), words_((n_components + 63) / 64, 0) {}

    // Calls visit(component, sum) for each of them.
    template <class Places, class Row, class Visit>
    void visit(const Places& places, const Row& row, const Visit& visit) {
        double* const sums = sums_.data();
        uint64_t* const words = words_.data();
        const auto leave = [&](int32_t component) {
            visit(component, sums[component]);
            sums[component] = 0;
        };
        // Few entries among many components: those that are reached are sorted. The result is the same.
        if (int64_t(words_.size()) > row.size + 64) {
            listed_.clear();
            for (int64_t e = 0; e < row.size; ++e) {
                const int32_t place = places(row.features[e]), component = component_of(place);
                const uint64_t bit = uint64_t(1) << (component % 64);
                if (!(words[component / 64] & bit)) listed_.push_back(component);
                words[component / 64] |= bit;
                sums[component] += signed_value(place, row.values[e]);
            }
            std::sort(listed_.begin(), listed_.end());
            for (const int32_t component : listed_) {
                words[component / 64] = 0;
                leave(component);
            }
            return;
        }
        add_up(places, row, sums, words);
        for (size_t w = 0; w < words_.size(); ++w) {
            for (uint64_t word = words[w]; word; word &= word - 1)
                leave(int32_t(w * 64 + size_t(std::countr_zero(word))));
            words[w] = 0;
        }
    }

private:
    std::vector<double> sums_;
    std::vector<uint64_t> words_;  // a bit for each component that is reached
    std::vector<int32_t> listed_;
};

}  // namespace

template <class V>
int64_t embed_densely(const Rows& rows, const ColumnMap& map, int64_t begin, int64_t end, V* out, int n_threads) {
    std::atomic<int64_t> too_large{-1};
    const int64_t width = map.n_components;
    with_places<V>(rows, map, [&](const auto& places, const auto& view) {
        const std::vector<int64_t> ends = block_ends(view, begin, end);
        std::vector<std::vector<double>> sums_of(std::max(n_threads, 1));
        parallel_blocks(int64_t(ends.size()), n_threads, [&](int64_t block, int thread) {
            const int64_t first = block ? ends[block - 1] : begin;
            rows.read_ahead(first, ends[block]);
            for (int64_t i = first; i < ends[block]; ++i) {
                V* const made = out + (i - begin) * width;
                if constexpr (std::is_same_v<V, double>) {
                    std::fill_n(made, width, 0.0);
                    add_up(places, view.row(i), made);
                } else {
                    std::vector<double>& sums = sums_of[thread];
                    sums.assign(width, 0.0);
                    add_up(places, view.row(i), sums.data());
                    for (int64_t c = 0; c < width; ++c) made[c] = V(sums[c]);
                }
                bool finite = true;
                for (int64_t c = 0; c < width; ++c) finite &= std::isfinite(made[c]);
                if (!finite) keep_least(too_large, i);
            }
        });
    });
    return too_large;
}

template <class V>
int64_t embed_sparsely(const Rows& rows, const ColumnMap& map, int64_t begin, int64_t end, int64_t* indptr,
                       int32_t* indices, V* values, int n_threads) {
    struct Made {
        std::vector<int32_t> indices;
        std::vector<V> values;
        int64_t size = 0;
    };
    std::atomic<int64_t> too_large{-1};
    with_places<V>(rows, map, [&](const auto& places, const auto& view) {
        const std::vector<int64_t> ends = block_ends(view, begin, end);
        const int64_t n_blocks = int64_t(ends.size());
        std::vector<Made> slab(std::min(n_blocks, kSlabBlocks));
        std::vector<std::unique_ptr<Reached>> reached_by(std::max(n_threads, 1));
        const TeamScope team(n_threads);
        indptr[0] = 0;
        for (int64_t from = 0; from < n_blocks; from += kSlabBlocks) {
            const int64_t in_slab = std::min(kSlabBlocks, n_blocks - from);
            parallel_blocks(in_slab, n_threads, [&](int64_t b, int thread) {
                if (!reached_by[thread]) reached_by[thread] = std::make_unique<Reached>(map.n_components);
                const int64_t block = from + b, first = block ? ends[block - 1] : begin;
                rows.read_ahead(first, ends[block]);
                Made& made = slab[b];
                made.size = 0;
                for (int64_t i = first; i < ends[block]; ++i) {
                    const auto row = view.row(i);
                    const int64_t before = made.size, room = before + row.size + 1;
                    if (int64_t(made.indices.size()) < room) {
                        made.indices.resize(std::max(room, kBlockEntries));
                        made.values.resize(made.indices.size());
                    }
                    bool finite = true;
                    reached_by[thread]->visit(places, row, [&](int32_t component, double sum) {
                        const V value = V(sum);
                        finite &= std::isfinite(value);
                        made.indices[made.size] = component;
                        made.values[made.size] = value;
                        made.size += value != 0;
                    });
                    if (!finite) keep_least(too_large, i);
                    indptr[i - begin + 1] = made.size - before;
                }
            });
            std::vector<int64_t> starts(in_slab);
            for (int64_t b = 0; b < in_slab; ++b) {
                const int64_t first = from + b ? ends[from + b - 1] : begin;
                starts[b] = indptr[first - begin];
                for (int64_t i = first - begin; i < ends[from + b] - begin; ++i) indptr[i + 1] += indptr[i];
            }
            parallel_blocks(in_slab, n_threads, [&](int64_t b, int) {
                std::copy_n(slab[b].indices.data(), slab[b].size, indices + starts[b]);
                std::copy_n(slab[b].values.data(), slab[b].size, values + starts[b]);
            });
        }
    });
    return too_large;
}

#define SPARSECLUSTER_FOR(V)                                                                                 \
    template int64_t embed_densely<V>(const Rows&, const ColumnMap&, int64_t, int64_t, V*, int);             \
    template int64_t embed_sparsely<V>(const Rows&, const ColumnMap&, int64_t, int64_t, int64_t*, int32_t*, V*, int);
SPARSECLUSTER_FOR(float)
SPARSECLUSTER_FOR(double)
#undef SPARSECLUSTER_FOR

}  // namespace sparsecluster
