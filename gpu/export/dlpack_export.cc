#include <algorithm>
#include <array>
#include <cassert>
#include <memory>
#include <vector>

#include "gpu/export/strides.h"
#include "ringfeed/dlpack.h"

namespace ringfeed::dlpack {
namespace {

struct DTypePair {
  DType dtype;
  DLDataType type;
};

constexpr std::array<DTypePair, 13> kDTypes = {{
    {DType::kBool, {kDLBool, 8, 1}},
    {DType::kUInt8, {kDLUInt, 8, 1}},
    {DType::kInt8, {kDLInt, 8, 1}},
    {DType::kUInt16, {kDLUInt, 16, 1}},
    {DType::kInt16, {kDLInt, 16, 1}},
    {DType::kUInt32, {kDLUInt, 32, 1}},
    {DType::kInt32, {kDLInt, 32, 1}},
    {DType::kUInt64, {kDLUInt, 64, 1}},
    {DType::kInt64, {kDLInt, 64, 1}},
    {DType::kFloat16, {kDLFloat, 16, 1}},
    {DType::kBFloat16, {kDLBfloat, 16, 1}},
    {DType::kFloat32, {kDLFloat, 32, 1}},
    {DType::kFloat64, {kDLFloat, 64, 1}},
}};

/// What an export's manager_ctx points to: the export itself and all that it refers to.
template <typename Managed>
struct Exported {
  Managed managed{};
  Shape shape;
  std::vector<std::int64_t> strides;
  std::shared_ptr<const void> owner;
};

template <typename Managed>
Managed* Export(const Tensor& tensor, const ExportOptions& options) {
  assert(static_cast<std::size_t>(ShapeElements(tensor.shape)) * DTypeBytes(tensor.dtype) ==
         tensor.bytes);
  auto exported = std::make_unique<Exported<Managed>>();
  exported->shape = tensor.shape;
  exported->strides = RowMajorStrides(tensor.shape, 1);
  exported->owner = tensor.owner;
  DLTensor& view = exported->managed.dl_tensor;
  // DLPack has no pointer to const; whether it may be written to is said by a flag.
  view.data = tensor.bytes == 0 ? nullptr : const_cast<std::byte*>(tensor.data);
  view.device = DeviceOf(tensor.place);
  if (options.pinned && tensor.place.type == DeviceType::kCpu) {
    view.device.device_type = kDLCUDAHost;
  }
  view.ndim = static_cast<std::int32_t>(tensor.shape.size());
  view.dtype = DataTypeOf(tensor.dtype);
  view.shape = exported->shape.data();
  view.strides = exported->strides.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* self) {
    delete static_cast<Exported<Managed>*>(self->manager_ctx);
  };
  return &exported.release()->managed;
}

}  // namespace

DLDataType DataTypeOf(DType dtype) noexcept {
  return std::find_if(kDTypes.begin(), kDTypes.end(),
                      [&](const DTypePair& pair) { return pair.dtype == dtype; })
      ->type;
}

std::optional<DType> DTypeOf(const DLDataType& type) noexcept {
  const auto* const found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                         [&](const DTypePair& pair) { return pair.type == type; });
  if (found == kDTypes.end()) return std::nullopt;
  return found->dtype;
}

DLDevice DeviceOf(Place place) noexcept {
  if (place.type == DeviceType::kCuda) return {kDLCUDA, place.device};
  return {kDLCPU, 0};
}

std::optional<Place> PlaceOf(const DLDevice& device) noexcept {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
      return Place{};
    case kDLCUDA:
      return Place{DeviceType::kCuda, device.device_id};
  }
  return std::nullopt;
}

DLManagedTensorVersioned* ExportVersioned(const Tensor& tensor, const ExportOptions& options) {
  auto* const managed = Export<DLManagedTensorVersioned>(tensor, options);
  managed->version = {kMajorVersion, kMinorVersion};
  if (options.read_only) managed->flags |= kReadOnlyFlag;
  return managed;
}

DLManagedTensor* ExportUnversioned(const Tensor& tensor, const ExportOptions& options) {
  return Export<DLManagedTensor>(tensor, options);
}

}  // namespace ringfeed::dlpack
