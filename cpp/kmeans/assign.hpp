// Assignment of rows to their nearest centers. All algorithms give the same labels; they differ in what
// they can skip, and each has a file of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/centers.hpp"
#include "core/metric.hpp"
#include "core/rows.hpp"
#include "index/center_index.hpp"

namespace sparsecluster {

struct AssignStats {
    int64_t moved = 0;      // rows whose label changed
    int64_t distances = 0;  // row-center distances computed
    const char* path = "full scan";
    int64_t skipped = 0;           // rows that were compared with no other center than their own
    int64_t center_distances = 0;  // between centers
};

struct AssignOptions {
    int n_threads = 1;
    Metric metric = Metric::euclidean;
    int64_t head_limit = int64_t(1) << 32;  // bytes of SIMD rows in the center index
};

class Assigner {
public:
    Assigner(const Rows& rows, AssignOptions options) : rows_(rows), options_(options) {}
    virtual ~Assigner() = default;

    // Puts the nearest center of each of the first `n_rows` rows into labels (in: the labels of the last call; -1
    // for rows that did not take part). They may be more than in the last call, not fewer. `shift` holds how far
    // each center moved since the last call; it may be empty on the first.
    AssignStats assign(const Centers& centers, const std::vector<double>& shift, int32_t* labels, int64_t n_rows) {
        // Later centers are means of rows, so the first ones need the most room.
        if (scale_ == 0) scale_ = common_scale(rows_, centers);
        n_rows_ = n_rows;
        return assign_rows(centers, shift, labels);
    }
    // The label of row i was changed from outside.
    virtual void forget(int64_t) {}
    // The next call may have more centers, after those that there are, with a shift above zero. Answers whether what is
    // known of the rows stays, which it does not where bounds are kept by center.
    virtual bool grow() { return false; }

protected:
    virtual AssignStats assign_rows(const Centers& centers, const std::vector<double>& shift,
                                    int32_t* labels) = 0;
    IndexLimits limits() const { return {options_.head_limit, repeated_direct_limit(rows_.nnz(n_rows_))}; }

    const Rows& rows_;
    int64_t n_rows_ = 0;  // that take part
    double scale_ = 0;    // of this assigner's index and bounds
    AssignOptions options_;
};

// An algorithm as users name it, and the bytes of state that it keeps per fit, beyond labels and centers.
struct Algorithm {
    const char* name;
    std::unique_ptr<Assigner> (*make)(const Rows& rows, AssignOptions options);
    int64_t (*bytes)(int64_t n_rows, int64_t n_centers);
};

// Each is defined in its own file.
extern const Algorithm kAdaptive, kLloyd, kElkan, kElkanRows, kHamerly, kBlockMax;
inline constexpr const Algorithm* kAlgorithms[] = {&kAdaptive,  &kLloyd,   &kElkan,
                                                &kElkanRows, &kHamerly, &kBlockMax};

inline const Algorithm& algorithm_named(const std::string& name) {
    for (const Algorithm* algorithm : kAlgorithms)
        if (algorithm->name == name) return *algorithm;
    throw std::invalid_argument("unknown algorithm " + name);
}

template <class T>
std::unique_ptr<Assigner> make_assigner(const Rows& rows, AssignOptions options) {
    return std::make_unique<T>(rows, options);
}

}  // namespace sparsecluster
