// Progress of a call, told to a Python function.
#pragma once

#include <chrono>
#include <functional>

#include "bindings/bindings.hpp"
#include "core/parallel.hpp"

namespace sparsecluster {

// Calls a Python function with how many there are so far, at most ten times per second. What it raises ends the
// call, as Ctrl-C does.
inline std::function<void(int64_t)> reporter(const nb::object& progress) {
    if (progress.is_none()) return nullptr;
    using clock = std::chrono::steady_clock;
    return [function = progress.ptr(), last = clock::now()](int64_t count) mutable {
        const auto now = clock::now();
        if (now - last < std::chrono::milliseconds(100)) return;
        last = now;
        const bool called = with_python([=] {
            const PyGILState_STATE state = PyGILState_Ensure();
            PyObject* const answer = PyObject_CallFunction(function, "L", static_cast<long long>(count));
            Py_XDECREF(answer);
            PyGILState_Release(state);
            return answer != nullptr;
        });
        if (!called) throw Interrupted();
    };
}

}  // namespace sparsecluster
