// Tensors for other libraries: the CUDA array interface, and DLPack.

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ringfeed/export/cuda_array_interface.h"
#include "ringfeed/export/dlpack.h"

namespace ringfeed {
namespace {

/// The strides of a row-major array whose elements are `unit` apart. A dimension of 0 counts as 1,
/// as in NumPy and PyTorch.
std::vector<std::int64_t> RowMajorStrides(const Shape& shape, std::int64_t unit) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = unit;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(1, shape[i]);
  }
  return strides;
}

// 0 if the interface has no letter.
char KindOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 'b';
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
      return 'u';
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return 'i';
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return 'f';
    case DType::kBFloat16:
      return 0;
  }
  return 0;
}

std::string TypeString(char kind, std::size_t bytes) {
  const char order = bytes == 1 ? '|' : std::endian::native == std::endian::little ? '<' : '>';
  return {order, kind, static_cast<char>('0' + bytes)};
}

}  // namespace

Status DescribeCudaArray(const Tensor& tensor, std::optional<std::uintptr_t> stream,
                         CudaArrayInterface* array) {
  if (tensor.place.type != DeviceType::kCuda) {
    return Status(
        StatusCode::kInvalidArgument,
        "__cuda_array_interface__ describes memory of a CUDA device; the tensor lies on " +
            PlaceName(tensor.place) + ": hand it over by DLPack");
  }
  if (stream == 0U) {
    return Status(StatusCode::kInvalidArgument,
                  "__cuda_array_interface__ forbids stream 0: give 1 for the legacy stream, 2 for "
                  "the one of each thread");
  }
  const char kind = KindOf(tensor.dtype);
  if (kind == 0) {
    return Status(StatusCode::kUnsupported,
                  "__cuda_array_interface__ has no name for " +
                      std::string(DTypeName(tensor.dtype)) +
                      ": hand the tensor over by DLPack, or cast it to float32");
  }
  const std::size_t bytes = DTypeBytes(tensor.dtype);
  CudaArrayInterface described;
  described.shape = tensor.shape;
  described.typestr = TypeString(kind, bytes);
  described.data = tensor.bytes == 0 ? 0 : reinterpret_cast<std::uintptr_t>(tensor.data);
  described.strides = RowMajorStrides(tensor.shape, static_cast<std::int64_t>(bytes));
  described.stream = stream;
  *array = std::move(described);
  return {};
}

}  // namespace ringfeed

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

/// The target of an export's manager_ctx: the export itself and all that it refers to.
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
  // DLPack has no pointer to const; a flag says whether it may be written to.
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
