#include "ringfeed/slot.h"

#include <algorithm>
#include <functional>

namespace ringfeed {
namespace {

std::string Described(DType dtype, const Shape& dims, std::size_t levels) {
  std::string text = std::string(DTypeName(dtype)) + ShapeToString(dims);
  if (levels > 0) text += " with " + std::to_string(levels) + " levels of LoD";
  return text;
}

bool DimsFit(const Shape& declared, const Shape& found) {
  return std::equal(
      declared.begin(), declared.end(), found.begin(), found.end(),
      [](std::int64_t want, std::int64_t have) { return have >= 0 && (want < 0 || want == have); });
}

// What is wrong with the levels of a tensor that fits otherwise; empty if nothing.
std::string WrongLevels(const Tensor& tensor) {
  for (std::size_t level = 0; level < tensor.lod.size(); ++level) {
    const std::span<const std::int64_t> ends = tensor.lod[level];
    const std::string where = "level " + std::to_string(level) + " of its LoD ";
    if (ends.empty() || ends.front() != 0) return where + "does not start with 0";
    if (std::adjacent_find(ends.begin(), ends.end(), std::greater<>()) != ends.end()) {
      return where + "does not ascend";
    }
    const bool last = level + 1 == tensor.lod.size();
    const std::int64_t counted =
        last ? tensor.shape[0] : static_cast<std::int64_t>(tensor.lod[level + 1].size()) - 1;
    if (ends.back() != counted) {
      return where + "ends at " + std::to_string(ends.back()) + ", not at the " +
             std::to_string(counted) + (last ? " rows" : " sequences of the next level");
    }
  }
  return {};
}

std::string WrongTensor(const SlotSpec& slot, const Tensor& tensor) {
  if (tensor.dtype != slot.dtype || !DimsFit(slot.dims, tensor.shape) ||
      tensor.lod.size() != slot.lod_levels) {
    return "expected " + Described(slot.dtype, slot.dims, slot.lod_levels) + ", found " +
           Described(tensor.dtype, tensor.shape, tensor.lod.size());
  }
  const std::size_t bytes =
      static_cast<std::size_t>(ShapeElements(tensor.shape)) * DTypeBytes(tensor.dtype);
  if (tensor.bytes != bytes) {
    return Described(tensor.dtype, tensor.shape, 0) + " has " + std::to_string(bytes) +
           " bytes, found " + std::to_string(tensor.bytes);
  }
  if (tensor.data == nullptr && bytes > 0) {
    return "the data of its " + std::to_string(bytes) + " bytes are null";
  }
  if (!tensor.lod.empty() && tensor.shape.empty()) return "a scalar has no LoD";
  return WrongLevels(tensor);
}

}  // namespace

Status CheckTensor(const SlotSpec& slot, const Tensor& tensor) {
  const std::string wrong = WrongTensor(slot, tensor);
  return wrong.empty() ? Status() : Status(StatusCode::kInvalidArgument, wrong);
}

Status CheckInstance(std::span<const SlotSpec> slots, const Instance& instance) {
  if (instance.size() != slots.size()) {
    return Status(StatusCode::kInvalidArgument, "an instance of " + std::to_string(slots.size()) +
                                                    " slots was expected, found " +
                                                    std::to_string(instance.size()) + " tensors");
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Status status = CheckTensor(slots[i], instance[i]);
    if (status.ok()) continue;
    return Status(StatusCode::kInvalidArgument,
                  "slot " + std::to_string(i) + " \"" + slots[i].name + "\": " + status.message());
  }
  return {};
}

}  // namespace ringfeed
