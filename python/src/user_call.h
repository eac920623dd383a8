#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "exceptions.h"
#include "gil.h"

namespace ringfeed::python {

/// Calls `function` with the lock, from any thread; what Python throws there goes on as the chain's
/// failure.
template <typename Function>
auto CallUser(ThrownKeeper& keeper, Function&& function) {
  const GilHeld lock;
  try {
    return function();
  } catch (nanobind::python_error& thrown) {
    throw keeper.Keep(std::move(thrown));
  }
}

}  // namespace ringfeed::python
