// The side of the rows: what a change of labels means for the sums. Compiled without contraction, as exact.cpp.
#include "kmeans/sums.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/exact.hpp"
#include "core/give_back.hpp"
#include "core/labels.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

SumDelta merged(const SumDeltaView& one, const SumDeltaView& other) {
    SumDelta both;
    both.moved = one.moved + other.moved;
    both.weights = one.weights;
    both.begin.assign(1, 0);
    both.features.reserve(one.features.size() + other.features.size());
    both.sums.reserve(one.features.size() + other.features.size());
    for (int64_t k = 0; k < one.n_clusters(); ++k) {
        both.weights[k].add(other.weights[k]);
        FixedSums::append_merged(one.features_of(k), one.sums_of(k), other.features_of(k), other.sums_of(k),
                                 both.features, both.sums);
        both.begin.push_back(int64_t(both.features.size()));
    }
    return both;
}

RowSums::RowSums(const Rows& rows, const ColumnStats& columns, const double* weights, int64_t n_clusters,
                 Metric metric)
    : rows_(rows), columns_(columns), weights_(weights), n_clusters_(n_clusters), metric_(metric), spread_(columns) {}

void RowSums::take_new_rows(int64_t n) {
    const int64_t known = int64_t(labels_.size());
    if (known == n) return;
    labels_.resize(n, -1);
    if (about_mean() && known == 0 && n == columns_.n_rows)
        scatter_.add(columns_.scatter);
    else
        scatter_.add(scatter_of(known, n));
}

ExactSum RowSums::scatter_of(int64_t begin, int64_t end) const {
    ExactSum sum;
    if (about_mean()) {
        std::visit(
            [&](const auto& view) {
                for (int64_t i = begin; i < end; ++i) sum.add(weight_of(i) * spread_(view.row(i)));
            },
            rows_.matrix());
    } else {
        in_space(metric_, [&](auto space) {
            for (int64_t i = begin; i < end; ++i) sum.add(weight_of(i) * space.baseline(rows_.norm2()[i]));
        });
    }
    return sum;
}

void RowSums::resize(int64_t n_clusters) {
    for (int32_t& label : labels_)
        if (label >= n_clusters) label = -1;
    n_clusters_ = n_clusters;
}

static int64_t n_unlike(const int32_t* labels, const std::vector<int32_t>& others) {
    int64_t n = 0;
    for (size_t i = 0; i < others.size(); ++i) n += labels[i] != others[i];
    return n;
}

RowSums::Changes RowSums::take_changes(const int32_t* labels, int64_t begin, int64_t end) {
    auto visit_changes = [&](const auto& note) {
        for_relabeled(labels, labels_.data(), begin, end, [&](int64_t i) {
            if (labels[i] >= 0) note(labels[i], i);
            if (labels_[i] >= 0) note(labels_[i], ~i);
        });
    };
    Changes changes = group_ids(n_clusters_, visit_changes);
    std::copy(labels + begin, labels + end, labels_.begin() + begin);
    return changes;
}

RowSums::Changes RowSums::members_of_changed(const int32_t* labels, const Changes& changes) const {
    std::vector<char> changed(n_clusters_);
    for (int64_t k = 0; k < n_clusters_; ++k) changed[k] = changes.begin[k] < changes.begin[k + 1];
    return group_ids(n_clusters_, [&](const auto& note) {
        for (int64_t i = 0; i < int64_t(labels_.size()); ++i)
            if (labels[i] >= 0 && changed[labels[i]]) note(labels[i], i);
    });
}

// Whether it is faster to read all rows of a file on the way than those that changed by themselves.
static bool are_many(int64_t n_changed, int64_t n_rows) {
    constexpr int64_t kOnTheWay = 200;
    return n_changed * kOnTheWay > n_rows;
}

template <class Work>
void RowSums::in_chunks(const int32_t* labels, int64_t n_rows, const Work& work) const {
    rows_.in_chunks(n_rows, work, [&](int64_t begin, int64_t end) {
        int64_t n_changed = 0;
        for (int64_t i = begin; i < end; ++i) n_changed += labels[i] != labels_[i];
        return are_many(n_changed, end - begin);
    });
}

void RowSums::will_need(const Changes& changes, int64_t begin, int64_t end) const {
    if (!rows_.streamed() || are_many(int64_t(changes.ids.size()), end - begin)) return;
    for (const int64_t id : changes.ids) {
        const int64_t i = id >= 0 ? id : ~id;
        rows_.will_need(i, i + 1);
    }
}

void RowSums::begin_total(Scratch& scratch) const {
    if (scratch.touched.empty()) scratch.touched.resize(rows_.n_features());
    if (scratch.coarse.empty()) scratch.coarse.resize(rows_.n_features());
    scratch.weight = {};
}

template <class View>
void RowSums::add_changes(const View& view, const Changes& changes, int64_t begin, int64_t end,
                          const SumScales& scales, Scratch& scratch, bool poll) {
    constexpr int64_t kAhead = 4;
    begin_total(scratch);
    for (int64_t c = begin; c < end; ++c) {
        const int64_t sign = changes.ids[c] >= 0 ? 1 : -1;
        const int64_t i = sign > 0 ? changes.ids[c] : ~changes.ids[c];
        const double weight = weight_of(i);
        if (poll && c % 256 == 0) poll_interrupt();
        // The rows of a cluster lie apart.
        view.prefetch_listed(c, end, kAhead, [&](int64_t ahead) {
            return changes.ids[ahead] >= 0 ? changes.ids[ahead] : ~changes.ids[ahead];
        });
        scales.weight.add(scratch.weight, weight, sign);
        const auto row = view.row(i);
        for (int64_t e = 0; e < row.size; ++e) {
            const auto f = row.features[e];
            scales.features[f].add(scratch.coarse[f], weight * double(row.values[e]), sign, [&](int64_t rest) {
                if (scratch.fine.empty()) scratch.fine.resize(scratch.coarse.size());
                scratch.fine[f] += rest;
            });
            scratch.touched.insert(f);
        }
    }
    end_total(scratch);
}

void RowSums::add_totals(const Total* begin, const Total* end, Scratch& scratch) {
    begin_total(scratch);
    for (const Total* total = begin; total < end; ++total) {
        scratch.weight.add(total->weight);
        for (size_t e = 0; e < total->features.size(); ++e) {
            const FixedSum sum = total->sums[e];
            const int32_t f = total->features[e];
            scratch.coarse[f] += sum.coarse;
            if (sum.fine != 0) {
                if (scratch.fine.empty()) scratch.fine.resize(scratch.coarse.size());
                scratch.fine[f] += sum.fine;
            }
            scratch.touched.insert(f);
        }
    }
    end_total(scratch);
}

void RowSums::end_total(Scratch& scratch) {
    scratch.features.clear();
    scratch.sums.clear();
    scratch.touched.drain([&](int32_t feature) {
        const FixedSum sum{scratch.coarse[feature], scratch.fine.empty() ? 0 : scratch.fine[feature]};
        if (sum.zero()) return;
        scratch.features.push_back(feature);
        scratch.sums.push_back(sum);
        scratch.coarse[feature] = 0;
        if (!scratch.fine.empty()) scratch.fine[feature] = 0;
    });
}

template <class View, class Visit>
void RowSums::add_up(const View& view, const Changes& changes, const SumScales& scales, int n_threads,
                     const Visit& visit) {
    if (int64_t(scratches_.size()) < n_threads) scratches_.resize(n_threads);
    const auto size = [&](int64_t k) { return changes.begin[k + 1] - changes.begin[k]; };
    // The clusters with most changes first. One that has more than its part of all of them is added up in portions by
    // several threads, so that nobody waits for it.
    std::vector<int64_t> order(n_clusters_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) > size(b); });
    constexpr int64_t kLeastPortion = 256, kPortionsOfThread = 4;
    const int64_t portion = n_threads > 1
        ? std::max(kLeastPortion, int64_t(changes.ids.size()) / (kPortionsOfThread * n_threads)) : INT64_MAX / 2;
    std::vector<int64_t> first{0};  // portion of each cluster that has several, in that order
    for (int64_t o = 0; o < n_clusters_ && size(order[o]) > 2 * portion; ++o)
        first.push_back(first.back() + (size(order[o]) + portion - 1) / portion);
    const int64_t n_shared = int64_t(first.size()) - 1;
    std::vector<Total> totals(first.back());
    parallel_blocks(first.back(), n_threads, [&](int64_t p, int thread) {
        Scratch& scratch = scratches_[thread];
        const int64_t o = std::upper_bound(first.begin(), first.end(), p) - first.begin() - 1, k = order[o];
        const int64_t begin = changes.begin[k] + (p - first[o]) * portion;
        add_changes(view, changes, begin, std::min(begin + portion, changes.begin[k + 1]), scales, scratch, thread == 0);
        totals[p] = static_cast<Total&>(scratch);
    });
    parallel_blocks(n_clusters_, n_threads, [&](int64_t o, int thread) {
        Scratch& scratch = scratches_[thread];
        const int64_t k = order[o];
        if (o < n_shared)
            add_totals(totals.data() + first[o], totals.data() + first[o + 1], scratch);
        else if (size(k) > 0)
            add_changes(view, changes, changes.begin[k], changes.begin[k + 1], scales, scratch, thread == 0);
        visit(k, size(k) > 0, scratch);
    });
}

SumDelta RowSums::delta(const int32_t* labels, int64_t n_rows, const SumScales& scales, int n_threads) {
    SumDelta delta;
    labels_.resize(n_rows, -1);
    delta.moved = n_unlike(labels, labels_);
    std::vector<std::vector<int32_t>> features(n_clusters_);
    std::vector<FixedSums> sums(n_clusters_);
    delta.weights.resize(n_clusters_);
    in_chunks(labels, n_rows, [&](const auto& view, int64_t begin, int64_t end) {
        const Changes changes = take_changes(labels, begin, end);
        will_need(changes, begin, end);
        add_up(view, changes, scales, n_threads, [&](int64_t k, bool changed, Scratch& scratch) {
            if (!changed) return;
            delta.weights[k].add(scratch.weight);
            ClusterSums::Scratch& both = scratch.merging;
            const bool first = features[k].empty();
            if (!first) {
                both.features.clear();
                both.sums.clear();
                FixedSums::append_merged<int32_t>(features[k], sums[k].view(), scratch.features, scratch.sums.view(),
                                                  both.features, both.sums);
            }
            FixedSums::tighten(features[k], first ? scratch.features : both.features);
            sums[k].assign_tightly(first ? scratch.sums : both.sums);
        });
    });
    delta.begin.assign(1, 0);
    size_t n_entries = 0;
    for (const auto& some : features) n_entries += some.size();
    delta.features.reserve(n_entries);
    delta.sums.reserve(n_entries);
    for (int64_t k = 0; k < n_clusters_; ++k) {
        delta.features.insert(delta.features.end(), features[k].begin(), features[k].end());
        delta.sums.append(sums[k].view());
        delta.begin.push_back(int64_t(delta.features.size()));
        features[k] = {};
        sums[k] = {};
    }
    return delta;
}

template <class View>
std::pair<double, Center> RowSums::sum_anew(const View& view, const Changes& members, int64_t k, Scratch& scratch,
                                            bool poll) {
    double total = 0;
    if (scratch.real.empty()) scratch.real.resize(rows_.n_features());
    for (int64_t c = members.begin[k]; c < members.begin[k + 1]; ++c) {
        const double weight = weight_of(members.ids[c]);
        if (poll && c % 256 == 0) poll_interrupt();
        total += weight;
        const auto row = view.row(members.ids[c]);
        for (int64_t e = 0; e < row.size; ++e) {
            scratch.real[row.features[e]] += weight * double(row.values[e]);
            scratch.touched.insert(row.features[e]);
        }
    }
    Center mean;
    scratch.touched.drain([&](int32_t feature) {
        if (scratch.real[feature] == 0) return;
        mean.features.push_back(feature);
        mean.values.push_back(scratch.real[feature] / total);
        scratch.real[feature] = 0;
    });
    mean.compute_norm();
    return {total, std::move(mean)};
}

void Sums::restart(int64_t n_clusters) {
    // What is summed anew wants all rows to come again.
    if (!clusters_.scales().fixed_point) {
        rows_.resize(0);
        clusters_.resize(0);
    }
    rows_.resize(n_clusters);
    clusters_.resize(n_clusters);
    to_be_moved_.assign(n_clusters, 1);
    for (int32_t& label : updated_)
        if (label >= n_clusters) label = -1;
}

template <class View, class Then>
void Sums::add_changes(const View& view, const RowSums::Changes& changes, int n_threads, const Then& then) {
    rows_.add_up(view, changes, clusters_.scales(), n_threads, [&](int64_t k, bool changed, RowSums::Scratch& scratch) {
        if (changed) {
            to_be_moved_[k] = 1;
            clusters_.add(k, scratch.features, scratch.sums.view(), scratch.weight, scratch.merging);
        }
        then(k, scratch);
    });
}

std::unique_ptr<ChunkFollower> Sums::follow(const int32_t* labels, int64_t n_rows, int n_threads) {
    if (!rows_.rows_.streamed() || !clusters_.scales().fixed_point) return nullptr;
    rows_.take_new_rows(n_rows);
    if (updated_.empty()) updated_ = rows_.labels_;
    return std::make_unique<ChunkFollower>(rows_.rows_, [=, this](const AnyMatrix& view, int64_t begin, int64_t end) {
        if (begin >= n_rows) return;
        const HoldInterrupts hold;  // labels count as accounted for from here on
        const RowSums::Changes changes = rows_.take_changes(labels, begin, std::min(end, n_rows));
        if (changes.ids.empty()) return;
        std::visit([&](const auto& chunk) { add_changes(chunk, changes, n_threads, [](int64_t, RowSums::Scratch&) {}); }, view);
    });
}

UpdateStats Sums::update(const int32_t* labels, int64_t n_rows, Centers& centers, int n_threads) {
    UpdateStats stats;
    stats.shift.assign(size(), 0.0);
    rows_.take_new_rows(n_rows);
    if (!updated_.empty()) updated_.resize(n_rows, -1);
    stats.moved = n_unlike(labels, updated_.empty() ? rows_.labels_ : updated_);
    if (clusters_.scales().fixed_point) {
        rows_.in_chunks(labels, n_rows, [&](const auto& view, int64_t begin, int64_t end) {
            const RowSums::Changes changes = rows_.take_changes(labels, begin, end);
            if (changes.ids.empty() && end < n_rows) return;
            rows_.will_need(changes, begin, end);
            add_changes(view, changes, n_threads, [&](int64_t k, RowSums::Scratch& scratch) {
                if (to_be_moved_[k] && end == n_rows) clusters_.move_center(k, centers, stats, scratch.merging);
            });
        });
    } else {
        sum_anew(labels, n_rows, centers, n_threads, stats);
    }
    to_be_moved_.assign(size(), 0);
    updated_.clear();
    stats.cost = clusters_.cost(scatter());
    give_back(stats.moved, centers.nnz());
    return stats;
}

// When many rows move most centers get other sizes, and what they leave lies between those of others.
void Sums::give_back(int64_t moved, int64_t nnz) const {
    constexpr int64_t kWorth = 1 << 20;
    const bool much = nnz >= kWorth && moved * 10 >= n_rows();
    if (much || rows_.rows_.streamed()) sparsecluster::give_back();
}

// These sums depend on the order of the rows, which are added in one go.
void Sums::sum_anew(const int32_t* labels, int64_t n_rows, Centers& centers, int n_threads, UpdateStats& stats) {
    const RowSums::Changes changes = rows_.take_changes(labels, 0, n_rows);
    rows_.will_need(changes, 0, n_rows);
    const RowSums::Changes members = rows_.members_of_changed(labels, changes);
    if (int64_t(rows_.scratches_.size()) < n_threads) rows_.scratches_.resize(n_threads);
    std::visit(
        [&](const auto& view) {
            parallel_blocks(size(), n_threads, [&](int64_t k, int thread) {
                RowSums::Scratch& scratch = rows_.scratches_[thread];
                if (scratch.touched.empty()) scratch.touched.resize(rows_.rows_.n_features());
                if (changes.begin[k] == changes.begin[k + 1]) return;
                auto [weight, mean] = rows_.sum_anew(view, members, k, scratch, thread == 0);
                clusters_.move_center(k, weight, mean, centers, stats);
            });
        },
        rows_.rows_.matrix());
}

}  // namespace sparsecluster
