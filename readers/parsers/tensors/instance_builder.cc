#include <algorithm>
#include <string>

#include "readers/formats/builders/tensor_layouts.h"
#include "readers/formats/builders/wire_format.h"
#include "readers/parsers/tensors/instance_record.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

using Layout = InstanceLayout;
using Step = InstanceScan::Step;

[[noreturn]] void Refuse(const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument, "InstanceBuilder: " + why));
}

void AppendBytes(std::uint32_t field, std::span<const std::byte> bytes,
                 std::vector<std::byte>* out) {
  AppendDelimitedHead(field, bytes.size(), out);
  out->insert(out->end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> DescriptionOf(std::string_view name, DType dtype, const Shape& shape,
                                     std::size_t lod_levels) {
  std::vector<std::byte> dims;
  for (const std::int64_t dim : shape) AppendVarint(static_cast<std::uint64_t>(dim), &dims);
  std::vector<std::byte> description;
  AppendBytes(Layout::kName, std::as_bytes(std::span(name)), &description);
  AppendVarintField(Layout::kDtype, InstanceTypeOf(dtype), &description);
  if (!dims.empty()) AppendBytes(Layout::kDims, dims, &description);
  if (lod_levels > 0) AppendVarintField(Layout::kLodLevel, lod_levels, &description);
  return description;
}

}  // namespace

void InstanceBuilder::Drop(std::string_view name) {
  const auto wanted = std::as_bytes(std::span(name));
  InstanceScan scan(record_);
  InstanceField field;
  std::byte* kept = record_.data();
  for (Step step = scan.Next(&field); step != Step::kEnd; step = scan.Next(&field)) {
    if (step == Step::kField && std::ranges::equal(field.name, wanted)) continue;
    const std::span<const std::byte> bytes = scan.bytes();
    if (kept != bytes.data()) std::copy(bytes.begin(), bytes.end(), kept);
    kept += bytes.size();
  }
  record_.resize(static_cast<std::size_t>(kept - record_.data()));
}

void InstanceBuilder::Append(std::string_view name, DType dtype, const Shape& shape,
                             std::span<const std::byte> values, Levels lod) {
  if (name.empty()) Refuse("a tensor needs its name");
  const std::string wrong = WrongTensorValues(dtype, shape, values.size(), lod);
  if (!wrong.empty()) Refuse("\"" + std::string(name) + "\": " + wrong);
  if (finished_) record_.clear();
  finished_ = false;
  Drop(name);
  const std::vector<std::byte> description = DescriptionOf(name, dtype, shape, lod.size());
  std::size_t bytes = DelimitedFieldBytes(description.size());
  if (!values.empty()) bytes += DelimitedFieldBytes(values.size());
  for (const auto level : lod) bytes += DelimitedFieldBytes(level.size_bytes());
  AppendDelimitedHead(Layout::kField, bytes, &record_);
  AppendBytes(Layout::kDescription, description, &record_);
  if (!values.empty()) AppendBytes(Layout::kValue, values, &record_);
  for (const auto level : lod) AppendBytes(Layout::kLod, std::as_bytes(level), &record_);
}

InstanceBuilder& InstanceBuilder::Add(std::string_view name, DType dtype, const Shape& shape,
                                      std::span<const std::byte> values,
                                      const std::vector<std::vector<std::int64_t>>& lod) {
  const std::vector<std::span<const std::int64_t>> levels(lod.begin(), lod.end());
  Append(name, dtype, shape, values, levels);
  return *this;
}

InstanceBuilder& InstanceBuilder::Add(std::string_view name, const Tensor& tensor) {
  Append(name, tensor.dtype, tensor.shape, {tensor.data, tensor.bytes}, tensor.lod);
  return *this;
}

Status InstanceBuilder::StartFrom(std::span<const std::byte> record) {
  InstanceScan scan(record);
  InstanceField field;
  for (Step step = scan.Next(&field); step != Step::kEnd; step = scan.Next(&field)) {
    if (step != Step::kDamaged) continue;
    const auto at = scan.bytes().data() - record.data();
    return Status(StatusCode::kDamaged,
                  "byte " + std::to_string(at) +
                      " of the record: expected a field of an Instance, found bytes that are none");
  }
  // It may be what Finish gave.
  record_ = std::vector<std::byte>(record.begin(), record.end());
  finished_ = false;
  return {};
}

std::span<const std::byte> InstanceBuilder::Finish() {
  if (finished_) record_.clear();
  finished_ = true;
  return record_;
}

}  // namespace ringfeed
