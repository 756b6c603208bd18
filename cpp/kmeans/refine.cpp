// Compiled without contraction, as exact.cpp: the same moves on every machine.
#include "kmeans/refine.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "index/scan.hpp"

namespace sparsecluster {

namespace {

struct Move {
    int64_t row;
    int32_t to;
};

template <class Space, class V, class I>
class Refiner {
public:
    Refiner(const Rows& rows, const Matrix<V, I>& view, const double* weights, const AssignOptions& options,
            Centers& centers, int32_t* labels)
        : rows_(rows), view_(view), weights_(weights), options_(options), centers_(centers), labels_(labels), sizes_(centers.size()) {
        for (int64_t i = 0; i < rows.n_rows(); ++i) {
            sizes_[labels[i]].weight += weight(i);
            if (Space::kUnit)
                sizes_[labels[i]].length += weight(i) * dot(view.row(i), centers.items[labels[i]]);
            if (i % 1024 == 0) poll_interrupt();
        }
    }

    int64_t run() {
        int64_t moved = 0;
        for (const Move& move : promising()) {
            moved += apply(move);
            poll_interrupt();
        }
        return moved;
    }

private:
    double weight(int64_t i) const { return weights_ ? weights_[i] : 1.0; }

    // Whether a cluster would still be one without the row.
    bool may_leave(int64_t i) const {
        return weight(i) > 0 && sizes_[labels_[i]].weight > weight(i) * (1 + 1e-9);
    }

    // The change of the cost by a move, and how small it must be to count.
    double change(int64_t i, int32_t to) const {
        const auto row = view_.row(i);
        const int32_t from = labels_[i];
        const double coming =
            Space::of_coming(sizes_[to], direct_distance2(row, as_row(centers_.items[to])),
                                 rows_.norm2()[i], weight(i));
        const double going = Space::of_going(
            sizes_[from], direct_distance2(row, as_row(centers_.items[from])), rows_.norm2()[i], weight(i));
        const double least = 1e-10 * (std::abs(coming) + std::abs(going));
        return coming - going < -least ? coming - going : 0.0;
    }

    // The best move of each row that has one, with all centers as they are; in row order.
    std::vector<Move> promising() {
        CenterIndex index;
        index.build(centers_, common_scale(rows_, centers_), {options_.head_limit, direct_limit(rows_.nnz())},
                    options_.n_threads);
        std::vector<ScanScratch> scratches;
        std::vector<std::vector<Move>> found(std::max(options_.n_threads, 1));
        const double unscale2 = 1 / (index.scale * index.scale);
        ClusterSize smallest{INFINITY, INFINITY};
        for (const ClusterSize& size : sizes_) {
            smallest.weight = std::min(smallest.weight, size.weight);
            smallest.length = std::min(smallest.length, size.length);
        }
        scan(rows_, index, nullptr, rows_.n_rows(), options_.n_threads, scratches,
             [&](const Scanned& scanned, const auto&, int thread) {
                 const int64_t i = scanned.row;
                 if (!may_leave(i)) return;
                 const double norm2 = rows_.norm2()[i];
                 // Squared distance for a score that is wrong by `error`.
                 auto distance2 = [&](double score, double error) {
                     return std::max(0.0, (scanned.norm2 - 2 * (score + error)) * unscale2);
                 };
                 auto coming = [&](int64_t k, double error) {
                     return Space::of_coming(sizes_[k], distance2(scanned.scores[k], error), norm2, weight(i));
                 };
                 const int32_t own = labels_[i];
                 const double going = Space::of_going(
                     sizes_[own], distance2(scanned.scores[own], -scanned.error), norm2, weight(i));
                 // For most rows not even the smallest cluster would gain at the least distance.
                 const float other = own == scanned.top.index ? scanned.top.second : scanned.top.best;
                 if (Space::of_coming(smallest, distance2(other, scanned.error), norm2, weight(i)) >= going)
                     return;
                 double limit = going;
                 for (int64_t k = 0; k < index.n_centers; ++k)
                     if (k != own) limit = std::min(limit, coming(k, -scanned.error));
                 double best = 0;
                 int32_t to = -1;
                 for (int64_t k = 0; k < index.n_centers; ++k) {
                     if (k == own || coming(k, scanned.error) > limit) continue;
                     const double by = change(i, int32_t(k));
                     if (by < best) {
                         best = by;
                         to = int32_t(k);
                     }
                 }
                 if (to >= 0) found[thread].push_back({i, to});
             });
        std::vector<Move> all;
        for (const auto& part : found) all.insert(all.end(), part.begin(), part.end());
        std::sort(all.begin(), all.end(), [](const Move& a, const Move& b) { return a.row < b.row; });
        return all;
    }

    // Makes a move if it still lowers the cost, after those before it.
    bool apply(const Move& move) {
        if (!may_leave(move.row) || !(change(move.row, move.to) < 0)) return false;
        const auto row = view_.row(move.row);
        const double w = weight(move.row);
        const int32_t from = labels_[move.row];
        ClusterSize &less = sizes_[from], &more = sizes_[move.to];
        if (!Space::exchange(row, w, less, centers_.items[from], more, centers_.items[move.to])) return false;
        less.weight -= w;
        more.weight += w;
        labels_[move.row] = move.to;
        return true;
    }

    const Rows& rows_;
    const Matrix<V, I>& view_;
    const double* weights_;
    const AssignOptions& options_;
    Centers& centers_;
    int32_t* labels_;
    std::vector<ClusterSize> sizes_;
};

}  // namespace

int64_t first_variation(const Rows& rows, const double* weights, AssignOptions options, Centers& centers,
                        int32_t* labels) {
    return std::visit(
        [&](const auto& view) {
            using View = std::decay_t<decltype(view)>;
            return in_space(options.metric, [&](auto space) {
                return Refiner<decltype(space), typename View::Value, typename View::Index>(rows, view, weights, options,
                                                                                             centers, labels)
                    .run();
            });
        },
        rows.matrix());
}

}  // namespace sparsecluster
