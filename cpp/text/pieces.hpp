// Text that several threads parse: it is cut into pieces of whole lines, what each may hold is counted, and so every
// piece can write to its place in arrays that all share. For the files that parse text.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clones.hpp"
#include "core/parallel.hpp"
#include "text/decimal.hpp"
#include "text/svmlight.hpp"

namespace sparsecluster {
namespace {

// --- lines at fault -----------------------------------------------------------------------------

// Thrown from within a piece, which knows neither the line nor the offset.
struct LineFault {
    const char* at;
    std::string reason;
};

// The word at p for a message: short, and printable whatever it holds.
std::string quoted(const char* p, const char* end) {
    constexpr int kShown = 30;
    std::string shown = "'";
    for (int n = 0; !ends_word(peek(p, end)); ++p, ++n) {
        if (n == kShown) return shown + "...'";
        const auto byte = uint8_t(*p);
        if (byte >= 0x20 && byte < 0x7F) {
            shown += *p;
        } else {
            constexpr char kHex[] = "0123456789abcdef";
            shown += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
        }
    }
    return shown + "'";
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse(const char* what, const char* word, const char* end,
                                                   const char* why) {
    throw LineFault{word, what + quoted(word, end) + why};
}

template <class V>
constexpr const char* too_large() {
    return sizeof(V) == 4 ? " is too large for float32" : " is too large for float64";
}

// Words that float() takes for numbers but no matrix should hold.
bool not_finite(const char* p, const char* end) {
    char c = peek(p, end);
    if (c == '+' || c == '-') c = peek(++p, end);
    return c == 'n' || c == 'N' || c == 'i' || c == 'I';
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_number(const char* what, const char* word, const char* end,
                                                          const char* large) {
    if (large) refuse(what, word, end, large);
    refuse(what, word, end, not_finite(word, end) ? " is not a finite number" : " is not a number");
}

// --- pieces -------------------------------------------------------------------------------------

struct Counts {
    int64_t newlines = 0, colons = 0, commas = 0;
};

// How often the three occur. Sums of a byte a lane, emptied before they overflow, become vector code.
FOR_EACH_PROCESSOR
Counts count_marks(const char* p, int64_t n) {
    Counts counts;
    constexpr int64_t kLanes = 64, kRounds = 255;
    while (n >= kLanes) {
        uint8_t newlines[kLanes] = {}, colons[kLanes] = {}, commas[kLanes] = {};
        const int64_t rounds = std::min(n / kLanes, kRounds);
        for (int64_t round = 0; round < rounds; ++round, p += kLanes) {
            for (int64_t lane = 0; lane < kLanes; ++lane) {
                newlines[lane] += p[lane] == '\n';
                colons[lane] += p[lane] == ':';
                commas[lane] += p[lane] == ',';
            }
        }
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            counts.newlines += newlines[lane];
            counts.colons += colons[lane];
            counts.commas += commas[lane];
        }
        n -= rounds * kLanes;
    }
    for (; n > 0; --n, ++p) {
        counts.newlines += *p == '\n';
        counts.colons += *p == ':';
        counts.commas += *p == ',';
    }
    return counts;
}

// Some whole lines, and how many rows, entries and labels they have: at most, until they are parsed.
struct Piece {
    const char *begin, *end;
    Counts counts{};
    int64_t n_rows = 0, n_entries = 0, n_labels = 0;
    int64_t row = 0, entry = 0, label = 0;  // where theirs are written
    int64_t smallest = kLargestIndex, largest = -1;
    std::optional<LineFault> fault{};
};

// Cuts after newlines, in one sweep: a line is looked at once, however long it is.
std::vector<Piece> cut(std::string_view text, int64_t piece_bytes) {
    piece_bytes = std::max<int64_t>(piece_bytes, 1);
    std::vector<Piece> pieces;
    const char* begin = text.data();
    const char* const end = begin + text.size();
    while (begin < end) {
        const char* stop = end;
        if (end - begin > piece_bytes) {
            const char* const from = begin + piece_bytes - 1;
            if (const void* newline = std::memchr(from, '\n', size_t(end - from)))
                stop = static_cast<const char*>(newline) + 1;
        }
        pieces.push_back({begin, stop});
        begin = stop;
    }
    return pieces;
}

// Counts what the pieces may hold, and gives each its places. A row takes `row_bytes` at least, with its newline.
void plan(std::vector<Piece>& pieces, int n_threads, int64_t row_bytes) {
    parallel_blocks(int64_t(pieces.size()), n_threads, [&](int64_t p, int) {
        Piece& piece = pieces[p];
        const int64_t n_bytes = piece.end - piece.begin;
        piece.counts = count_marks(piece.begin, n_bytes);
        // The last line may lack its newline. An entry takes four bytes with what follows it, a label two.
        const int64_t n_lines = piece.counts.newlines + 1;
        piece.n_rows = std::min(n_lines - (piece.end[-1] == '\n'), (n_bytes + 1) / row_bytes);
        piece.n_entries = std::min(piece.counts.colons, (n_bytes + 1) / 4);
        piece.n_labels = std::min(piece.n_rows + piece.counts.commas, (n_bytes + 1) / 2);
    });
    for (size_t p = 1; p < pieces.size(); ++p) {
        const Piece& before = pieces[p - 1];
        pieces[p].row = before.row + before.n_rows;
        pieces[p].entry = before.entry + before.n_entries;
        pieces[p].label = before.label + before.n_labels;
    }
}

// Calls parse(piece) for all pieces. The first line at fault is thrown, whoever came upon one first.
template <class Parse>
void parse_pieces(std::string_view text, std::vector<Piece>& pieces, int n_threads, const Parse& parse) {
    std::atomic<int64_t> first_fault{INT64_MAX};
    parallel_blocks(int64_t(pieces.size()), n_threads, [&](int64_t p, int) {
        if (p > first_fault.load()) return;
        try {
            parse(pieces[p]);
        } catch (LineFault& fault) {
            pieces[p].fault = std::move(fault);
            int64_t known = first_fault.load();
            while (p < known && !first_fault.compare_exchange_weak(known, p)) {}
        }
    });
    if (first_fault == INT64_MAX) return;
    const Piece& piece = pieces[first_fault];
    const char* const at = piece.fault->at;
    int64_t line = 1 + std::count(piece.begin, at, '\n');
    for (int64_t p = 0; p < first_fault; ++p) line += pieces[p].counts.newlines;
    throw TextError(line, at - text.data(), piece.fault->reason);
}

// Moves what the pieces wrote together, where one wrote less than it might have.
template <class T>
void close_gaps(Array<T>& array, const std::vector<Piece>& pieces, int64_t Piece::* place,
                int64_t Piece::* number) {
    int64_t end = 0;
    for (const Piece& piece : pieces) {
        if (piece.*place != end)
            std::memmove(&array.values[end], &array.values[piece.*place], size_t(piece.*number) * sizeof(T));
        end += piece.*number;
    }
    array.size = end;
}

// The same for pointers that start with a zero and count items, whose gaps are closed too.
void close_pointer_gaps(Array<int64_t>& pointers, const std::vector<Piece>& pieces, int64_t Piece::* item,
                        int64_t Piece::* n_items) {
    int64_t row = 0, items = 0;
    pointers.values[0] = 0;
    for (const Piece& piece : pieces) {
        const int64_t shift = piece.*item - items;
        if (piece.row != row || shift != 0)
            for (int64_t i = 1; i <= piece.n_rows; ++i)
                pointers.values[row + i] = pointers.values[piece.row + i] - shift;
        row += piece.n_rows;
        items += piece.*n_items;
    }
    pointers.size = row + 1;
}

}  // namespace
}  // namespace sparsecluster
