// The Python side of the parsers of text. Any buffer of bytes is taken, and looked at where it lies.
#include "bindings/bindings.hpp"
#include "text/svmlight.hpp"

namespace sparsecluster {

namespace {

// Holds the bytes of an object for as long as it lives.
class Bytes {
public:
    explicit Bytes(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    ~Bytes() { PyBuffer_Release(&view_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    std::string_view text() const { return {static_cast<const char*>(view_.buf), size_t(view_.len)}; }

private:
    Py_buffer view_;
};

template <class T>
Out<T> to_numpy(Array<T> array) {
    T* const values = array.values.get();
    nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    array.values.release();
    return Out<T>(values, {size_t(array.size)}, owner);
}

using Floats = nb::ndarray<nb::numpy, nb::ndim<1>>;  // of 32 or 64 bits
using ParsedRows = std::tuple<Out<int64_t>, Out<int32_t>, Floats, Out<int64_t>, Out<double>, int64_t, int64_t>;
using ParsedNumbers = std::tuple<Out<int64_t>, Out<int64_t>, Floats>;

template <class V>
ParsedRows svmlight(std::string_view text, const TextOptions& options) {
    SvmlightRows<V> rows = [&] {
        const GilReleased released;
        return parse_svmlight<V>(text, options);
    }();
    return {to_numpy(std::move(rows.indptr)),         to_numpy(std::move(rows.indices)),
            Floats(to_numpy(std::move(rows.data))),   to_numpy(std::move(rows.label_indptr)),
            to_numpy(std::move(rows.label_values)),   rows.smallest_index,
            rows.largest_index};
}

template <class V>
ParsedNumbers numbers(std::string_view text, int n_columns, const TextOptions& options) {
    NumberLines<V> lines = [&] {
        const GilReleased released;
        return parse_numbers<V>(text, n_columns, options);
    }();
    return {to_numpy(std::move(lines.first)), to_numpy(std::move(lines.second)),
            Floats(to_numpy(std::move(lines.third)))};
}

ParsedRows py_parse_svmlight(nb::handle buffer, bool float64, int n_threads, int64_t least_index,
                             int64_t largest_index, int64_t piece_bytes) {
    const Bytes bytes(buffer);
    const TextOptions options{n_threads, piece_bytes, least_index, largest_index};
    return float64 ? svmlight<double>(bytes.text(), options) : svmlight<float>(bytes.text(), options);
}

ParsedNumbers py_parse_numbers(nb::handle buffer, int n_columns, bool float64, int n_threads,
                               int64_t piece_bytes) {
    if (n_columns != 2 && n_columns != 3) throw std::invalid_argument("n_columns must be 2 or 3");
    const Bytes bytes(buffer);
    const TextOptions options{n_threads, piece_bytes};
    return float64 ? numbers<double>(bytes.text(), n_columns, options)
                   : numbers<float>(bytes.text(), n_columns, options);
}

int64_t py_count_lines(nb::handle buffer, int n_threads) {
    const Bytes bytes(buffer);
    const GilReleased released;
    return count_lines(bytes.text(), {n_threads});
}

}  // namespace

void bind_text(nb::module_& m) {
    // A ValueError whose arguments are the line and the reason.
    const std::string name = nb::cast<std::string>(m.attr("__name__")) + ".TextError";
    const nb::object type = nb::steal(PyErr_NewException(name.c_str(), PyExc_ValueError, nullptr));
    if (!type.is_valid()) throw nb::python_error();
    m.attr("TextError") = type;
    nb::register_exception_translator(
        [](const std::exception_ptr& p, void* error) {
            try {
                std::rethrow_exception(p);
            } catch (const TextError& fault) {
                const nb::tuple arguments = nb::make_tuple(fault.line, fault.what());
                PyErr_SetObject(static_cast<PyObject*>(error), arguments.ptr());
            }
        },
        type.ptr());

    const int64_t piece_bytes = TextOptions().piece_bytes;
    m.def("parse_svmlight", &py_parse_svmlight, "buffer"_a, "float64"_a, "n_threads"_a, "least_index"_a = 0,
          "largest_index"_a = kLargestIndex, "piece_bytes"_a = piece_bytes);
    m.def("parse_numbers", &py_parse_numbers, "buffer"_a, "n_columns"_a, "float64"_a, "n_threads"_a,
          "piece_bytes"_a = piece_bytes);
    m.def("count_lines", &py_count_lines, "buffer"_a, "n_threads"_a);
}

}  // namespace sparsecluster
