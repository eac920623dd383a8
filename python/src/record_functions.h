#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exceptions.h"
#include "ringfeed/decorators.h"

namespace ringfeed::python {

// The user's functions that are called for each record, on threads of ringfeed's. A compiled one is
// an address, called without the lock; `keep` is the Python object that its code belongs to.

/// Returns 0, or a number that is the record's failure. `inputs` and `input_bytes` are the parsed
/// fields, or the record alone; `outputs` the places of the declared fields in the batch.
using CompiledMap = std::int32_t (*)(const void* const* inputs, const std::int64_t* input_bytes,
                                     void* const* outputs);
/// Whether the record is kept.
using CompiledFilter = std::int32_t (*)(const void* record, std::int64_t bytes);
/// The record's group.
using CompiledGroup = std::int64_t (*)(const void* record, std::int64_t bytes);

/// `outputs` are the declared fields' names. If a function leaves one of their places unchanged, it
/// is called once more, to be sure, and then the row fails.
MapFunction MapBy(std::uintptr_t address, nanobind::handle keep, std::vector<std::string> outputs);
FilterFunction FilterBy(std::uintptr_t address, nanobind::handle keep);
GroupFunction GroupBy(std::uintptr_t address, nanobind::handle keep);

/// Python functions of the record's bytes. Each call takes the lock; if the interpreter has none,
/// or releases it in the middle, several run at once. `keeper` keeps what one throws.
FilterFunction FilterByPython(nanobind::handle function, std::shared_ptr<ThrownKeeper> keeper);
GroupFunction GroupByPython(nanobind::handle function, std::shared_ptr<ThrownKeeper> keeper);

}  // namespace ringfeed::python
