#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): LibTorch's names.

// What LibTorch has of the names that torch_blob.h calls, with their signatures: it notes what it
// was given. LibTorch's headers define the macro.
#define TORCH_API

namespace at {

enum class ScalarType : std::int8_t {
  Byte,
  Char,
  Short,
  Int,
  Long,
  Half,
  Float,
  Double,
  Bool,
  BFloat16,
  UInt16,
  UInt32,
  UInt64,
  Undefined,
};

enum class DeviceType : std::int8_t { CPU, CUDA };
inline constexpr DeviceType kCPU = DeviceType::CPU;
inline constexpr DeviceType kCUDA = DeviceType::CUDA;
using DeviceIndex = std::int8_t;

struct Device {
  explicit Device(DeviceType device_type, DeviceIndex device_index = -1)
      : type(device_type), index(device_index) {}
  DeviceType type;
  DeviceIndex index;
};

struct TensorOptions {
  TensorOptions dtype(ScalarType type) const {
    TensorOptions options = *this;
    options.scalar_type = type;
    return options;
  }
  TensorOptions device(Device found) const {
    TensorOptions options = *this;
    options.where = found;
    return options;
  }
  TensorOptions requires_grad(bool wanted) const {
    TensorOptions options = *this;
    options.grad = wanted;
    return options;
  }

  ScalarType scalar_type = ScalarType::Undefined;
  Device where = Device(kCPU, 77);
  bool grad = true;
};

using IntArrayRef = std::span<const std::int64_t>;

/// Copies share their memory, as LibTorch's do; the last one runs the deleter.
struct Tensor {
  std::vector<std::int64_t> sizes;
  TensorOptions options;
  std::shared_ptr<void> storage;
};

}  // namespace at

namespace torch {

using Deleter = std::function<void(void*)>;

inline at::Tensor from_blob(void* data, at::IntArrayRef sizes, const Deleter& deleter,
                            const at::TensorOptions& options = {}) {
  return {{sizes.begin(), sizes.end()}, options, std::shared_ptr<void>(data, deleter)};
}

inline at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options = {}) {
  return {{sizes.begin(), sizes.end()}, options, nullptr};
}

}  // namespace torch
// NOLINTEND(readability-identifier-naming)
