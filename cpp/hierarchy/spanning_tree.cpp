// Prim's algorithm: one row after the other joins the tree, and its distances to all rows outside are computed then.
#include <limits>
#include <variant>

#include "core/parallel.hpp"
#include "hierarchy/agglomerate.hpp"
#include "hierarchy/feature_lists.hpp"
#include "hierarchy/unit.hpp"

namespace sparsecluster {

TreeEdges spanning_tree(const Rows& rows, bool unit, int n_threads, const std::function<void(int64_t)>& on_row) {
    const TeamScope team(n_threads);
    const int64_t n = rows.n_rows();
    const std::vector<double> factors = row_factors(rows, unit);
    const FeatureLists lists = lists_of(rows, factors.data());
    std::vector<double> norm2(n), products(n), nearest2(n, std::numeric_limits<double>::infinity());
    for (int64_t i = 0; i < n; ++i) norm2[i] = unit ? 1.0 : factors[i] * factors[i] * rows.norm2()[i];
    std::vector<int64_t> from(n, 0), left(n);
    for (int64_t i = 0; i < n; ++i) left[i] = i;
    TreeEdges edges;
    std::visit(
        [&](const auto& view) {
            int64_t row = 0;
            while (true) {
                left.erase(std::lower_bound(left.begin(), left.end(), row));
                if (left.empty()) return;
                const auto query = view.row(row);
                const int64_t n_parts = lists.work(query) < 60'000 ? 1 : n_threads;
                parallel_blocks(n_parts, n_threads, [&](int64_t p, int) {
                    const int64_t begin = n * p / n_parts, end = n * (p + 1) / n_parts;
                    std::fill(products.begin() + begin, products.begin() + end, 0.0);
                    lists.add(Product(), query, products.data(), begin, end);
                });
                int64_t next = left.front();
                for (const int64_t i : left) {
                    const double norms = norm2[row] + norm2[i];
                    double distance2 = norms - 2 * (factors[row] * products[i]);
                    if (distance2 <= kCancelled * norms)
                        distance2 = scaled_distance2(factors[row], query, factors[i], view.row(i));
                    if (distance2 < nearest2[i]) {
                        nearest2[i] = distance2;
                        from[i] = row;
                    }
                    if (nearest2[i] < nearest2[next]) next = i;
                }
                // As exact as the nearest ones are.
                edges.from.push_back(from[next]);
                edges.to.push_back(next);
                edges.distance2.push_back(
                    scaled_distance2(factors[from[next]], view.row(from[next]), factors[next], view.row(next)));
                row = next;
                if (on_row) on_row(int64_t(edges.to.size()));
                poll_interrupt();
            }
        },
        rows.matrix());
    for (double& distance2 : edges.distance2)
        distance2 = unit ? distance2 : distance2 / rows.scale() / rows.scale();
    return edges;
}

}  // namespace sparsecluster
