#include <string>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/lod_tensor_layout.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

constexpr std::size_t kCountBytes = sizeof(std::uint32_t);

[[noreturn]] void Refuse(const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument, "LoDTensorBuilder: " + why));
}

template <typename T>
void AppendLe(T value, std::vector<std::byte>* out) {
  out->resize(out->size() + sizeof(T));
  StoreLe(out->data() + out->size() - sizeof(T), value);
}

void AppendVarint(std::uint64_t value, std::vector<std::byte>* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<std::byte>(value | 0x80));
  out->push_back(static_cast<std::byte>(value));
}

void AppendField(std::uint32_t field, std::uint64_t value, std::vector<std::byte>* out) {
  AppendVarint(std::uint64_t{field} << 3, out);  // a varint
  AppendVarint(value, out);
}

void CheckValues(DType dtype, const Shape& shape, std::size_t bytes) {
  std::size_t expected = DTypeBytes(dtype);
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(expected, static_cast<std::size_t>(dim), &expected)) {
      Refuse("the shape " + ShapeToString(shape) + " is none of a tensor");
    }
  }
  if (expected != bytes) {
    Refuse(std::string(DTypeName(dtype)) + ShapeToString(shape) + " has " +
           std::to_string(expected) + " bytes, not " + std::to_string(bytes));
  }
}

// What a level counts: the sequences of the one below it, or rows.
void CheckLevel(std::span<const std::int64_t> level, std::int64_t counted) {
  bool fits = !level.empty() && level.front() == 0 && level.back() == counted;
  for (std::size_t i = 1; fits && i < level.size(); ++i) fits = level[i - 1] <= level[i];
  if (!fits) {
    Refuse("a level of LoD does not ascend from 0 to the " + std::to_string(counted) +
           " that it counts");
  }
}

}  // namespace

void LoDTensorBuilder::Append(DType dtype, const Shape& shape, std::span<const std::byte> values,
                              Levels lod) {
  const auto type = LoDTensorTypeOf(dtype);
  if (!type) Refuse("Paddle has no tensors of " + std::string(DTypeName(dtype)));
  CheckValues(dtype, shape, values.size());
  if (!lod.empty() && shape.empty()) Refuse("a scalar has no LoD");
  for (std::size_t i = 0; i < lod.size(); ++i) {
    const bool lowest = i + 1 == lod.size();
    CheckLevel(lod[i], lowest ? shape[0] : static_cast<std::int64_t>(lod[i + 1].size()) - 1);
  }
  if (finished_ || record_.empty()) {
    record_.assign(kCountBytes, std::byte{0});
    tensors_ = 0;
    finished_ = false;
  }
  AppendLe(LoDTensorLayout::kVersion, &record_);
  AppendLe(std::uint64_t{lod.size()}, &record_);
  for (const auto level : lod) {
    AppendLe(std::uint64_t{level.size_bytes()}, &record_);
    const auto bytes = std::as_bytes(level);
    record_.insert(record_.end(), bytes.begin(), bytes.end());
  }
  AppendLe(LoDTensorLayout::kVersion, &record_);
  std::vector<std::byte> description;
  AppendField(LoDTensorLayout::kTypeField, *type, &description);
  for (const std::int64_t dim : shape) {
    AppendField(LoDTensorLayout::kDimsField, static_cast<std::uint64_t>(dim), &description);
  }
  AppendLe(static_cast<std::int32_t>(description.size()), &record_);
  record_.insert(record_.end(), description.begin(), description.end());
  record_.insert(record_.end(), values.begin(), values.end());
  ++tensors_;
}

LoDTensorBuilder& LoDTensorBuilder::Add(DType dtype, const Shape& shape,
                                        std::span<const std::byte> values,
                                        const std::vector<std::vector<std::int64_t>>& lod) {
  const std::vector<std::span<const std::int64_t>> levels(lod.begin(), lod.end());
  Append(dtype, shape, values, levels);
  return *this;
}

LoDTensorBuilder& LoDTensorBuilder::Add(const Tensor& tensor) {
  Append(tensor.dtype, tensor.shape, {tensor.data, tensor.bytes}, tensor.lod);
  return *this;
}

std::span<const std::byte> LoDTensorBuilder::Finish() {
  if (finished_ || record_.empty()) record_.assign(kCountBytes, std::byte{0});
  if (finished_) tensors_ = 0;
  finished_ = true;
  StoreLe(record_.data(), tensors_);
  return record_;
}

}  // namespace ringfeed
