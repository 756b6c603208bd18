// Ids grouped by a small number: a counting sort that keeps the order within a group.
#pragma once

#include <cstdint>
#include <vector>

namespace sparsecluster {

struct Groups {
    std::vector<int64_t> begin;  // per group, into ids; one more than there are groups
    std::vector<int64_t> ids;
};

// visit(note) calls note(group, id) for every id, twice in the same order.
template <class Visit>
Groups group_ids(int64_t n_groups, const Visit& visit) {
    Groups groups;
    groups.begin.assign(n_groups + 1, 0);
    visit([&](int64_t group, int64_t) { ++groups.begin[group + 1]; });
    for (int64_t k = 0; k < n_groups; ++k) groups.begin[k + 1] += groups.begin[k];
    groups.ids.resize(groups.begin.back());
    std::vector<int64_t> at(groups.begin.begin(), groups.begin.end() - 1);
    visit([&](int64_t group, int64_t id) { groups.ids[at[group]++] = id; });
    return groups;
}

}  // namespace sparsecluster
