// Rows that are nearly as far from several centers, to within the window in which differences count as ties, while
// single centers come and go: what algorithms remember of earlier passes must not decide differently from a look at
// all centers.
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "tests/check.hpp"

namespace sparsecluster {

namespace {

// Integer rows, and centers at some of them. Each pass moves a few centers towards rows: some by the last digits only.
void check_case(unsigned seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
    const int64_t n_rows = 150, n_features = 2 + below(5), n_centers = 12 + below(30);
    Table table{n_rows, n_features, {}};
    // Without negative values centers may be 16-bit numbers.
    for (int64_t i = 0; i < n_rows * n_features; ++i)
        table.values.push_back(double(below(4) - (seed % 2 ? below(2) : 0)));
    const Sample<float, int32_t> sample(table, true);
    Rows rows = sample.rows();
    rows.inspect(1);

    std::vector<std::vector<double>> points;
    for (int64_t k = 0; k < n_centers; ++k) {
        const double* const row = table.row(below(n_rows));
        points.emplace_back(row, row + n_features);
    }
    std::vector<std::unique_ptr<Assigner>> assigners;
    for (const Algorithm* algorithm : kAlgorithms) assigners.push_back(algorithm->make(rows, {2}));
    std::vector<std::vector<int32_t>> labels(assigners.size(), std::vector<int32_t>(n_rows, -1));
    std::vector<double> shift(n_centers, 0.0);
    for (int pass = 0; pass < 20; ++pass) {
        Centers centers;
        centers.n_features = n_features;
        for (const auto& point : points) centers.items.push_back(center_at(point.data(), n_features));
        std::vector<int32_t> all(n_rows, -1);
        kLloyd.make(rows, {1})->assign(centers, {}, all.data(), n_rows);
        for (size_t a = 0; a < assigners.size(); ++a) {
            context = "ties " + std::to_string(seed) + ", " + kAlgorithms[a]->name + ", pass " + std::to_string(pass);
            assigners[a]->assign(centers, shift, labels[a].data(), n_rows);
            check(labels[a] == all, "labels depend on earlier passes");
        }
        shift.assign(n_centers, 0.0);
        for (int64_t m = below(4); m >= 0; --m) {
            const int64_t k = below(n_centers);
            const double* const row = table.row(below(n_rows));
            const double share = below(4) == 0 ? 0.5 : std::pow(10.0, -double(9 + below(7)));
            double moved2 = 0;
            for (int64_t f = 0; f < n_features; ++f) {
                const double to = points[k][f] + (row[f] - points[k][f]) * share;
                moved2 += (to - points[k][f]) * (to - points[k][f]);
                points[k][f] = to;
            }
            shift[k] += std::sqrt(moved2);
        }
    }
}

}  // namespace

void check_ties() {
    for (unsigned seed = 0; seed < 300; ++seed) check_case(seed);
}

}  // namespace sparsecluster
