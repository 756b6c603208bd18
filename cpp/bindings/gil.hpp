// Without the GIL, and with it again. A daemon thread that asks for the GIL while the interpreter shuts down never gets
// it: Python ends the thread there, which must not unwind through C++ that other threads still work for. It stays
// where it is instead, until the process is gone.
#pragma once

#include <Python.h>

#include <chrono>
#include <thread>

namespace sparsecluster {

[[noreturn]] inline void stay_forever() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

inline bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

// Calls what waits for the GIL, or runs Python code.
template <class Call>
auto with_python(const Call& call) noexcept {
    if (interpreter_ends()) stay_forever();
    try {
        return call();
    } catch (...) {
        stay_forever();  // what pthread_exit() throws: `call` is plain C
    }
}

class GilReleased {
public:
    GilReleased() : state_(PyEval_SaveThread()) {}
    ~GilReleased() {
        with_python([this] { PyEval_RestoreThread(state_); });
    }
    GilReleased(const GilReleased&) = delete;
    GilReleased& operator=(const GilReleased&) = delete;

private:
    PyThreadState* state_;
};

}  // namespace sparsecluster
