#include "text/svmlight.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "text/decimal.hpp"
#include "text/pieces.hpp"

namespace sparsecluster {
namespace {

// --- svmlight -----------------------------------------------------------------------------------

// Reads the lines of a piece and writes into its places. Limits are checked at each write: the text may lie in
// a file that somebody changes meanwhile.
template <class V>
class SvmlightReader {
public:
    SvmlightReader(SvmlightRows<V>& out, Piece& piece, const TextOptions& options)
        : out_(out), piece_(piece), options_(options), p_(piece.begin), end_(piece.end) {}

    void read() {
        int64_t n_rows = 0;
        while (p_ < end_) {
            skip_blanks();
            if (!at_line_end()) {
                if (n_rows == piece_.n_rows) changed();
                labels();
                query();
                entries();
                ++n_rows;
                out_.indptr.values[piece_.row + n_rows] = piece_.entry + n_entries_;
                out_.label_indptr.values[piece_.row + n_rows] = piece_.label + n_labels_;
            }
            if (peek(p_, end_) == '#') {
                const void* newline = std::memchr(p_, '\n', size_t(end_ - p_));
                p_ = newline ? static_cast<const char*>(newline) : end_;
            }
            ++p_;
        }
        piece_.n_rows = n_rows;
        piece_.n_entries = n_entries_;
        piece_.n_labels = n_labels_;
    }

private:
    void skip_blanks() {
        while (is_blank(peek(p_, end_))) ++p_;
    }
    bool at_line_end() const { return peek(p_, end_) == '\n' || *p_ == '#'; }
    [[noreturn]] void changed() const { throw LineFault{p_, "the text changed while it was read"}; }

    // The first word, unless it has a colon: then the row has no labels.
    void labels() {
        const char* word_end = p_;
        for (; !ends_word(peek(word_end, end_)); ++word_end)
            if (*word_end == ':') return;
        for (;; ++p_) {
            const char* const word = p_;
            double value;
            const Scan scan = scan_number(p_, word_end, value);
            const bool ended = p_ == word_end || *p_ == ',';
            if (scan != Scan::ok || !ended)
                refuse_number("the label ", word, word_end, scan == Scan::too_large ? too_large<double>() : nullptr);
            if (n_labels_ == piece_.n_labels) changed();
            out_.label_values.values[piece_.label + n_labels_++] = value;
            if (p_ == word_end) return;
        }
    }

    void query() {
        skip_blanks();
        if (end_ - p_ < 4 || std::memcmp(p_, "qid:", 4) != 0) return;
        const char* const word = p_;
        p_ += 4;
        int64_t number = 0;
        if (scan_integer(p_, end_, number) != Scan::ok || !ends_word(peek(p_, end_)))
            refuse("", word, end_, " is not a query: a whole number is expected");
    }

    void entries() {
        int32_t* const indices = out_.indices.values.get() + piece_.entry;
        V* const data = out_.data.values.get() + piece_.entry;
        const int64_t begin = n_entries_;
        int64_t previous = -1, n = begin;
        bool ascending = true;
        for (;;) {
            skip_blanks();
            if (at_line_end()) break;
            const char* const word = p_;
            int64_t index = 0;
            const Scan scan = scan_count(p_, end_, kLargestIndex, index);
            if (scan != Scan::ok || peek(p_, end_) != ':') refuse_index(word, scan);
            ++p_;
            const char* const number = p_;
            V value;
            const Scan found = scan_number(p_, end_, value);
            if (found != Scan::ok || !ends_word(peek(p_, end_)))
                refuse_number("the value ", number, end_, found == Scan::too_large ? too_large<V>() : nullptr);
            if (n == piece_.n_entries) changed();
            indices[n] = int32_t(index);
            data[n] = value;
            ascending &= index > previous;
            previous = index;
            ++n;
        }
        n_entries_ = n;
        if (n == begin) return;
        if (!ascending) sort(indices + begin, data + begin, n - begin);
        note_range(indices[begin], indices[n - 1]);
    }

    void sort(int32_t* indices, V* data, int64_t n) const {
        std::vector<std::pair<int32_t, V>> entries(n);
        for (int64_t e = 0; e < n; ++e) entries[e] = {indices[e], data[e]};
        std::sort(entries.begin(), entries.end(), [](auto a, auto b) { return a.first < b.first; });
        for (int64_t e = 0; e < n; ++e) {
            indices[e] = entries[e].first;
            data[e] = entries[e].second;
            if (e > 0 && indices[e] == indices[e - 1])
                throw LineFault{p_, "the index " + std::to_string(indices[e]) + " occurs twice"};
        }
    }

    void note_range(int64_t least, int64_t largest) {
        if (least < options_.least_index)
            throw LineFault{p_, "the index " + std::to_string(least) + " is below " +
                                std::to_string(options_.least_index)};
        if (largest > options_.largest_index)
            throw LineFault{p_, "the index " + std::to_string(largest) + " is above " +
                                std::to_string(options_.largest_index)};
        piece_.smallest = std::min(piece_.smallest, least);
        piece_.largest = std::max(piece_.largest, largest);
    }

    [[noreturn, gnu::cold, gnu::noinline]] void refuse_index(const char* word, Scan scan) const {
        if (scan == Scan::too_large) refuse("the index in ", word, end_, " is above 2147483646");
        if (*word == '-') refuse("the index in ", word, end_, " is negative");
        refuse("", word, end_, " is not index:value");
    }

    SvmlightRows<V>& out_;
    Piece& piece_;
    const TextOptions& options_;
    const char* p_;
    const char* const end_;
    int64_t n_entries_ = 0, n_labels_ = 0;
};

// --- lines of numbers ---------------------------------------------------------------------------

template <class V>
void read_numbers(NumberLines<V>& out, Piece& piece, int n_columns) {
    const char* p = piece.begin;
    const char* const end = piece.end;
    int64_t n = 0;
    auto skip_blanks = [&] {
        while (is_blank(peek(p, end))) ++p;
    };
    auto whole = [&] {
        skip_blanks();
        const char* const word = p;
        int64_t value = 0;
        const Scan scan = scan_integer(p, end, value);
        if (scan == Scan::too_large) refuse("", word, end, " is too large for 64 bits");
        if (scan != Scan::ok || !(is_blank(peek(p, end)) || peek(p, end) == '\n'))
            refuse("a whole number is expected, not ", word, end, "");
        return value;
    };
    for (; p < end; ++p) {
        skip_blanks();
        if (peek(p, end) == '%') {
            const void* newline = std::memchr(p, '\n', size_t(end - p));
            p = newline ? static_cast<const char*>(newline) : end;
        }
        if (peek(p, end) == '\n') continue;
        const int64_t first = whole(), second = whole();
        V value = 1;
        if (n_columns == 3) {
            skip_blanks();
            const char* const word = p;
            const Scan scan = scan_number(p, end, value);
            if (scan != Scan::ok || !(is_blank(peek(p, end)) || peek(p, end) == '\n'))
                refuse_number("the value ", word, end, scan == Scan::too_large ? too_large<V>() : nullptr);
        }
        skip_blanks();
        if (peek(p, end) != '\n')
            refuse("", p, end, n_columns == 3 ? " follows after three numbers" : " follows after two numbers");
        if (n == piece.n_rows) throw LineFault{p, "the text changed while it was read"};
        const int64_t place = piece.row + n++;
        out.first.values[place] = first;
        out.second.values[place] = second;
        out.third.values[place] = value;
    }
    piece.n_rows = n;
}

int useful_threads(const TextOptions& options, const std::vector<Piece>& pieces) {
    return int(std::clamp<int64_t>(options.n_threads, 1, std::max<int64_t>(int64_t(pieces.size()), 1)));
}

}  // namespace

template <class V>
SvmlightRows<V> parse_svmlight(std::string_view text, const TextOptions& options) {
    std::vector<Piece> pieces = cut(text, options.piece_bytes);
    const TeamScope team(useful_threads(options, pieces));
    plan(pieces, options.n_threads, 2);
    const Piece last = pieces.empty() ? Piece{} : pieces.back();
    SvmlightRows<V> out;
    out.indptr = Array<int64_t>(last.row + last.n_rows + 1);
    out.label_indptr = Array<int64_t>(last.row + last.n_rows + 1);
    out.indices = Array<int32_t>(last.entry + last.n_entries);
    out.data = Array<V>(last.entry + last.n_entries);
    out.label_values = Array<double>(last.label + last.n_labels);
    parse_pieces(text, pieces, options.n_threads,
                 [&](Piece& piece) { SvmlightReader<V>(out, piece, options).read(); });
    close_pointer_gaps(out.indptr, pieces, &Piece::entry, &Piece::n_entries);
    close_pointer_gaps(out.label_indptr, pieces, &Piece::label, &Piece::n_labels);
    close_gaps(out.indices, pieces, &Piece::entry, &Piece::n_entries);
    close_gaps(out.data, pieces, &Piece::entry, &Piece::n_entries);
    close_gaps(out.label_values, pieces, &Piece::label, &Piece::n_labels);
    if (out.indices.size > 0) out.smallest_index = kLargestIndex;
    for (const Piece& piece : pieces) {
        if (piece.largest < 0) continue;
        out.smallest_index = std::min(out.smallest_index, piece.smallest);
        out.largest_index = std::max(out.largest_index, piece.largest);
    }
    return out;
}

template <class V>
NumberLines<V> parse_numbers(std::string_view text, int n_columns, const TextOptions& options) {
    std::vector<Piece> pieces = cut(text, options.piece_bytes);
    const TeamScope team(useful_threads(options, pieces));
    plan(pieces, options.n_threads, 4);
    const int64_t n_lines = pieces.empty() ? 0 : pieces.back().row + pieces.back().n_rows;
    NumberLines<V> out;
    out.first = Array<int64_t>(n_lines);
    out.second = Array<int64_t>(n_lines);
    out.third = Array<V>(n_lines);
    parse_pieces(text, pieces, options.n_threads,
                 [&](Piece& piece) { read_numbers(out, piece, n_columns); });
    close_gaps(out.first, pieces, &Piece::row, &Piece::n_rows);
    close_gaps(out.second, pieces, &Piece::row, &Piece::n_rows);
    close_gaps(out.third, pieces, &Piece::row, &Piece::n_rows);
    return out;
}

int64_t count_lines(std::string_view text, const TextOptions& options) {
    std::vector<Piece> pieces = cut(text, options.piece_bytes);
    plan(pieces, options.n_threads, 1);
    int64_t n_lines = 0;
    for (const Piece& piece : pieces) n_lines += piece.counts.newlines;
    return n_lines;
}

template SvmlightRows<float> parse_svmlight(std::string_view, const TextOptions&);
template SvmlightRows<double> parse_svmlight(std::string_view, const TextOptions&);
template NumberLines<float> parse_numbers(std::string_view, int, const TextOptions&);
template NumberLines<double> parse_numbers(std::string_view, int, const TextOptions&);

}  // namespace sparsecluster
