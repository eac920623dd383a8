#include "tools/convert/row_example.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "ringfeed/detail/elements.h"

namespace ringfeed::tools {
namespace {

template <typename From>
bool IsInRange(From value) {
  if constexpr (std::is_same_v<From, std::uint64_t>) return std::in_range<std::int64_t>(value);
  if constexpr (std::is_same_v<From, double>) {
    return !std::isfinite(value) || std::abs(value) <= std::numeric_limits<float>::max();
  }
  return true;
}

// False if a value is out of range.
template <typename Value>
bool TakeValues(const Tensor& tensor, std::vector<Value>* values) {
  const std::size_t step = DTypeBytes(tensor.dtype);
  bool in_range = true;
  for (std::size_t at = 0; at < tensor.bytes; at += step) {
    WithElement(tensor.dtype, tensor.data + at, [&](auto value) {
      in_range = in_range && IsInRange(value);
      if (in_range) values->push_back(static_cast<Value>(value));
    });
  }
  return in_range;
}

}  // namespace

Status AddRow(const std::vector<FieldSpec>& fields, const Instance& row, ExampleBuilder* example) {
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const FieldSpec& field = fields[f];
    std::vector<std::int64_t> ints;
    std::vector<float> floats;
    bool in_range = true;
    if (field.dtype == DType::kUInt8 && field.shape == Shape{-1}) {
      example->AddBytes(field.name, std::span(row[f].data, row[f].bytes));
    } else if (field.dtype <= DType::kInt64) {
      in_range = TakeValues(row[f], &ints);
      example->AddInts(field.name, ints);
    } else {
      in_range = TakeValues(row[f], &floats);
      example->AddFloats(field.name, floats);
    }
    if (in_range) continue;
    return Status(StatusCode::kUnsupported,
                  "column \"" + field.name +
                      "\" has a value that a tf.Example has no place for: its integers have 64 "
                      "bits with a sign, its floats 32 bits");
  }
  return {};
}

}  // namespace ringfeed::tools
