#include "ringfeed/cuda_array_interface.h"

#include <bit>
#include <utility>

#include "gpu/export/strides.h"

namespace ringfeed {
namespace {

// 0 where the interface has no letter.
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
