// Compiled without contraction, as exact.cpp.
#include "index/lookup.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

namespace {

// Centers whose score is this near to the best one, by the squares that it is made of, are settled; rounding and the
// rule for ties are far below.
constexpr double kDoubt = 1e-9;

void check(bool holds) {
    if (!holds) throw std::invalid_argument("The model's centers by feature are damaged. Save the model again.");
}

template <class V, class I>
int64_t entries_of(const Matrix<V, I>& view, const CentersByFeature& lists) {
    int64_t total = 0;
    for (int64_t i = 0; i < view.n_rows; ++i) {
        const auto row = view.row(i);
        for (int64_t e = 0; e < row.size; ++e) {
            const int64_t begin = lists.begin[row.features[e]], end = lists.begin[row.features[e] + 1];
            check(0 <= begin && begin <= end && end <= lists.n_entries && end - begin <= lists.n_clusters);
            total += end - begin;
        }
    }
    return total;
}

// Scores are x.c - |c|^2 / 2.
template <class V, class I>
void score(const Row<V, I>& row, const CentersByFeature& lists, std::vector<double>& scores) {
    std::fill(scores.begin(), scores.end(), 0.0);
    for (int64_t e = 0; e < row.size; ++e)
        for (int64_t p = lists.begin[row.features[e]]; p < lists.begin[row.features[e] + 1]; ++p) {
            check(lists.clusters[p] >= 0 && lists.clusters[p] < lists.n_clusters);
            scores[lists.clusters[p]] += double(row.values[e]) * lists.values[p];
        }
    for (int64_t k = 0; k < lists.n_clusters; ++k) scores[k] -= lists.norm2[k] / 2;
}

}  // namespace

std::optional<std::vector<int32_t>> look_up(const Rows& rows, const CentersByFeature& lists, int64_t most_entries,
                                            const std::function<Center(int32_t)>& center) {
    if (rows.n_features() > lists.n_features) return {};
    return std::visit(
        [&](const auto& view) -> std::optional<std::vector<int32_t>> {
            if (entries_of(view, lists) > most_entries) return {};
            std::vector<int32_t> labels(view.n_rows), candidates;
            std::vector<double> scores(lists.n_clusters);
            Centers centers;  // those that had to be read
            std::vector<char> known(lists.n_clusters, 0);
            for (int64_t i = 0; i < view.n_rows; ++i) {
                poll_interrupt();
                const auto row = view.row(i);
                score(row, lists, scores);
                const int64_t best = std::max_element(scores.begin(), scores.end()) - scores.begin();
                const double norms = lists.norm2[best] + rows.norm2()[i];
                candidates.clear();
                for (int64_t k = 0; k < lists.n_clusters; ++k)  // also where a score is not a number
                    if (!(scores[best] - scores[k] > kDoubt * (lists.norm2[k] + norms)))
                        candidates.push_back(int32_t(k));
                centers.items.resize(candidates.size() > 1 ? lists.n_clusters : centers.items.size());
                for (int32_t k : candidates) {
                    if (candidates.size() == 1 || known[k]) continue;
                    centers.items[k] = center(k);
                    known[k] = 1;
                }
                labels[i] = settle(row, rows.norm2()[i], centers, candidates);
            }
            return labels;
        },
        rows.matrix());
}

}  // namespace sparsecluster
