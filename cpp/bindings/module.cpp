// The Python module: what holds for all of it, then domain by domain.
#include <atomic>
#include <string>

#include "bindings/bindings.hpp"
#include "bindings/turns.hpp"
#include "core/parallel.hpp"
#include "simd/kernels.hpp"

using namespace sparsecluster;

namespace {

// Lets one thread call off what another one does in the core.
struct StopToken {
    void stop() { flag = true; }
    void watch() const { called_off = &flag; }
    static void unwatch() { called_off = nullptr; }

    std::atomic<bool> flag{false};
};

bool python_interrupt_requested() {
    return with_python([] {
        const PyGILState_STATE state = PyGILState_Ensure();
        const bool requested = PyErr_CheckSignals() != 0;
        PyGILState_Release(state);
        return requested;
    });
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Kernels of sparsecluster.";
    interrupt_requested = python_interrupt_requested;
    prepare_for_forks();
    // A daemon thread may be inside a call when the process ends; what it holds is no leak.
    nb::set_leak_warnings(false);
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const Interrupted&) {
            // PyErr_CheckSignals has set KeyboardInterrupt, or what the user's handler raised.
            if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
        } catch (const ReadFailure& error) {
            PyErr_SetString(PyExc_OSError, error.what());
        }
    });

    nb::class_<StopToken>(m, "StopToken")
        .def(nb::init<>())
        .def("stop", &StopToken::stop)
        .def("watch", &StopToken::watch)
        .def("unwatch", [](const StopToken&) { StopToken::unwatch(); });
    m.def("simd_level", [] { return std::string(kernels().name); });

    bind_rows(m);
    bind_centers(m);
    bind_embedding(m);
    bind_evaluation(m);
    bind_kmeans(m);
    bind_minibatch(m);
    bind_neighbors(m);
    bind_seeding(m);
    bind_sizes(m);
    bind_text(m);
    bind_hierarchy(m);
    bind_tree(m);
}
