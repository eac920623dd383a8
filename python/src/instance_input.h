#pragma once

#include <nanobind/nanobind.h>

#include <span>

#include "array.h"
#include "ringfeed/slot.h"

namespace ringfeed::python {

/// An instance from Python's arrays: for each slot anything that TensorOf takes, or a tuple of that
/// and its LoD, the offsets of each level as a list or an array. Throws as TensorOf, naming the
/// slot. CheckInstance checks whether the instance is as declared.
Instance InstanceOf(std::span<const SlotSpec> slots, nanobind::handle arrays, CopyInput copy,
                    const Allocate& allocate = NewBytes);

}  // namespace ringfeed::python
