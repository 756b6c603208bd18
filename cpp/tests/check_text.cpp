// The parsers of text: rows and lines that are written here come back, however they are cut and by however many
// threads, and a fault is found at its line.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/check.hpp"
#include "text/svmlight.hpp"

namespace sparsecluster {
namespace {

const TextOptions kCuts[] = {{1}, {1, 1}, {3, 40}, {4, 1000}};

// Rows as text, and what should come of it.
struct Written {
    std::string text;
    std::vector<int64_t> indptr{0}, label_indptr{0};
    std::vector<int32_t> indices;
    std::vector<std::string> values;
    std::vector<double> labels;
};

Written write_rows(int64_t n_rows) {
    std::mt19937 random(7);
    Written out;
    for (int64_t i = 0; i < n_rows; ++i) {
        if (i % 5 == 0) out.text += i % 2 ? "\r\n" : "# nothing: a note, no more\n";
        for (int64_t label = 0; label < i % 4; ++label) {
            out.text += (label > 0 ? "," : "") + std::to_string(label);
            out.labels.push_back(double(label));
        }
        out.label_indptr.push_back(int64_t(out.labels.size()));
        out.text += i % 3 == 0 ? " qid:3" : "";
        std::vector<std::string> entries;
        const int64_t n = 1 + random() % 8;
        for (int64_t e = 0; e < n; ++e) {
            out.indices.push_back(int32_t(e * 1000 + random() % 1000));
            out.values.push_back(std::to_string(random() % 100) + "." + std::to_string(random()));
            entries.push_back(" " + std::to_string(out.indices.back()) + ":" + out.values.back());
        }
        if (i % 2) std::reverse(entries.begin(), entries.end());
        for (const std::string& entry : entries) out.text += entry;
        out.indptr.push_back(int64_t(out.indices.size()));
        if (i + 1 < n_rows) out.text += "\n";
    }
    return out;
}

template <class T>
bool same(const Array<T>& found, const std::vector<T>& expected) {
    return found.size == int64_t(expected.size()) &&
           std::equal(expected.begin(), expected.end(), found.values.get());
}

template <class V>
std::vector<V> by_library(const std::vector<std::string>& values) {
    std::vector<V> out;
    for (const std::string& value : values)
        out.push_back(sizeof(V) == 4 ? V(std::strtof(value.c_str(), nullptr)) : V(std::strtod(value.c_str(), nullptr)));
    return out;
}

template <class V>
void check_rows(const Written& written) {
    for (const TextOptions& options : kCuts) {
        const SvmlightRows<V> rows = parse_svmlight<V>(written.text, options);
        check(same(rows.indptr, written.indptr) && same(rows.indices, written.indices), "rows differ from the text");
        check(same(rows.data, by_library<V>(written.values)), "values differ from the text");
        check(same(rows.label_indptr, written.label_indptr) && same(rows.label_values, written.labels),
              "labels differ from the text");
    }
}

template <class V>
void check_lines() {
    std::string text = "% a note\n";
    std::vector<int64_t> first, second;
    std::vector<std::string> third;
    for (int64_t i = 0; i < 300; ++i) {
        first.push_back(i * i * 1'000'003 - 5);
        second.push_back(i);
        third.push_back(std::to_string(i * 0.37));
        text += std::to_string(first.back()) + "\t" + std::to_string(i) + " " + third.back() + "\n\n";
    }
    for (const TextOptions& options : kCuts) {
        const NumberLines<V> lines = parse_numbers<V>(text, 3, options);
        check(same(lines.first, first) && same(lines.second, second) && same(lines.third, by_library<V>(third)),
              "lines of numbers differ from the text");
    }
}

void check_line_faults() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += i < 120 ? "1 2:3\n" : "1 2:nan\n";
    for (const TextOptions& options : kCuts) {
        int64_t line = 0;
        try {
            parse_svmlight<float>(text, options);
        } catch (const TextError& error) {
            line = error.line;
        }
        check(line == 121, "the first line at fault is not the one that is named");
    }
}

}  // namespace

void check_text() {
    context = "text";
    const Written written = write_rows(400);
    check_rows<float>(written);
    check_rows<double>(written);
    check_rows<float>({});
    check_lines<float>();
    check_lines<double>();
    check_line_faults();
}

}  // namespace sparsecluster
