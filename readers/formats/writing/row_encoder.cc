#include "readers/formats/writing/row_encoder.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringfeed/detail/elements.h"
#include "ringfeed/formats.h"

namespace ringfeed {
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

class ExampleEncoder final : public RowEncoder {
 public:
  explicit ExampleEncoder(std::vector<FieldSpec> fields) : fields_(std::move(fields)) {}

  Status Encode(const Instance& row, std::span<const std::byte>* record) override {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (Add(fields_[f].name, row[f], IsBytesField(fields_[f]))) continue;
      (void)example_.Finish();  // what was added is of no record
      return Status(StatusCode::kUnsupported,
                    "column \"" + fields_[f].name +
                        "\" has a value that a tf.Example has no place for: its integers have 64 "
                        "bits with a sign, its floats 32 bits");
    }
    *record = example_.Finish();
    return {};
  }

 private:
  bool Add(const std::string& name, const Tensor& value, bool bytes) {
    ints_.clear();
    floats_.clear();
    bool in_range = true;
    if (bytes) {
      example_.AddBytes(name, std::span(value.data, value.bytes));
    } else if (value.dtype <= DType::kInt64) {
      in_range = TakeValues(value, &ints_);
      example_.AddInts(name, ints_);
    } else {
      in_range = TakeValues(value, &floats_);
      example_.AddFloats(name, floats_);
    }
    return in_range;
  }

  const std::vector<FieldSpec> fields_;
  ExampleBuilder example_;
  std::vector<std::int64_t> ints_;
  std::vector<float> floats_;
};

}  // namespace

std::unique_ptr<RowEncoder> NewExampleEncoder(std::vector<FieldSpec> fields) {
  return std::make_unique<ExampleEncoder>(std::move(fields));
}

}  // namespace ringfeed
