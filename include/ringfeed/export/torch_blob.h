#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>

#include "ringfeed/tensor.h"

/// @file
/// @details A tensor as LibTorch's, its memory shared, not copied. ringfeed itself is built without
/// LibTorch: include <torch/torch.h> (2.3 or later) first, then this header, and call
/// TorchBlob(tensor).

namespace ringfeed {

/// TorchBlob over any names of LibTorch's: `Names` has the called functions (TorchNames, below, or
/// a stand-in for it).
template <typename Names>
typename Names::Tensor TorchBlobBy(const Tensor& tensor) {
  const auto options = Names::Options(Names::ScalarTypeOf(tensor.dtype),
                                      tensor.place.type == DeviceType::kCuda, tensor.place.device);
  // LibTorch looks up the owner of an address, and null has none.
  if (tensor.bytes == 0) return Names::Empty(tensor.shape, options);
  // It knows no tensors that must not be written to.
  return Names::FromBlob(
      const_cast<std::byte*>(tensor.data), tensor.shape,
      [owner = tensor.owner](void*) mutable { owner.reset(); }, options);
}

}  // namespace ringfeed

// Every header of LibTorch's brings this macro.
#ifdef TORCH_API

namespace ringfeed {

struct TorchNames {
  using Tensor = at::Tensor;

  static at::ScalarType ScalarTypeOf(DType dtype) {
    switch (dtype) {
      case DType::kBool:
        return at::ScalarType::Bool;
      case DType::kUInt8:
        return at::ScalarType::Byte;
      case DType::kInt8:
        return at::ScalarType::Char;
      case DType::kUInt16:
        return at::ScalarType::UInt16;
      case DType::kInt16:
        return at::ScalarType::Short;
      case DType::kUInt32:
        return at::ScalarType::UInt32;
      case DType::kInt32:
        return at::ScalarType::Int;
      case DType::kUInt64:
        return at::ScalarType::UInt64;
      case DType::kInt64:
        return at::ScalarType::Long;
      case DType::kFloat16:
        return at::ScalarType::Half;
      case DType::kBFloat16:
        return at::ScalarType::BFloat16;
      case DType::kFloat32:
        return at::ScalarType::Float;
      case DType::kFloat64:
        return at::ScalarType::Double;
    }
    assert(false);
    return at::ScalarType::Undefined;
  }

  static at::TensorOptions Options(at::ScalarType type, bool cuda, int device) {
    return at::TensorOptions()
        .dtype(type)
        .device(cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device))
                     : at::Device(at::kCPU))
        .requires_grad(false);
  }

  static at::Tensor Empty(const Shape& shape, const at::TensorOptions& options) {
    return torch::empty(shape, options);
  }

  template <typename Deleter>
  static at::Tensor FromBlob(void* data, const Shape& shape, Deleter deleter,
                             const at::TensorOptions& options) {
    return torch::from_blob(data, shape, std::move(deleter), options);
  }
};

/// A LibTorch tensor over this tensor's memory, on its device; memory of an emulated device is host
/// memory here. The result and all its views share `tensor.owner`; the last of them drops that, in
/// whichever thread. Nothing stops a consumer from writing to it: write only if nothing else reads
/// the memory.
///
/// For device memory: the stream that works on the result must come after the copy that filled it,
/// and the owner must know that stream, as LibTorch's allocator has no part in this.
inline at::Tensor TorchBlob(const Tensor& tensor) { return TorchBlobBy<TorchNames>(tensor); }

}  // namespace ringfeed

#endif  // TORCH_API
