#pragma once

#include <nanobind/nanobind.h>

#include <memory>

namespace ringfeed::python {

/// Keeps a Python object for code that runs without the lock: whoever lets go of it last takes the
/// lock for that. To be made with the lock.
inline std::shared_ptr<PyObject> Hold(nanobind::handle object) {
  return std::shared_ptr<PyObject>(object.inc_ref().ptr(), [](PyObject* held) {
    if (!Py_IsInitialized()) return;
    const nanobind::gil_scoped_acquire lock;
    Py_DECREF(held);
  });
}

}  // namespace ringfeed::python
