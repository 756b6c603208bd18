// Coverage-guided fuzzing of the text parsers (make fuzz): whatever the bytes are, a parser either refuses them or
// comes to the same arrays however the text is cut; and what it takes for a number has the bits of strtod.
// The first byte of an input chooses the parser and the cut, the rest is the text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "text/decimal.hpp"
#include "text/svmlight.hpp"

using namespace sparsecluster;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

template <class T>
bool same(const Array<T>& a, const Array<T>& b) {
    return a.size == b.size && (a.size == 0 || std::memcmp(a.values.get(), b.values.get(), a.size * sizeof(T)) == 0);
}

template <class V>
bool same(const SvmlightRows<V>& a, const SvmlightRows<V>& b) {
    return same(a.indptr, b.indptr) && same(a.indices, b.indices) && same(a.data, b.data) &&
           same(a.label_indptr, b.label_indptr) && same(a.label_values, b.label_values) &&
           a.smallest_index == b.smallest_index && a.largest_index == b.largest_index;
}

template <class V>
bool same(const NumberLines<V>& a, const NumberLines<V>& b) {
    return same(a.first, b.first) && same(a.second, b.second) && same(a.third, b.third);
}

// What a parser gave, or what it found wrong.
template <class Result>
struct Outcome {
    Result result{};
    std::string reason;
    int64_t line = 0, offset = 0;
};

template <class Parse>
auto outcome(const Parse& parse) {
    Outcome<decltype(parse())> out;
    try {
        out.result = parse();
    } catch (const TextError& error) {
        out.reason = error.what();
        out.line = error.line;
        out.offset = error.offset;
        require(!out.reason.empty() && out.line >= 1, "a fault has a line and a reason");
    }
    return out;
}

template <class V>
void check_rows(const SvmlightRows<V>& rows) {
    const int64_t n_rows = rows.indptr.size - 1;
    require(rows.label_indptr.size == n_rows + 1, "as many pointers to labels as to entries");
    require(rows.indptr.values[n_rows] == rows.indices.size && rows.indices.size == rows.data.size,
            "the last row ends with the entries");
    require(rows.label_indptr.values[n_rows] == rows.label_values.size, "the last row ends with the labels");
    for (int64_t i = 0; i < n_rows; ++i) {
        require(rows.indptr.values[i] <= rows.indptr.values[i + 1], "pointers ascend");
        for (int64_t e = rows.indptr.values[i] + 1; e < rows.indptr.values[i + 1]; ++e)
            require(rows.indices.values[e - 1] < rows.indices.values[e], "columns ascend");
    }
    for (int64_t e = 0; e < rows.data.size; ++e)
        require(rows.indices.values[e] >= 0 && rows.data.values[e] - rows.data.values[e] == 0,
                "entries are finite, and columns not negative");
}

template <class V>
void fuzz_svmlight(std::string_view text, int64_t piece_bytes, int n_threads) {
    const auto whole = outcome([&] { return parse_svmlight<V>(text, {1, int64_t(1) << 20}); });
    const auto pieces = outcome([&] { return parse_svmlight<V>(text, {n_threads, piece_bytes}); });
    require(whole.reason == pieces.reason && whole.line == pieces.line && whole.offset == pieces.offset,
            "the same fault however it is cut");
    if (!whole.reason.empty()) return;
    require(same(whole.result, pieces.result), "the same rows however it is cut");
    check_rows(whole.result);
}

template <class V>
void fuzz_numbers(std::string_view text, int n_columns, int64_t piece_bytes, int n_threads) {
    const auto whole = outcome([&] { return parse_numbers<V>(text, n_columns, {1, int64_t(1) << 20}); });
    const auto pieces = outcome([&] { return parse_numbers<V>(text, n_columns, {n_threads, piece_bytes}); });
    require(whole.reason == pieces.reason && whole.line == pieces.line && whole.offset == pieces.offset,
            "the same fault however it is cut");
    if (whole.reason.empty()) require(same(whole.result, pieces.result), "the same numbers however it is cut");
}

double by_library(const char* p, char** end, double) { return std::strtod(p, end); }
float by_library(const char* p, char** end, float) { return std::strtof(p, end); }

// The head of the text as a number; read with much text behind it, and with none.
template <class V>
void fuzz_number(std::string_view text) {
    const std::string padded = std::string(text) + std::string(40, ' ');
    for (const size_t length : {padded.size(), text.size()}) {
        const char* p = padded.data();
        V value{};
        const Scan scan = scan_number(p, padded.data() + length, value);
        char* end;
        const V expected = by_library(padded.data(), &end, V());
        // strtod takes what follows 0x for a number too; here it is what no number may be followed by.
        if (scan == Scan::malformed || *p == 'x' || *p == 'X') continue;
        require(end == p, "the number ends where strtod ends it");
        const bool finite = expected - expected == 0;
        require(finite == (scan == Scan::ok), "too large where strtod gives infinity");
        if (finite) require(std::memcmp(&value, &expected, sizeof(V)) == 0, "the bits of strtod");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const int choice = data[0] % 8;
    const int64_t piece_bytes = 1 + (data[0] / 8) % 16;
    const int n_threads = data[0] >= 128 && size < 256 ? 2 : 1;
    // A copy of its own, so that the sanitizer sees a read before or behind it.
    const std::unique_ptr<char[]> copy(new char[size - 1]);
    std::memcpy(copy.get(), data + 1, size - 1);
    const std::string_view text(copy.get(), size - 1);
    switch (choice) {
        case 0: case 1: fuzz_svmlight<float>(text, piece_bytes, n_threads); break;
        case 2: case 3: fuzz_svmlight<double>(text, piece_bytes, n_threads); break;
        case 4: fuzz_numbers<float>(text, 2, piece_bytes, n_threads); break;
        case 5: fuzz_numbers<double>(text, 3, piece_bytes, n_threads); break;
        case 6: fuzz_number<float>(text); break;
        case 7: fuzz_number<double>(text); break;
    }
    return 0;
}
