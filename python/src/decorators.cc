#include "ringfeed/decorators.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "field_specs.h"
#include "gil.h"
#include "module_parts.h"
#include "reader_handle.h"
#include "record_functions.h"
#include "ringfeed/sequences.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

ReaderHandle MapCompiled(const ReaderHandle& input, std::uintptr_t address, nb::handle keep,
                         const std::vector<FieldTuple>& outputs) {
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
  return input.On(
      Unlocked([&] { return Map(input.reader(), std::move(fields), std::move(function)); }));
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
                           bool drop_remainder, std::size_t slots) {
  const BucketBatchOptions options{.size = size,
                                   .field = field,
                                   .bounds = bounds,
                                   .segment = segment,
                                   .drop_remainder = drop_remainder,
                                   .slots = slots};
  return input.On(Unlocked([&] { return BucketBatch(input.reader(), options); }));
}

ReaderHandle TokenBatchBy(const ReaderHandle& input, const std::string& field, std::size_t tokens,
                          std::size_t bytes, std::size_t most_rows, std::size_t slots) {
  const TokenBatchOptions options{
      .field = field, .tokens = tokens, .bytes = bytes, .most_rows = most_rows, .slots = slots};
  return input.On(Unlocked([&] { return TokenBatch(input.reader(), options); }));
}

ReaderHandle PackBy(const ReaderHandle& input, const std::string& field, std::size_t length,
                    std::size_t rows, std::size_t segment, double pad_value, bool drop_remainder,
                    std::size_t slots) {
  const PackOptions options{.field = field,
                            .length = length,
                            .rows = rows,
                            .segment = segment,
                            .pad_value = pad_value,
                            .drop_remainder = drop_remainder,
                            .slots = slots};
  return input.On(Unlocked([&] { return Pack(input.reader(), options); }));
}

}  // namespace

void BindDecorators(nb::module_& module) {
  const auto input = nb::arg("input");
  const auto field = nb::arg("field");
  const auto drop_remainder = nb::arg("drop_remainder");
  module.def("map_compiled", &MapCompiled, input, nb::arg("address"), nb::arg("keep").none(),
             nb::arg("outputs"),
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
             nb::arg("segment"), drop_remainder, nb::arg("slots"));
  module.def("token_batch", &TokenBatchBy, input, field, nb::arg("tokens"), nb::arg("bytes"),
             nb::arg("most_rows"), nb::arg("slots"));
  module.def("pack", &PackBy, input, field, nb::arg("length"), nb::arg("rows"), nb::arg("segment"),
             nb::arg("pad_value"), drop_remainder, nb::arg("slots"));
  module.def(
      "read_as",
      [](const ReaderHandle& from, const std::string& format) {
        return from.On(Unlocked([&] { return ReadAs(from.reader(), format); }));
      },
      input, nb::arg("format"));
}

}  // namespace ringfeed::python
