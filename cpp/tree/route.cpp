#include "tree/route.hpp"

#include <algorithm>

#include "core/groups.hpp"
#include "core/parallel.hpp"
#include "tree/lanes.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kMostPairs = int64_t(1) << 16;  // of a row and a node whose children it is compared with, at a time
constexpr int64_t kTaskPairs = 4096;

struct Candidate {
    double score;
    int32_t node;
    bool operator<(const Candidate& other) const {
        return score != other.score ? score > other.score : node < other.node;
    }
};

// What a thread needs to compare rows with the children of a node.
struct Scratch {
    std::vector<int32_t> numbers;  // per column: its number among those of the children, or -1
    LaneTable<double> table;
    std::vector<double> scores;
    std::vector<int64_t> begin;
    std::vector<int32_t> features;
    std::vector<double> values;
};

class Router {
public:
    Router(const Rows& rows, const TreeView& tree, int beam, int n_threads)
        : rows_(rows), tree_(tree), beam_(beam), n_threads_(n_threads), scratch_(std::max(n_threads, 1)) {}

    void route_rows(int64_t first, int64_t n, int32_t* leaves) {
        beams_.assign(n, {Candidate{0.0, 0}});
        while (descend(first)) {
        }
        for (int64_t i = 0; i < n; ++i) leaves[i] = beams_[i].front().node;
    }

private:
    // Takes all rows one level down; false where all are at leaves.
    bool descend(int64_t first) {
        const Groups pairs = group_ids(tree_.n_nodes, [&](const auto& note) {
            for (int64_t i = 0; i < int64_t(beams_.size()); ++i)
                for (const Candidate& one : beams_[i])
                    if (tree_.n_children[one.node] > 0) note(one.node, i);
        });
        if (pairs.ids.empty()) return false;
        struct Task {
            int32_t node;
            int64_t begin, end;
        };
        std::vector<Task> tasks;
        for (int64_t node = 0; node < tree_.n_nodes; ++node)
            for (int64_t at = pairs.begin[node]; at < pairs.begin[node + 1]; at += kTaskPairs)
                tasks.push_back({int32_t(node), at, std::min(at + kTaskPairs, pairs.begin[node + 1])});
        std::vector<std::vector<Candidate>> found(tasks.size());
        parallel_blocks(int64_t(tasks.size()), n_threads_, [&](int64_t t, int thread) {
            compare(tasks[t].node, first, pairs.ids.data() + tasks[t].begin, tasks[t].end - tasks[t].begin,
                    scratch_[thread], found[t]);
        });
        for (auto& beam : beams_)
            std::erase_if(beam, [&](const Candidate& one) { return tree_.n_children[one.node] > 0; });
        for (size_t t = 0; t < tasks.size(); ++t) {
            const int64_t k = tree_.n_children[tasks[t].node];
            for (int64_t j = 0; j < tasks[t].end - tasks[t].begin; ++j) {
                auto& beam = beams_[pairs.ids[tasks[t].begin + j]];
                beam.insert(beam.end(), found[t].begin() + j * k, found[t].begin() + (j + 1) * k);
            }
        }
        for (auto& beam : beams_) {
            const auto kept = std::min<size_t>(beam_, beam.size());
            std::partial_sort(beam.begin(), beam.begin() + kept, beam.end());
            beam.resize(kept);
        }
        return true;
    }

    // The scores of these rows with the children of a node.
    void compare(int32_t node, int64_t first, const int64_t* ids, int64_t n, Scratch& own,
                 std::vector<Candidate>& out) const {
        const int k = tree_.n_children[node], lanes = lanes_for<double>(k);
        const int32_t child = tree_.first_child[node];
        if (own.numbers.empty()) own.numbers.assign(rows_.n_features(), -1);
        std::vector<int32_t> columns;
        for (int64_t e = tree_.indptr[child]; e < tree_.indptr[child + k]; ++e)
            if (own.numbers[tree_.columns[e]] < 0) {
                own.numbers[tree_.columns[e]] = int32_t(columns.size());
                columns.push_back(tree_.columns[e]);
            }
        own.table.reserve(std::max<int64_t>(int64_t(columns.size()), 1), lanes);
        std::fill_n(own.table.column(0), own.table.size(), 0.0);
        for (int c = 0; c < k; ++c)
            for (int64_t e = tree_.indptr[child + c]; e < tree_.indptr[child + c + 1]; ++e) {
                own.table.column(own.numbers[tree_.columns[e]])[c] = tree_.values[e];
                own.table.halves[c] += tree_.values[e] * tree_.values[e];
            }
        for (double& half : own.table.halves) half = tree_.unit ? 0.0 : half / 2;
        own.begin.assign(1, 0), own.features.clear(), own.values.clear();
        std::visit(
            [&](const auto& matrix) {
                for (int64_t j = 0; j < n; ++j) {
                    const auto row = matrix.row(first + ids[j]);
                    for (int64_t e = 0; e < row.size; ++e) {
                        const int32_t number = own.numbers[row.features[e]];
                        if (number < 0 || row.values[e] == 0) continue;
                        own.features.push_back(number);
                        own.values.push_back(double(row.values[e]));
                    }
                    own.begin.push_back(int64_t(own.features.size()));
                }
            },
            rows_.matrix());
        own.scores.resize(n * lanes);
        lane_scores(NodeBlock<double>{0, n, own.begin.data(), own.features.data(), own.values.data()}, own.table,
                    own.scores.data());
        out.resize(n * k);
        for (int64_t j = 0; j < n; ++j)
            for (int c = 0; c < k; ++c) out[j * k + c] = {own.scores[j * lanes + c], child + c};
        for (int32_t column : columns) own.numbers[column] = -1;
    }

    const Rows& rows_;
    const TreeView& tree_;
    const int beam_, n_threads_;
    std::vector<Scratch> scratch_;
    std::vector<std::vector<Candidate>> beams_;
};

}  // namespace

std::vector<int32_t> route(const Rows& rows, const TreeView& tree, int beam, int n_threads) {
    const TeamScope team(n_threads);
    Router router(rows, tree, beam, n_threads);
    std::vector<int32_t> leaves(rows.n_rows());
    const int64_t chunk = std::max<int64_t>(kMostPairs / beam, 1);
    for (int64_t first = 0; first < rows.n_rows(); first += chunk) {
        const int64_t n = std::min(chunk, rows.n_rows() - first);
        rows.read_ahead(first, first + n);
        router.route_rows(first, n, leaves.data() + first);
    }
    return leaves;
}

}  // namespace sparsecluster
