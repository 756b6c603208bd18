// Progress of a call, told to a Python function.
#pragma once

#include <chrono>
#include <functional>
#include <type_traits>

#include "bindings/bindings.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

// Calls a Python function with how many there are so far (Progress is int64_t) or with the share that is done (double),
// at most ten times per second. What it raises ends the call, as Ctrl-C does.
template <class Progress>
std::function<void(Progress)> reporter(const nb::object& function) {
    if (function.is_none()) return nullptr;
    using clock = std::chrono::steady_clock;
    using Told = std::conditional_t<std::is_same_v<Progress, double>, double, long long>;
    static constexpr const char* kFormat = std::is_same_v<Progress, double> ? "d" : "L";
    return [function = function.ptr(), last = clock::now()](Progress done) mutable {
        const auto now = clock::now();
        if (now - last < std::chrono::milliseconds(100)) return;
        last = now;
        const bool called = with_python([=] {
            const PyGILState_STATE state = PyGILState_Ensure();
            PyObject* const answer = PyObject_CallFunction(function, kFormat, static_cast<Told>(done));
            Py_XDECREF(answer);
            PyGILState_Release(state);
            return answer != nullptr;
        });
        if (!called) throw Interrupted();
    };
}

}  // namespace sparsecluster
