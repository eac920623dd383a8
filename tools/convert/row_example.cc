#include "tools/convert/row_example.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringfeed/detail/elements.h"

namespace ringfeed::tools {
namespace {

template <typename Value>
std::vector<Value> ValuesOf(const Tensor& tensor) {
  std::vector<Value> values;
  const std::size_t step = DTypeBytes(tensor.dtype);
  for (std::size_t at = 0; at < tensor.bytes; at += step) {
    WithElement(tensor.dtype, tensor.data + at,
                [&](auto value) { values.push_back(static_cast<Value>(value)); });
  }
  return values;
}

}  // namespace

void AddRow(const std::vector<FieldSpec>& fields, const Instance& row, ExampleBuilder* example) {
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const FieldSpec& field = fields[f];
    if (field.dtype == DType::kUInt8 && field.shape == Shape{-1}) {
      example->AddBytes(field.name, std::span(row[f].data, row[f].bytes));
    } else if (field.dtype <= DType::kInt64) {
      example->AddInts(field.name, ValuesOf<std::int64_t>(row[f]));
    } else {
      example->AddFloats(field.name, ValuesOf<float>(row[f]));
    }
  }
}

}  // namespace ringfeed::tools
