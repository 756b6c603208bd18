// Trees: nodes split into children, rows taken down to leaves.
#include "bindings/bindings.hpp"
#include "bindings/reporter.hpp"
#include "tree/grow.hpp"
#include "tree/route.hpp"
#include "tree/split.hpp"

namespace sparsecluster {

namespace {

// What became of some nodes: children node after node.
struct SplitResult {
    std::vector<int32_t> labels, n_children, n_iter;
    std::vector<double> costs;
    std::vector<int64_t> indptr;
    std::vector<int32_t> columns;
    std::vector<double> values;
};

SplitResult joined(std::vector<Split> splits) {
    SplitResult all;
    all.indptr.push_back(0);
    for (Split& split : splits) {
        all.labels.insert(all.labels.end(), split.labels.begin(), split.labels.end());
        all.costs.insert(all.costs.end(), split.costs.begin(), split.costs.end());
        all.n_children.push_back(int32_t(split.centers.size()));
        all.n_iter.push_back(split.n_iter);
        for (Center& center : split.centers) {
            all.columns.insert(all.columns.end(), center.features.begin(), center.features.end());
            all.values.insert(all.values.end(), center.values.begin(), center.values.end());
            all.indptr.push_back(int64_t(all.columns.size()));
            center = Center();
        }
    }
    return all;
}

SplitOptions split_options(const PyRows& rows, bool unit, bool plus_plus, int n_init, int max_iter, double cost_tol,
                           double shift_tol, const Weights& weights, int n_threads) {
    require(n_init >= 1 && max_iter >= 1, "no runs or no iterations");
    return {unit, plus_plus, n_init, max_iter, cost_tol, shift_tol, weights_of(weights, rows.get()), n_threads};
}

// Each node in two, or left whole where its rows are all the same.
nb::dict py_split_nodes(const PyRows& rows, In<int32_t> order, In<int64_t> begin, In<uint64_t> seeds, bool unit,
                        bool plus_plus, int n_init, int max_iter, double cost_tol, double shift_tol, Weights weights,
                        int n_threads) {
    const size_t n_nodes = seeds.size();
    require(begin.size() == n_nodes + 1, "inconsistent nodes");
    for (size_t i = 0; i < order.size(); ++i)
        require(order.data()[i] >= 0 && order.data()[i] < rows.get().n_rows(), "no such row");
    std::vector<NodeTask> nodes(n_nodes);
    for (size_t t = 0; t < n_nodes; ++t) {
        const int64_t first = begin.data()[t], end = begin.data()[t + 1];
        require(0 <= first && first < end && end <= int64_t(order.size()), "a node has no rows");
        nodes[t] = {order.data() + first, end - first, 2, Bounding::none, {}, seeds.data()[t]};
    }
    const SplitOptions options =
        split_options(rows, unit, plus_plus, n_init, max_iter, cost_tol, shift_tol, weights, n_threads);
    SplitResult found;
    {
        const GilReleased released;
        found = joined(split_nodes(rows.get(), nodes, options));
    }
    nb::dict result;
    result["labels"] = to_numpy(std::move(found.labels));
    result["n_children"] = to_numpy(std::move(found.n_children));
    result["n_iter"] = to_numpy(std::move(found.n_iter));
    result["costs"] = to_numpy(std::move(found.costs));
    result["indptr"] = to_numpy(std::move(found.indptr));
    result["columns"] = to_numpy(std::move(found.columns));
    result["values"] = to_numpy(std::move(found.values));
    return result;
}

template <class T>
Out<T> array_of(HugeBuffer<T> buffer, size_t size) {
    auto* owned = new HugeBuffer<T>(std::move(buffer));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<HugeBuffer<T>*>(p); });
    return Out<T>(owned->get(), {size}, owner);
}

// A tree that is grown level by level; rows are kept alive by its owner.
class PyTreeGrower {
public:
    PyTreeGrower(const PyRows& rows, bool unit, bool plus_plus, int n_init, int max_iter, double cost_tol,
                 Weights weights, int n_threads)
        : rows_(rows.get()), weights_(std::move(weights)),
          grower_(rows_, split_options(rows, unit, plus_plus, n_init, max_iter, cost_tol, -1.0, weights_, n_threads)) {}
    // Nodes that are ranges of `order`; `balanced` or within bounds only where they would not be.
    nb::tuple split(In<int64_t> begin, In<int64_t> sizes, In<int64_t> n_children, In<int64_t> lower, In<int64_t> upper,
                    In<uint64_t> seeds, bool balanced, const nb::object& progress) {
        std::vector<TreeGrower::Node> nodes(begin.size());
        require(sizes.size() == nodes.size() && n_children.size() == nodes.size() && lower.size() == nodes.size() &&
                    upper.size() == nodes.size() && seeds.size() == nodes.size(),
                "inconsistent nodes");
        int64_t last = 0;
        for (size_t t = 0; t < nodes.size(); ++t) {
            const int64_t first = begin.data()[t], n = sizes.data()[t], k = n_children.data()[t];
            require(first >= last && n >= 1 && n <= rows_.n_rows() - first && k >= 1 && k <= n, "a node has no rows");
            last = first + n;
            const SizeBounds bounds{lower.data()[t], upper.data()[t]};
            require(bounds.least >= 0 && bounds.most >= 1 && k * bounds.least <= n && n <= k * bounds.most,
                    "the bounds of a node cannot be kept");
            nodes[t] = {first, n, int(k), bounds, seeds.data()[t]};
        }
        TreeGrower::Children found;
        {
            const auto on_rows = reporter<int64_t>(progress);
            const GilReleased released;
            found = grower_.split(nodes, balanced ? Bounding::always : Bounding::if_needed, on_rows);
        }
        return nb::make_tuple(to_numpy(std::move(found.n_children)), to_numpy(std::move(found.sizes)),
                              to_numpy(std::move(found.costs)), to_numpy(std::move(found.n_iter)));
    }
    // The leaf of each row, from the rows of each leaf from left to right.
    Out<int32_t> labels(In<int64_t> leaf_sizes) const {
        const std::vector<int32_t>& order = grower_.order();
        std::vector<int32_t> labels(order.size());
        auto at = order.begin();
        for (size_t leaf = 0; leaf < leaf_sizes.size(); ++leaf) {
            const int64_t n = leaf_sizes.data()[leaf];
            require(n >= 0 && n <= order.end() - at, "leaves have other rows than the tree");
            for (const auto end = at + n; at != end; ++at) labels[*at] = int32_t(leaf);
        }
        require(at == order.end(), "leaves have other rows than the tree");
        return to_numpy(std::move(labels));
    }
    double root_cost() { return grower_.root_cost(); }
    // indptr, columns and values.
    nb::tuple take_centers() {
        TreeGrower::Csr centers;
        {
            const GilReleased released;
            centers = grower_.take_centers();
        }
        const auto size = size_t(centers.indptr.back());
        return nb::make_tuple(to_numpy(std::move(centers.indptr)), array_of(std::move(centers.columns), size),
                              array_of(std::move(centers.values), size));
    }

private:
    const Rows& rows_;
    const Weights weights_;
    TreeGrower grower_;
};

Out<int32_t> py_route(const PyRows& rows, In<int32_t> first_child, In<int32_t> n_children, In<int64_t> indptr,
                      In<int32_t> columns, In<double> values, bool unit, int beam, int n_threads) {
    const auto n_nodes = int64_t(first_child.size());
    require(n_nodes >= 1 && int64_t(n_children.size()) == n_nodes && int64_t(indptr.size()) == n_nodes + 1 &&
                columns.size() == values.size() && beam >= 1,
            "inconsistent tree");
    for (int64_t node = 0; node < n_nodes; ++node) {
        const int64_t k = n_children.data()[node], first = first_child.data()[node];
        // Children come later, so that every way down ends.
        require(k >= 0 && (k == 0 || (first > node && first + k <= n_nodes)), "inconsistent tree");
        require(0 <= indptr.data()[node] && indptr.data()[node] <= indptr.data()[node + 1], "inconsistent centers");
    }
    require(indptr.data()[n_nodes] <= int64_t(columns.size()), "inconsistent centers");
    for (size_t e = 0; e < columns.size(); ++e)
        require(columns.data()[e] >= 0 && columns.data()[e] < rows.get().n_features(), "inconsistent centers");
    const TreeView tree{n_nodes,        first_child.data(), n_children.data(), indptr.data(),
                        columns.data(), values.data(),      unit};
    std::vector<int32_t> leaves;
    {
        const GilReleased released;
        leaves = route(rows.get(), tree, beam, n_threads);
    }
    return to_numpy(std::move(leaves));
}

// A row of scores per row, each the better the larger.
Out<int32_t> py_bounded_labels(nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> scores,
                               int64_t lower, int64_t upper, int n_threads) {
    const auto n = int64_t(scores.shape(0)), k = int64_t(scores.shape(1));
    require(n >= 1 && k >= 1 && k <= INT16_MAX && lower >= 0 && upper >= 1 && k * lower <= n && n <= k * upper,
            "the bounds cannot be kept");
    std::vector<int32_t> labels(n);
    {
        const GilReleased released;
        BalancedAssigner<double>().assign(scores.data(), n, int(k), int(k), {lower, upper}, labels.data(), n_threads);
    }
    return to_numpy(std::move(labels));
}

}  // namespace

void bind_tree(nb::module_& m) {
    m.def("split_nodes", &py_split_nodes, "rows"_a, "order"_a, "begin"_a, "seeds"_a, "unit"_a, "plus_plus"_a, "n_init"_a,
          "max_iter"_a, "cost_tol"_a, "shift_tol"_a, "weights"_a.none(), "n_threads"_a);
    nb::class_<PyTreeGrower>(m, "TreeGrower")
        .def(nb::init<const PyRows&, bool, bool, int, int, double, Weights, int>(), "rows"_a, "unit"_a, "plus_plus"_a,
             "n_init"_a, "max_iter"_a, "cost_tol"_a, "weights"_a.none(), "n_threads"_a, nb::keep_alive<1, 2>())
        .def("split", &PyTreeGrower::split, "begin"_a, "sizes"_a, "n_children"_a, "lower"_a, "upper"_a, "seeds"_a,
             "balanced"_a, "progress"_a.none() = nb::none())
        .def("labels", &PyTreeGrower::labels, "leaf_sizes"_a)
        .def_prop_ro("root_cost", &PyTreeGrower::root_cost)
        .def("take_centers", &PyTreeGrower::take_centers);
    m.def("bounded_labels", &py_bounded_labels, "scores"_a, "lower"_a, "upper"_a, "n_threads"_a);
    m.def("route", &py_route, "rows"_a, "first_child"_a, "n_children"_a, "indptr"_a, "columns"_a, "values"_a,
          "unit"_a, "beam"_a, "n_threads"_a);
}

}  // namespace sparsecluster
