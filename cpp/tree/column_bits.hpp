// Which columns occur, as bits in two levels: marking one takes no branch, and listing them in ascending order follows
// those that are marked, not the columns that there are.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace sparsecluster {

class ColumnBits {
public:
    // Room for so many columns, none of which is marked.
    void reserve(int64_t n_columns) {
        const auto n_words = size_t(n_columns / 64 + 1);
        if (words_.size() < n_words) words_.resize(n_words, 0), groups_.resize(n_words / 64 + 1, 0);
    }
    void mark(int32_t column) {
        words_[column >> 6] |= uint64_t(1) << (column & 63);
        groups_[column >> 12] |= uint64_t(1) << ((column >> 6) & 63);
    }
    // Calls work(column) for all that are marked, ascending, and unmarks them.
    template <class Work>
    void take(const Work& work) {
        each(work);
        clear();
    }
    template <class Work>
    void each(const Work& work) const {
        for (size_t g = 0; g < groups_.size(); ++g)
            for (uint64_t group = groups_[g]; group; group &= group - 1) {
                const size_t w = g * 64 + size_t(std::countr_zero(group));
                for (uint64_t word = words_[w]; word; word &= word - 1)
                    work(int32_t(w * 64 + size_t(std::countr_zero(word))));
            }
    }
    void clear() {
        for (size_t g = 0; g < groups_.size(); ++g) {
            for (uint64_t group = groups_[g]; group; group &= group - 1)
                words_[g * 64 + size_t(std::countr_zero(group))] = 0;
            groups_[g] = 0;
        }
    }

private:
    std::vector<uint64_t> words_, groups_;  // a bit per column; a bit per word
};

}  // namespace sparsecluster
