#include <string>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/builders/tensor_layouts.h"
#include "readers/formats/builders/wire_format.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

// Wire format: https://protobuf.dev/programming-guides/encoding. In example.proto every field that
// is needed here is length-delimited and has number 1, but for the kinds of a feature (1 to 3) and
// the value of a map's entry (2).
constexpr unsigned kFirst = 1;
constexpr unsigned kMapValue = 2;
constexpr unsigned kBytesKind = 1;
constexpr unsigned kFloatKind = 2;
constexpr unsigned kInt64Kind = 3;

constexpr std::size_t kCountBytes = sizeof(std::uint32_t);

[[noreturn]] void Refuse(const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument, "LoDTensorBuilder: " + why));
}

template <typename T>
void AppendLe(T value, std::vector<std::byte>* out) {
  out->resize(out->size() + sizeof(T));
  StoreLe(out->data() + out->size() - sizeof(T), value);
}

}  // namespace

void ExampleBuilder::AddFeature(std::string_view name, unsigned kind,
                                std::span<const std::byte> values) {
  if (finished_) features_.clear();
  finished_ = false;
  // An empty list keeps its kind, but has no packed run.
  const bool has_run = !values.empty() || kind == kBytesKind;
  const std::size_t list = has_run ? DelimitedFieldBytes(values.size()) : 0;
  const std::size_t feature = DelimitedFieldBytes(list);
  AppendDelimitedHead(kFirst, DelimitedFieldBytes(name.size()) + DelimitedFieldBytes(feature),
                      &features_);
  AppendDelimitedHead(kFirst, name.size(), &features_);
  const auto name_bytes = std::as_bytes(std::span(name));
  features_.insert(features_.end(), name_bytes.begin(), name_bytes.end());
  AppendDelimitedHead(kMapValue, feature, &features_);
  AppendDelimitedHead(kind, list, &features_);
  if (!has_run) return;
  AppendDelimitedHead(kFirst, values.size(), &features_);
  features_.insert(features_.end(), values.begin(), values.end());
}

ExampleBuilder& ExampleBuilder::AddBytes(std::string_view name, std::span<const std::byte> value) {
  AddFeature(name, kBytesKind, value);
  return *this;
}

ExampleBuilder& ExampleBuilder::AddBytes(std::string_view name, std::string_view value) {
  return AddBytes(name, std::as_bytes(std::span(value)));
}

ExampleBuilder& ExampleBuilder::AddFloats(std::string_view name, std::span<const float> values) {
  AddFeature(name, kFloatKind, std::as_bytes(values));
  return *this;
}

ExampleBuilder& ExampleBuilder::AddInts(std::string_view name,
                                        std::span<const std::int64_t> values) {
  values_.clear();
  for (const std::int64_t value : values) {
    AppendVarint(static_cast<std::uint64_t>(value), &values_);
  }
  AddFeature(name, kInt64Kind, values_);
  return *this;
}

std::span<const std::byte> ExampleBuilder::Finish() {
  if (finished_) features_.clear();
  finished_ = true;
  record_.clear();
  AppendDelimitedHead(kFirst, features_.size(), &record_);
  record_.insert(record_.end(), features_.begin(), features_.end());
  return record_;
}

void LoDTensorBuilder::Append(DType dtype, const Shape& shape, std::span<const std::byte> values,
                              Levels lod) {
  const auto type = LoDTensorTypeOf(dtype);
  if (!type) Refuse("Paddle has no tensors of " + std::string(DTypeName(dtype)));
  const std::string wrong = WrongTensorValues(dtype, shape, values.size(), lod);
  if (!wrong.empty()) Refuse(wrong);
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
  AppendVarintField(LoDTensorLayout::kTypeField, *type, &description);
  for (const std::int64_t dim : shape) {
    AppendVarintField(LoDTensorLayout::kDimsField, static_cast<std::uint64_t>(dim), &description);
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
