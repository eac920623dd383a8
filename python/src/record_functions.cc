#include "record_functions.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gil.h"
#include "held_object.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// A compiled function gets bare addresses, so only the memory shows whether it was written: both
// ends are filled with a mark before the call. Written bytes may happen to equal one mark, not
// both.
constexpr unsigned char kMarks[] = {0xA7, 0x58};
constexpr std::size_t kMarkedBytes = 8;  // at each end

void SetMark(std::span<std::byte> place, unsigned char mark) {
  const std::size_t bytes = std::min(place.size(), kMarkedBytes);
  std::memset(place.data(), mark, bytes);
  std::memset(place.data() + place.size() - bytes, mark, bytes);
}

bool HasMark(std::span<const std::byte> place, unsigned char mark) {
  const std::size_t bytes = std::min(place.size(), kMarkedBytes);
  const auto marked = [mark](std::byte byte) { return byte == std::byte{mark}; };
  return std::ranges::all_of(place.first(bytes), marked) &&
         std::ranges::all_of(place.last(bytes), marked);
}

// One row's call of a compiled Map function. Kept by each thread: nothing is allocated per row.
class MapCall {
 public:
  void Set(const MapInput& input, RowWriter& output, std::size_t output_count) {
    inputs_.clear();
    input_bytes_.clear();
    places_.clear();
    outputs_.clear();
    if (input.fields == nullptr) Add(input.record.data, input.record.size);
    if (input.fields != nullptr) {
      for (const Tensor& field : *input.fields) Add(field.data, field.bytes);
    }
    for (std::size_t i = 0; i < output_count; ++i) {
      places_.push_back(output.Fixed(i));
      outputs_.push_back(places_.back().data());
    }
  }

  // The number of an output that the function does not write; none if it writes all. Throws if the
  // function fails.
  std::optional<std::size_t> Run(CompiledMap function) {
    RunMarked(function, kMarks[0]);
    unwritten_.clear();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (HasMark(places_[i], kMarks[0])) unwritten_.push_back(i);
    }
    if (unwritten_.empty()) return std::nullopt;
    RunMarked(function, kMarks[1]);
    for (const std::size_t output : unwritten_) {
      if (HasMark(places_[output], kMarks[1])) return output;
    }
    return std::nullopt;
  }

 private:
  void Add(const void* data, std::size_t bytes) {
    inputs_.push_back(data);
    input_bytes_.push_back(static_cast<std::int64_t>(bytes));
  }
  void RunMarked(CompiledMap function, unsigned char mark) {
    for (const std::span<std::byte> place : places_) SetMark(place, mark);
    const std::int32_t failure = function(inputs_.data(), input_bytes_.data(), outputs_.data());
    if (failure == 0) return;
    throw std::runtime_error("the compiled function returned " + std::to_string(failure));
  }

  std::vector<const void*> inputs_;
  std::vector<std::int64_t> input_bytes_;
  std::vector<std::span<std::byte>> places_;
  std::vector<void*> outputs_;
  std::vector<std::size_t> unwritten_;
};

// Calls `function` with the record's bytes, with the lock held, and converts its result by
// `convert`.
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

MapFunction MapBy(std::uintptr_t address, nb::handle keep, std::vector<std::string> outputs) {
  const auto function = reinterpret_cast<CompiledMap>(address);
  std::string name = "the compiled function";
  const nb::object known = nb::getattr(keep, "__name__", nb::none());
  if (nb::isinstance<nb::str>(known)) name += std::string(" ") + nb::cast<nb::str>(known).c_str();
  return [function, outputs = std::move(outputs), name = std::move(name), held = Hold(keep)](
             const MapInput& input, RowWriter& output) {
    thread_local MapCall call;
    call.Set(input, output, outputs.size());
    const std::optional<std::size_t> unwritten = call.Run(function);
    if (!unwritten) return;
    throw std::runtime_error("field \"" + outputs[*unwritten] + "\" was not written by " + name +
                             ": it must write every declared field of every row");
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
