#include "ringfeed/decorators.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exceptions.h"
#include "field_specs.h"
#include "gil.h"
#include "held_object.h"
#include "module_parts.h"
#include "reader_handle.h"
#include "ringfeed/sequences.h"
#include "steps_tuple.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

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

/// `outputs` are the declared fields' names. If a function leaves one of their places unchanged, it
/// is called once more, to be sure, and then the row fails.
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

/// Python functions of the record's bytes. Each call takes the lock; if the interpreter has none,
/// or releases it in the middle, several run at once. `keeper` keeps what one throws.
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

ReaderHandle MapCompiled(const ReaderHandle& input, std::uintptr_t address, nb::handle keep,
                         const std::vector<FieldTuple>& outputs,
                         const std::vector<std::string>& keep_fields) {
  std::vector<FieldSpec> fields = FieldSpecs(outputs);
  for (const FieldSpec& field : fields) {
    if (field.ragged()) {
      throw nb::value_error(("a compiled function writes fields of fixed shape, and '" +
                             field.name + "' is ragged: it would have no place of known size")
                                .c_str());
    }
  }
  std::vector<std::string> names;
  for (const FieldSpec& field : fields) names.push_back(field.name);
  MapFunction function = MapBy(address, keep, std::move(names));
  const MapOptions options{.keep = keep_fields};
  return input.On(Unlocked(
      [&] { return Map(input.reader(), std::move(fields), std::move(function), options); }));
}

ReaderHandle FilterCompiled(const ReaderHandle& input, std::uintptr_t address, nb::handle keep) {
  FilterFunction function = FilterBy(address, keep);
  return input.On(Unlocked([&] { return Filter(input.reader(), std::move(function)); }));
}

ReaderHandle FilterPython(const ReaderHandle& input, nb::handle keep) {
  const auto keeper = std::make_shared<ThrownKeeper>();
  FilterFunction function = FilterByPython(keep, keeper);
  return input.On(Unlocked([&] { return Filter(input.reader(), std::move(function)); }), keeper);
}

// `address` 0: `group_of` is a Python function.
ReaderHandle GroupBatchBy(const ReaderHandle& input, std::uintptr_t address, nb::handle group_of,
                          std::size_t size, std::size_t segment, bool drop_remainder,
                          std::size_t slots) {
  GroupBatchOptions options{
      .size = size, .segment = segment, .drop_remainder = drop_remainder, .slots = slots};
  std::shared_ptr<ThrownKeeper> keeper;
  if (address == 0) {
    keeper = std::make_shared<ThrownKeeper>();
    options.group_of = GroupByPython(group_of, keeper);
  } else {
    options.group_of = GroupBy(address, group_of);
  }
  return input.On(Unlocked([&] { return GroupBatch(input.reader(), options); }), keeper);
}

ReaderHandle PadField(const ReaderHandle& input, const std::string& field, std::size_t length,
                      std::size_t multiple, double value) {
  const PadOptions options{.length = length, .multiple = multiple, .value = value};
  return input.On(Unlocked([&] { return Pad(input.reader(), field, options); }));
}

ReaderHandle BucketBatchBy(const ReaderHandle& input, std::size_t size, const std::string& field,
                           const std::vector<std::uint64_t>& bounds, std::size_t segment,
                           bool drop_remainder, std::size_t slots,
                           const std::optional<StepsTuple>& steps) {
  const BucketBatchOptions options{.size = size,
                                   .field = field,
                                   .bounds = bounds,
                                   .segment = segment,
                                   .drop_remainder = drop_remainder,
                                   .slots = slots,
                                   .steps = StepsOf(steps)};
  return input.On(Unlocked([&] { return BucketBatch(input.reader(), options); }));
}

ReaderHandle TokenBatchBy(const ReaderHandle& input, const std::string& field, std::size_t tokens,
                          std::size_t bytes, std::size_t most_rows, std::size_t slots,
                          std::size_t shares, std::size_t segment, bool best_fit, bool padded,
                          const std::optional<StepsTuple>& steps) {
  const TokenBatchOptions options{.field = field,
                                  .tokens = tokens,
                                  .bytes = bytes,
                                  .most_rows = most_rows,
                                  .slots = slots,
                                  .shares = shares,
                                  .segment = segment,
                                  .best_fit = best_fit,
                                  .padded = padded,
                                  .steps = StepsOf(steps)};
  return input.On(Unlocked([&] { return TokenBatch(input.reader(), options); }));
}

ReaderHandle PackBy(const ReaderHandle& input, const std::string& field, std::size_t length,
                    std::size_t rows, std::size_t segment, double pad_value, bool drop_remainder,
                    std::size_t slots, bool best_fit, std::size_t multiple,
                    std::size_t most_records, const std::optional<StepsTuple>& steps) {
  const PackOptions options{.field = field,
                            .length = length,
                            .rows = rows,
                            .segment = segment,
                            .pad_value = pad_value,
                            .drop_remainder = drop_remainder,
                            .slots = slots,
                            .fit = best_fit ? PackFit::kBest : PackFit::kFirst,
                            .multiple = multiple,
                            .most_records = most_records,
                            .steps = StepsOf(steps)};
  return input.On(Unlocked([&] { return Pack(input.reader(), options); }));
}

}  // namespace

void BindDecorators(nb::module_& module) {
  const auto input = nb::arg("input");
  const auto field = nb::arg("field");
  const auto drop_remainder = nb::arg("drop_remainder");
  module.def("map_compiled", &MapCompiled, input, nb::arg("address"), nb::arg("keep").none(),
             nb::arg("outputs"), nb::arg("keep_fields"),
             "The C function at `address`; `keep` is what its code belongs to.");
  module.def("filter_compiled", &FilterCompiled, input, nb::arg("address"), nb::arg("keep").none(),
             "As map_compiled.");
  module.def("filter_python", &FilterPython, input, nb::arg("function"),
             "function(record) says whether the record, bytes, is kept.");
  module.def("group_batch", &GroupBatchBy, input, nb::arg("address"), nb::arg("group_of"),
             nb::arg("size"), nb::arg("segment"), drop_remainder, nb::arg("slots"),
             "`address` 0: group_of(record) is Python's; else what that function belongs to.");
  module.def(
      "truncate",
      [](const ReaderHandle& from, const std::string& name, std::size_t length) {
        return from.On(Unlocked([&] { return Truncate(from.reader(), name, length); }));
      },
      input, field, nb::arg("length"));
  module.def("pad", &PadField, input, field, nb::arg("length"), nb::arg("multiple"),
             nb::arg("value"));
  module.def("bucket_batch", &BucketBatchBy, input, nb::arg("size"), field, nb::arg("bounds"),
             nb::arg("segment"), drop_remainder, nb::arg("slots"), nb::arg("steps").none());
  module.def("token_batch", &TokenBatchBy, input, field, nb::arg("tokens"), nb::arg("bytes"),
             nb::arg("most_rows"), nb::arg("slots"), nb::arg("shares"), nb::arg("segment"),
             nb::arg("best_fit"), nb::arg("padded"), nb::arg("steps").none());
  module.def("pack", &PackBy, input, field, nb::arg("length"), nb::arg("rows"), nb::arg("segment"),
             nb::arg("pad_value"), drop_remainder, nb::arg("slots"), nb::arg("best_fit"),
             nb::arg("multiple"), nb::arg("most_records"), nb::arg("steps").none());
  module.def(
      "read_as",
      [](const ReaderHandle& from, const std::string& format) {
        return from.On(Unlocked([&] { return ReadAs(from.reader(), format); }));
      },
      input, nb::arg("format"));
}

}  // namespace ringfeed::python
