#include "record_functions.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gil.h"
#include "held_object.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// One row's arguments of a compiled Map function. Kept by each thread: nothing is allocated per
// row.
struct MapArguments {
  std::vector<const void*> inputs;
  std::vector<std::int64_t> input_bytes;
  std::vector<void*> outputs;

  void Set(const MapInput& input, RowWriter& output, std::size_t output_count) {
    inputs.clear();
    input_bytes.clear();
    outputs.clear();
    if (input.fields == nullptr) Add(input.record.data, input.record.size);
    if (input.fields != nullptr) {
      for (const Tensor& field : *input.fields) Add(field.data, field.bytes);
    }
    for (std::size_t i = 0; i < output_count; ++i) outputs.push_back(output.Fixed(i).data());
  }

 private:
  void Add(const void* data, std::size_t bytes) {
    inputs.push_back(data);
    input_bytes.push_back(static_cast<std::int64_t>(bytes));
  }
};

// Calls `function` of the record's bytes, with the lock, and makes of its result what `convert`
// does.
template <typename Convert>
auto CallPython(HeldObject& function, ThrownKeeper& keeper, const RecordSpan& record,
                Convert&& convert) {
  const GilHeld lock;
  try {
    const nb::object result = function.Get()(nb::bytes(record.data, record.size));
    const auto value = convert(result.ptr());
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return value;
  } catch (nb::python_error& thrown) {
    throw keeper.Keep(std::move(thrown));
  }
}

}  // namespace

MapFunction MapBy(std::uintptr_t address, nb::handle keep, std::size_t outputs) {
  const auto function = reinterpret_cast<CompiledMap>(address);
  return [function, outputs, held = Hold(keep)](const MapInput& input, RowWriter& output) {
    thread_local MapArguments arguments;
    arguments.Set(input, output, outputs);
    const std::int32_t failure =
        function(arguments.inputs.data(), arguments.input_bytes.data(), arguments.outputs.data());
    if (failure == 0) return;
    throw std::runtime_error("the compiled function returned " + std::to_string(failure));
  };
}

FilterFunction FilterBy(std::uintptr_t address, nb::handle keep) {
  const auto function = reinterpret_cast<CompiledFilter>(address);
  return [function, held = Hold(keep)](const RecordSpan& record) {
    return function(record.data, static_cast<std::int64_t>(record.size)) != 0;
  };
}

GroupFunction GroupBy(std::uintptr_t address, nb::handle keep) {
  const auto function = reinterpret_cast<CompiledGroup>(address);
  return [function, held = Hold(keep)](const RecordSpan& record) {
    return function(record.data, static_cast<std::int64_t>(record.size));
  };
}

FilterFunction FilterByPython(nb::handle function, std::shared_ptr<ThrownKeeper> keeper) {
  return [held = Hold(function), keeper = std::move(keeper)](const RecordSpan& record) {
    return CallPython(*held, *keeper, record,
                      [](PyObject* kept) { return PyObject_IsTrue(kept); }) != 0;
  };
}

GroupFunction GroupByPython(nb::handle function, std::shared_ptr<ThrownKeeper> keeper) {
  return [held = Hold(function), keeper = std::move(keeper)](const RecordSpan& record) {
    return std::int64_t{CallPython(*held, *keeper, record,
                                   [](PyObject* group) { return PyLong_AsLongLong(group); })};
  };
}

}  // namespace ringfeed::python
