#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "exceptions.h"
#include "gil.h"

namespace ringfeed::python {

/// The result of object.name().
inline nanobind::object CallMethod(nanobind::handle object, const char* name) {
  auto result =
      nanobind::steal(InPython([&] { return PyObject_CallMethod(object.ptr(), name, nullptr); }));
  if (!result.is_valid()) throw nanobind::python_error();
  return result;
}

/// Calls `function` with the lock, from any thread; a Python exception there becomes the chain's
/// failure.
template <typename Function>
auto CallUser(ThrownKeeper& keeper, Function&& function) {
  const GilHeld lock;
  try {
    return InPython(function);
  } catch (nanobind::python_error& thrown) {
    throw keeper.Keep(std::move(thrown));
  }
}

}  // namespace ringfeed::python
