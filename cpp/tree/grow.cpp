#include "tree/grow.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <variant>

#include "core/parallel.hpp"
#include "core/scaling.hpp"
#include "tree/node_rows.hpp"

namespace sparsecluster {

namespace {

constexpr int64_t kEntriesPerColumn = 8, kMostParts = 8;  // of the sum of all rows
constexpr int64_t kFewEntries = int64_t(1) << 17;          // that are copied sooner than a thread starts

// Puts the rows of each child together; answers how many each has.
std::vector<int64_t> group_by_child(int32_t* rows, const std::vector<int32_t>& labels, size_t n_children) {
    std::vector<int64_t> ends(n_children, 0), sizes;
    for (int32_t label : labels) ++ends[label];
    sizes = ends;
    std::exclusive_scan(sizes.begin(), sizes.end(), ends.begin(), int64_t(0));
    const std::vector<int32_t> before(rows, rows + labels.size());
    for (size_t i = 0; i < labels.size(); ++i) rows[ends[labels[i]]++] = before[i];
    return sizes;
}

}  // namespace

TreeGrower::TreeGrower(const Rows& rows, const SplitOptions& options)
    : rows_(rows), options_(options), splitter_(rows, options), order_(rows.n_rows()) {
    std::iota(order_.begin(), order_.end(), 0);
}

// The sums of all rows, in parts that the matrix alone decides.
std::vector<double> TreeGrower::sum_rows() const {
    const int64_t n = rows_.n_rows(), n_features = rows_.n_features();
    const double* const weights = options_.weights;
    std::vector<double> total;
    std::visit(
        [&](const auto& matrix) {
            // By what the matrix holds, not by how: zeros that are stored do not count.
            int64_t n_entries = 0;
            for (int64_t i = 0; i < n; ++i) n_entries += n_nonzero(matrix.row(i));
            const int64_t n_parts = std::clamp<int64_t>(n_entries / (kEntriesPerColumn * n_features + 1), 1, kMostParts);
            std::vector<std::vector<double>> parts(n_parts);
            parallel_blocks(n_parts, options_.n_threads, [&](int64_t part, int) {
                std::vector<double>& sums = parts[part];
                sums.assign(n_features, 0.0);
                for (int64_t i = n * part / n_parts; i < n * (part + 1) / n_parts; ++i) {
                    const auto row = matrix.row(i);
                    const double one = weights ? weights[i] : 1.0;
                    for (int64_t e = 0; e < row.size; ++e) sums[row.features[e]] += one * double(row.values[e]);
                }
            });
            total = std::move(parts[0]);
            for (int64_t part = 1; part < n_parts; ++part)
                for (int64_t f = 0; f < n_features; ++f) total[f] += parts[part][f];
        },
        rows_.matrix());
    return total;
}

// The center of all rows, and their cost.
void TreeGrower::set_root(const std::vector<double>& total) {
    const double* const weights = options_.weights;
    double weight = 0, norms = 0, norm2 = 0;
    for (int64_t i = 0; i < rows_.n_rows(); ++i) {
        const double one = weights ? weights[i] : 1.0;
        weight += one, norms += one * rows_.norm2()[i];
    }
    // Squares of weights may be too large, or too small.
    const double scale = leading_power(weight);
    for (double one : total) norm2 += (one / scale) * (one / scale);
    const double length = std::sqrt(norm2) * scale, divisor = options_.unit ? length : weight;
    Center root;
    for (int64_t f = 0; f < rows_.n_features(); ++f)
        if (total[f] != 0)
            root.features.push_back(int32_t(f)), root.values.push_back(divisor > 0 ? total[f] / divisor : total[f]);
    centers_.push_back(std::move(root));
    const double kept = options_.unit ? 2 * length - weight : divisor > 0 ? norm2 / (divisor / scale) * scale : 0.0;
    root_cost_ = std::max(norms - kept, 0.0);
}

void TreeGrower::need_root() {
    if (centers_.empty()) set_root(sum_rows());
}

TreeGrower::Children TreeGrower::split(const std::vector<Node>& nodes, Bounding bounding,
                                       const std::function<void(int64_t)>& on_rows) {
    const TeamScope team(options_.n_threads);
    // Who splits the root sums up all rows in any case.
    const bool root = centers_.empty() && nodes.size() == 1 && nodes[0].n_rows == rows_.n_rows();
    if (!root) need_root();
    std::vector<NodeTask> tasks;
    for (const Node& node : nodes)
        tasks.push_back(
            {order_.data() + node.first, node.n_rows, node.n_children, bounding, node.bounds, node.seed, root});
    std::vector<Split> splits(nodes.size());
    std::vector<std::vector<int64_t>> sizes(nodes.size());
    splitter_.on_rows = on_rows;
    splitter_.split(tasks, [&](int64_t node, Split split) {
        sizes[node] = group_by_child(order_.data() + nodes[node].first, split.labels, split.centers.size());
        split.labels = {};
        splits[node] = std::move(split);
    });
    if (root) set_root(splits[0].total);
    Children all;
    for (size_t t = 0; t < nodes.size(); ++t) {
        all.n_children.push_back(int32_t(splits[t].centers.size()));
        all.n_iter.push_back(splits[t].n_iter);
        all.sizes.insert(all.sizes.end(), sizes[t].begin(), sizes[t].end());
        all.costs.insert(all.costs.end(), splits[t].costs.begin(), splits[t].costs.end());
        std::move(splits[t].centers.begin(), splits[t].centers.end(), std::back_inserter(centers_));
    }
    return all;
}

double TreeGrower::root_cost() {
    need_root();
    return root_cost_;
}

TreeGrower::Csr TreeGrower::take_centers() {
    need_root();
    Csr all;
    all.indptr.assign(1, 0);
    for (const Center& center : centers_) all.indptr.push_back(all.indptr.back() + center.size());
    all.columns.reserve(all.indptr.back()), all.values.reserve(all.indptr.back());
    const int n_threads = all.indptr.back() < kFewEntries ? 1 : options_.n_threads;
    parallel_blocks(int64_t(centers_.size()), n_threads, [&](int64_t c, int) {
        std::copy(centers_[c].features.begin(), centers_[c].features.end(), all.columns.get() + all.indptr[c]);
        std::copy(centers_[c].values.begin(), centers_[c].values.end(), all.values.get() + all.indptr[c]);
        centers_[c] = Center();
    });
    return all;
}

}  // namespace sparsecluster
