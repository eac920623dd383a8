#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// What `function` returns, called without the lock: other Python threads run meanwhile. Set-up
/// looks at files and may read them.
template <typename Function>
auto Unlocked(Function&& function) {
  const nanobind::gil_scoped_release unlocked;
  return function();
}

}  // namespace ringfeed::python
