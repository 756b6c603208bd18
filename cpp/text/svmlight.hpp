// Text of numbers into arrays, on several threads: svmlight rows, and lines of two or three numbers. The text is
// looked at where it lies. Results do not depend on the number of threads, nor on where the text is cut.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sparsecluster {

inline constexpr int64_t kLargestIndex = INT32_MAX - 1;

// The first line that cannot be read.
struct TextError : std::runtime_error {
    TextError(int64_t line, int64_t offset, const std::string& reason)
        : std::runtime_error(reason), line(line), offset(offset) {}
    int64_t line;    // from 1
    int64_t offset;  // of the byte at fault
};

// An array whose pages are touched by those who fill it.
template <class T>
struct Array {
    std::unique_ptr<T[]> values;
    int64_t size = 0;

    Array() = default;
    explicit Array(int64_t n) : values(new T[size_t(n)]), size(n) {}
};

struct TextOptions {
    int n_threads = 1;
    int64_t piece_bytes = int64_t(1) << 20;  // what a thread takes at a time
    int64_t least_index = 0, largest_index = kLargestIndex;  // of the columns of svmlight rows
};

// Rows as CSR, columns ascending; labels by row likewise.
template <class V>
struct SvmlightRows {
    Array<int64_t> indptr;
    Array<int32_t> indices;
    Array<V> data;
    Array<int64_t> label_indptr;
    Array<double> label_values;
    int64_t smallest_index = -1, largest_index = -1;  // -1 without entries
};

// Lines of `label[,label...] [qid:n] index:value ... [# comment]`; lines without any of it are left out.
template <class V>
SvmlightRows<V> parse_svmlight(std::string_view text, const TextOptions& options);

template <class V>
struct NumberLines {
    Array<int64_t> first, second;
    Array<V> third;
};

// Lines of two whole numbers, and with three columns a number; without it the third are ones. Empty lines and
// those that start with % are left out.
template <class V>
NumberLines<V> parse_numbers(std::string_view text, int n_columns, const TextOptions& options);

// The number of newlines: what to add to the lines of the text behind this one.
int64_t count_lines(std::string_view text, const TextOptions& options);

}  // namespace sparsecluster
