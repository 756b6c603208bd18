// Which columns occur, as bytes in two levels: marking one takes no branch and waits for no other, and listing them in
// ascending order follows those that are marked, not the columns that there are.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sparsecluster {

class ColumnMarks {
public:
    // Room for so many columns, none of which is marked.
    void reserve(int64_t n_columns) {
        const auto n_groups = size_t(n_columns / kGroup + 1);
        if (marks_.size() >= n_groups * kGroup) return;
        marks_.resize(n_groups * kGroup, 0);
        groups_.resize((n_groups + 7) / 8 * 8, 0);
    }
    void mark(int32_t column) {
        marks_[column] = 1;
        groups_[column / kGroup] = 1;
    }
    // Calls work(column) for all that are marked, ascending, and unmarks them.
    template <class Work>
    void take(const Work& work) {
        each_marked(groups_.data(), 0, int64_t(groups_.size()), [&](int64_t group) {
            each_marked(marks_.data(), group * kGroup, (group + 1) * kGroup, work);
        });
    }

private:
    static constexpr int64_t kGroup = 256;

    // Eight bytes at a time; ranges are multiples of that.
    template <class Work>
    static void each_marked(uint8_t* bytes, int64_t first, int64_t end, const Work& work) {
        static_assert(std::endian::native == std::endian::little);
        for (int64_t at = first; at < end; at += 8) {
            uint64_t word;
            std::memcpy(&word, bytes + at, 8);
            if (word == 0) continue;
            std::memset(bytes + at, 0, 8);
            for (; word; word &= word - 1) work(at + std::countr_zero(word) / 8);
        }
    }

    std::vector<uint8_t> marks_, groups_;  // a byte per column; a byte per group of columns
};

}  // namespace sparsecluster
