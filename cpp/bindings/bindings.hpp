// What the files of the bindings share: arrays in, arrays out. Arguments are validated in Python; here only what would
// be memory-unsafe is refused. The GIL is released inside every kernel.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/gil.hpp"
#include "core/centers.hpp"
#include "core/exact_sum.hpp"
#include "core/labels.hpp"
#include "core/rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsecluster {

// One per domain, each in a file of its own.
void bind_rows(nb::module_& m);
void bind_centers(nb::module_& m);
void bind_embedding(nb::module_& m);
void bind_evaluation(nb::module_& m);
void bind_hierarchy(nb::module_& m);
void bind_kmeans(nb::module_& m);
void bind_minibatch(nb::module_& m);
void bind_neighbors(nb::module_& m);
void bind_seeding(nb::module_& m);
void bind_sizes(nb::module_& m);
void bind_text(nb::module_& m);
void bind_tree(nb::module_& m);

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using InOut = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using Weights = std::optional<In<double>>;

inline void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

template <class T>
Out<T> to_numpy(std::vector<T> values) {
    auto* owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Out<T>(owned->data(), {owned->size()}, owner);
}

// An exact sum as integers, which travel.
inline Out<int64_t> limbs_of(ExactSum sum) {
    const auto& limbs = sum.limbs();
    return to_numpy(std::vector<int64_t>(limbs.begin(), limbs.end()));
}
inline ExactSum of_limbs(const In<int64_t>& limbs) {
    require(limbs.size() == ExactSum::kLimbs, "an exact sum has another number of limbs");
    return ExactSum::of_limbs(limbs.data());
}

// Rows together with the arrays that they look into.
struct PyRows {
    // Those that passed inspection, for the kernels.
    const Rows& get() const {
        require(rows->sound(), "the rows were not inspected, or have a fault");
        return *rows;
    }

    std::unique_ptr<Rows> rows;
    std::vector<nb::ndarray<>> arrays;
    std::vector<int32_t> all_features;
};

inline const double* weights_of(const Weights& weights, int64_t n_rows) {
    if (!weights) return nullptr;
    require(int64_t(weights->size()) >= n_rows, "one weight per row is needed");
    return weights->data();
}
inline const double* weights_of(const Weights& weights, const Rows& rows) {
    return weights_of(weights, rows.n_rows());
}

inline void check_labels(const int32_t* labels, int64_t n, int64_t n_clusters, int32_t least) {
    require(labels_within(labels, n, n_clusters, least), "a label is out of range");
}

}  // namespace sparsecluster
