// The algorithms by name.
#include "kmeans/assign.hpp"

#include <stdexcept>

namespace sparsecluster {

namespace {

struct Algorithm {
    const char* name;
    std::unique_ptr<Assigner> (*make)(const Rows&, AssignOptions);
    int64_t (*bytes)(int64_t n_rows, int64_t n_centers);
};

constexpr Algorithm kAlgorithms[] = {
    {"lloyd", make_lloyd, [](int64_t, int64_t) { return int64_t(0); }},
    {"auto", make_adaptive, [](int64_t n_rows, int64_t) { return 12 * n_rows; }},
    {"hamerly", make_hamerly, [](int64_t n_rows, int64_t) { return 8 * n_rows; }},
    {"elkan", make_elkan, elkan_bytes},
    {"elkan-rows", make_elkan_rows, elkan_rows_bytes},
};

const Algorithm& algorithm_named(const std::string& name) {
    for (const Algorithm& algorithm : kAlgorithms)
        if (algorithm.name == name) return algorithm;
    throw std::invalid_argument("unknown algorithm " + name);
}

}  // namespace

std::vector<std::string> algorithm_names() {
    std::vector<std::string> names;
    for (const Algorithm& algorithm : kAlgorithms) names.push_back(algorithm.name);
    return names;
}

std::unique_ptr<Assigner> make_assigner(const std::string& name, const Rows& rows, AssignOptions options) {
    return algorithm_named(name).make(rows, options);
}

int64_t assigner_bytes(const std::string& name, int64_t n_rows, int64_t n_centers) {
    return algorithm_named(name).bytes(n_rows, n_centers);
}

}  // namespace sparsecluster
