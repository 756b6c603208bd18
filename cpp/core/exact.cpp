// Compiled without contraction to fused multiply-adds, so that every machine gets the same bits.
#include "core/exact.hpp"

#include <stdexcept>

#include "core/groups.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

constexpr double kEps = 0x1p-53;
constexpr double kTie = 0x1p-40;
constexpr double kCancelled = 0x1p-10;

// Whether row is nearer to b than to a by more than rounding: |x-a|^2 - |x-b|^2 as the sum over features
// of (a-b)(a+b-2x), which does not cancel where rows lie far from the origin.
template <class V, class I>
bool nearer_to_second(const Row<V, I>& row, const Center& a, const Center& b) {
    double difference = 0, magnitude = 0;
    int64_t pa = 0, pb = 0, px = 0;
    while (pa < a.size() || pb < b.size()) {
        const int32_t fa = pa < a.size() ? a.features[pa] : INT32_MAX;
        const int32_t fb = pb < b.size() ? b.features[pb] : INT32_MAX;
        const int32_t feature = std::min(fa, fb);
        const double va = fa == feature ? a.values[pa++] : 0.0;
        const double vb = fb == feature ? b.values[pb++] : 0.0;
        while (px < row.size && int32_t(row.features[px]) < feature) ++px;
        const double x = px < row.size && int32_t(row.features[px]) == feature ? double(row.values[px]) : 0.0;
        const double term = (va - vb) * ((va - x) + (vb - x));
        difference += term;
        magnitude += std::abs(va - vb) * (std::abs(va - x) + std::abs(vb - x));
    }
    return difference > kTie * magnitude;
}

// A part of one label's members, small enough to share the work out evenly.
struct Portion {
    int32_t label;
    int64_t begin, end;
};

}  // namespace

template <class V, class I>
int32_t settle(const Row<V, I>& row, double row_norm2, const Centers& centers,
               std::vector<int32_t>& candidates, bool* firm) {
    if (firm) *firm = true;
    if (candidates.size() == 1) return candidates[0];
    const double row_norm = std::sqrt(row_norm2);
    const int64_t row_size = row.size - std::count(row.values, row.values + row.size, V(0));
    std::vector<double> lowest(candidates.size()), highest(candidates.size());
    double threshold = INFINITY;
    for (size_t c = 0; c < candidates.size(); ++c) {
        const Center& center = centers.items[candidates[c]];
        const double half_distance = 0.5 * center.norm2 - dot(row, center);
        const double error = kEps * (double(row_size + 8) * row_norm * std::sqrt(center.norm2) +
                                     double(center.size() + 8) * center.norm2);
        lowest[c] = half_distance - error;
        highest[c] = half_distance + error;
        threshold = std::min(threshold, highest[c]);
    }
    int32_t nearest = -1;
    double nearest_highest = INFINITY;
    for (size_t c = 0; c < candidates.size(); ++c) {
        if (lowest[c] > threshold) continue;
        if (nearest >= 0 && !nearer_to_second(row, centers.items[nearest], centers.items[candidates[c]])) continue;
        nearest = candidates[c];
        nearest_highest = highest[c];
    }
    if (nearest < 0) throw std::invalid_argument("no center is nearest: did X change during the call?");
    if (!firm) return nearest;
    // Those that would be compared with it if there were no others. One alone has just been, and so have all where it
    // comes first and none is nearer.
    int64_t n_rivals = 0;
    bool first_of_equals = true;
    for (size_t c = 0; c < candidates.size(); ++c) {
        if (candidates[c] == nearest || lowest[c] > nearest_highest) continue;
        ++n_rivals;
        first_of_equals = first_of_equals && candidates[c] > nearest &&
                          !nearer_to_second(row, centers.items[nearest], centers.items[candidates[c]]);
    }
    *firm = n_rivals < 2 || first_of_equals;
    return nearest;
}

namespace {

// Those of the listed rows from first to last; the first distance goes to out[0].
template <class View>
void own_distances_between(const View& view, const Centers& centers, const int32_t* labels, const int64_t* ids,
                           int64_t first, int64_t last, double* out, int n_threads, const double* scales = nullptr) {
    constexpr int64_t kPortion = 1024;
    const Groups groups = group_ids(centers.size(), [&](const auto& note) {
        for (int64_t p = first; p < last; ++p) note(labels[ids ? ids[p] : p], p);
    });
    std::vector<Portion> portions;
    for (int64_t k = 0; k < centers.size(); ++k)
        for (int64_t begin = groups.begin[k]; begin < groups.begin[k + 1]; begin += kPortion)
            portions.push_back({int32_t(k), begin, std::min(begin + kPortion, groups.begin[k + 1])});
    std::vector<std::vector<double>> dense(std::max(n_threads, 1));
    parallel_blocks(int64_t(portions.size()), n_threads, [&](int64_t p, int thread) {
        std::vector<double>& spread = dense[thread];
        if (spread.empty()) spread.assign(view.n_features, 0.0);
        const Portion& portion = portions[p];
        const Center& center = centers.items[portion.label];
        for (int64_t e = 0; e < center.size(); ++e) spread[center.features[e]] = center.values[e];
        const auto listed = [&](int64_t m) { return ids ? ids[groups.ids[m]] : groups.ids[m]; };
        for (int64_t m = portion.begin; m < portion.end; ++m) {
            constexpr int64_t kAhead = 6;
            view.prefetch_listed(m, portion.end, kAhead, listed);
            const int64_t position = groups.ids[m], i = listed(m);
            out[position - first] = spread_distance2(view.row(i), spread.data(), center, scales ? scales[i] : 1.0);
        }
        for (int32_t feature : center.features) spread[feature] = 0.0;
    });
}

}  // namespace

void own_distances(const Rows& rows, const Centers& centers, const int32_t* labels, const int64_t* ids,
                   int64_t n_ids, double* out, int n_threads, const double* scales) {
    auto between = [&](const auto& view, int64_t begin, int64_t end) {
        own_distances_between(view, centers, labels, ids, begin, end, out + begin, n_threads, scales);
    };
    if (!ids) return rows.in_chunks(n_ids, between);
    std::visit([&](const auto& view) { between(view, 0, n_ids); }, rows.matrix());
}

ExactSum own_cost(const Rows& rows, const Centers& centers, const int32_t* labels, const double* weights,
                  int64_t n_rows, int n_threads) {
    std::vector<double> distance2;
    ExactSum cost;
    rows.in_chunks(n_rows, [&](const auto& view, int64_t begin, int64_t end) {
        distance2.resize(end - begin);
        own_distances_between(view, centers, labels, nullptr, begin, end, distance2.data(), n_threads);
        for (int64_t i = begin; i < end; ++i)
            cost.add(weights ? weights[i] * distance2[i - begin] : distance2[i - begin]);
    });
    return cost;
}

template <class Out>
void all_distances(const Rows& rows, const Centers& centers, Out* out, int n_threads) {
    const int64_t n = rows.n_rows(), n_centers = centers.size();
    // The centers by feature, in float64.
    std::vector<int64_t> begin(rows.n_features() + 1, 0);
    for (const Center& center : centers.items)
        for (int32_t feature : center.features) ++begin[feature + 1];
    for (int64_t f = 0; f < rows.n_features(); ++f) begin[f + 1] += begin[f];
    std::vector<int32_t> index(begin.back());
    std::vector<double> value(begin.back());
    std::vector<int64_t> at(begin.begin(), begin.end() - 1);
    for (int64_t k = 0; k < n_centers; ++k) {
        const Center& center = centers.items[k];
        for (int64_t e = 0; e < center.size(); ++e) {
            const int64_t position = at[center.features[e]]++;
            index[position] = int32_t(k);
            value[position] = center.values[e];
        }
    }
    // Several blocks for each thread, however few the rows: centers are compared with each other here, too.
    const int64_t block_rows = std::clamp<int64_t>(n / (8 * std::max(n_threads, 1)), 1, 64);
    std::visit(
        [&](const auto& view) {
            parallel_blocks((n + block_rows - 1) / block_rows, n_threads, [&](int64_t block, int) {
                std::vector<double> product(n_centers);
                for (int64_t i = block * block_rows; i < std::min(n, (block + 1) * block_rows); ++i) {
                    std::fill(product.begin(), product.end(), 0.0);
                    const auto row = view.row(i);
                    for (int64_t e = 0; e < row.size; ++e) {
                        const double x = row.values[e];
                        const int64_t end = begin[row.features[e] + 1];
                        for (int64_t p = begin[row.features[e]]; p < end; ++p)
                            product[index[p]] += x * value[p];
                    }
                    for (int64_t k = 0; k < n_centers; ++k) {
                        const Center& center = centers.items[k];
                        const double norms = rows.norm2()[i] + center.norm2;
                        double distance2 = norms - 2 * product[k];
                        if (distance2 < kCancelled * norms) distance2 = direct_distance2(row, as_row(center));
                        out[i * n_centers + k] = Out(std::sqrt(distance2));
                    }
                }
            });
        },
        rows.matrix());
}

template int32_t settle(const Row<float, int32_t>&, double, const Centers&, std::vector<int32_t>&, bool*);
template int32_t settle(const Row<float, int64_t>&, double, const Centers&, std::vector<int32_t>&, bool*);
template int32_t settle(const Row<double, int32_t>&, double, const Centers&, std::vector<int32_t>&, bool*);
template int32_t settle(const Row<double, int64_t>&, double, const Centers&, std::vector<int32_t>&, bool*);
template void all_distances(const Rows&, const Centers&, float*, int);
template void all_distances(const Rows&, const Centers&, double*, int);

}  // namespace sparsecluster
