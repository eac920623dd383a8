#include <string>
#include <utility>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/formats/builders/tensor_layouts.h"
#include "readers/formats/builders/wire_format.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

constexpr std::size_t kCountBytes = sizeof(std::uint32_t);

[[noreturn]] void RefuseTensor(const std::string& why) { Refuse("LoDTensorBuilder: " + why); }

template <typename T>
void AppendLe(T value, std::vector<std::byte>* out) {
  out->resize(out->size() + sizeof(T));
  StoreLe(out->data() + out->size() - sizeof(T), value);
}

}  // namespace

void LoDTensorBuilder::Append(DType dtype, const Shape& shape, std::span<const std::byte> values,
                              Levels lod) {
  const auto type = LoDTensorTypeOf(dtype);
  if (!type) RefuseTensor("Paddle has no tensors of " + std::string(DTypeName(dtype)));
  const std::string wrong = WrongTensorValues(dtype, shape, values.size(), lod);
  if (!wrong.empty()) RefuseTensor(wrong);
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
