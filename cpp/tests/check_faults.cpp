// Broken rows are found before anything reads past an array.
#include <cmath>
#include <string>
#include <vector>

#include "core/rows.hpp"
#include "tests/check.hpp"

namespace sparsecluster {

void check_faults() {
    const double nan = std::nan("");
    struct Case {
        const char* name;
        Fault fault;
        int64_t row;
        std::vector<int64_t> indptr;
        std::vector<int32_t> features;
        std::vector<double> values;
    };
    const Case cases[] = {
        {"good", Fault::none, -1, {0, 2, 2, 3}, {0, 2, 1}, {1, 2, 3}},
        {"indptr starts late", Fault::indptr, 0, {1, 2, 2, 3}, {0, 2, 1}, {1, 2, 3}},
        {"indptr decreases", Fault::indptr, 1, {0, 2, 1, 3}, {0, 2, 1}, {1, 2, 3}},
        {"indptr leaps out", Fault::indptr, 1, {0, 1 << 30, 2, 3}, {0, 2, 1}, {1, 2, 3}},
        {"feature too large", Fault::feature_range, 2, {0, 2, 2, 3}, {0, 2, 3}, {1, 2, 3}},
        {"feature negative", Fault::feature_range, 0, {0, 2, 2, 3}, {-1, 2, 1}, {1, 2, 3}},
        {"unsorted", Fault::unsorted, 0, {0, 2, 2, 3}, {2, 0, 1}, {1, 2, 3}},
        {"duplicate", Fault::unsorted, 0, {0, 2, 2, 3}, {2, 2, 1}, {1, 2, 3}},
        {"unsorted and out of range", Fault::feature_range, 2, {0, 2, 2, 3}, {2, 0, 9}, {1, 2, 3}},
        {"NaN", Fault::not_finite, 2, {0, 2, 2, 3}, {0, 2, 1}, {1, 2, nan}},
        {"infinity", Fault::not_finite, 0, {0, 2, 2, 3}, {0, 2, 1}, {1, INFINITY, 3}},
        {"too large", Fault::overflow, 0, {0, 2, 2, 3}, {0, 2, 1}, {1, 1e200, 3}},
    };
    for (const Case& c : cases) {
        context = std::string("faults, ") + c.name;
        Rows rows(Matrix<double, int32_t>{3, 3, c.indptr.data(), c.features.data(), c.values.data()});
        const Finding finding = rows.inspect(2);
        check(finding.fault == c.fault && finding.row == c.row, "the fault is not found, or elsewhere");
    }
}

}  // namespace sparsecluster
