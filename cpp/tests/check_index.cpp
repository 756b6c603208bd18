// The center index in one memory, over and over: with few and many centers, a row for every feature or not, floats or 16-bit
// numbers. Scores are off by no more than they say, and nothing of an earlier index is left.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "index/scan.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

namespace {

Centers some_centers(std::mt19937& random, int64_t n, int64_t n_features, bool negative) {
    std::uniform_real_distribution<double> uniform(0, 1);
    Centers centers;
    centers.n_features = n_features;
    for (int64_t k = 0; k < n; ++k) {
        std::vector<double> point(n_features, 0.0);
        const double density = k % 3 == 0 ? 0.02 : 0.4;
        for (double& value : point)
            if (uniform(random) < density) value = uniform(random) * std::pow(10, -4 * uniform(random)) - (negative ? 0.3 : 0);
        centers.items.push_back(center_at(point.data(), n_features));
    }
    return centers;
}

double score_of(const Table& table, int64_t i, const Center& center) {
    double score = -0.5 * center.norm2;
    for (int64_t e = 0; e < center.size(); ++e) score += table.row(i)[center.features[e]] * center.values[e];
    return score;
}

template <class V, class I>
void check_indexes(const Table& table, bool negative, const char* level) {
    std::mt19937 random(5);
    const Sample<V, I> sample(table, true);
    Rows rows = sample.rows();
    rows.inspect(1);
    std::vector<int64_t> listed;
    for (int64_t i = 0; i < table.n_rows; i += 1 + int64_t(random() % 3)) listed.push_back(i);
    std::vector<ScanScratch> scratches;
    CenterIndex index;
    bool was_direct = false, was_quantized = false;
    for (int turn = 0; turn < 40; ++turn) {
        const Centers centers = some_centers(random, 150, table.n_features, negative);
        std::vector<int32_t> ids;
        constexpr int kSizes[] = {1, 3, 4, 5, 8, 9, 16, 17, 31, 60, 100, 127, 128, 129, 150};
        for (int32_t k = 0; k < 150; ++k) ids.push_back(k);
        std::shuffle(ids.begin(), ids.end(), random);
        ids.resize(kSizes[random() % std::size(kSizes)]);
        std::sort(ids.begin(), ids.end());
        const bool direct = random() % 4 > 0, quantized = random() % 2 > 0;
        const double scale = common_scale(rows, centers);
        index.build(centers, ids, scale, {int64_t(1) << 32, direct ? int64_t(1) << 30 : 0, quantized}, 2);
        context = std::string("index at ") + level + ", turn " + std::to_string(turn) + ", " + std::to_string(ids.size()) +
                  " centers" + (quantized ? ", quantized" : "");
        check(index.direct == (direct && ids.size() <= 128), "a row for every feature where it should not be");
        check((index.step > 0) == (index.direct && quantized && !negative), "16-bit numbers where they should not be");
        was_direct |= index.direct;
        was_quantized |= index.step > 0;
        bool bounded = true, best = true;
        const bool all = random() % 2 > 0;
        scan(rows, index, all ? nullptr : listed.data(), all ? table.n_rows : int64_t(listed.size()), 1, scratches,
             [&](const Scanned& scanned, const auto&, int) {
                 double most = -INFINITY;
                 for (size_t c = 0; c < ids.size(); ++c) {
                     const double score = score_of(table, scanned.row, centers.items[ids[c]]) * scale * scale;
                     bounded &= std::abs(score - double(scanned.scores[c])) <= scanned.error;
                     most = std::max(most, double(scanned.scores[c]));
                 }
                 best &= most == double(scanned.top.best) && scanned.scores[scanned.top.index] == scanned.top.best;
             });
        check(bounded, "a score is off by more than its error");
        check(best, "the best score is not the largest");
    }
    check(was_direct && was_quantized != negative, "not all kinds of indexes were made");
}

// Steps that are so small that products with them lose digits as floats.
void check_steps(const char* level) {
    context = std::string("steps at ") + level;
    const std::vector<int32_t> ids{0};
    for (const double size : {1e-300, 1e-30, 1e-20, 1e-12, 1.0, 1e12, 1e20, 1e30}) {
        Centers centers;
        centers.n_features = 2;
        const double point[] = {size, 0.5 * size};
        centers.items.push_back(center_at(point, 2));
        const double step = quantization_step(centers, ids, 1.0, 1);
        check((step > 0) == (size > 1e-13 && size < 1e22), "16-bit numbers for centers that are too small or too large");
        check(step == 0 || std::abs(step * 65535 - size) <= 1e-12 * size, "a step of another size");
    }
}

}  // namespace

void check_index(const char* level) {
    Table table = make_table({"index", 90, 700, 1, 0.15});
    check_indexes<float, int32_t>(table, true, level);
    for (double& value : table.values) value = std::abs(value);
    check_indexes<float, int32_t>(table, false, level);
    check_indexes<double, int32_t>(table, false, level);
    check_indexes<float, int64_t>(table, false, level);
    check_steps(level);
}

}  // namespace sparsecluster
