#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ringfeed/tensor.h"

/// Tensors for other libraries without a copy, as DLPack describes them: NumPy, PyTorch, JAX, CuPy,
/// TVM and others take them. The structures are those of DLPack's C header, byte by byte: if
/// that header is included too, cast the pointers.
namespace ringfeed::dlpack {

/// What ExportVersioned promises: among others that strides are never null.
inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint32_t kMinorVersion = 2;

// Names of a PyCapsule that holds an export, before and after a consumer took it over.
inline constexpr const char* kCapsuleName = "dltensor";
inline constexpr const char* kUsedCapsuleName = "used_dltensor";
inline constexpr const char* kVersionedCapsuleName = "dltensor_versioned";
inline constexpr const char* kUsedVersionedCapsuleName = "used_dltensor_versioned";

/// Kinds of devices that ringfeed has tensors on.
enum DLDeviceType : std::int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,  ///< host memory that is pinned for CUDA
};

/// A device by its kind and number.
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
  friend bool operator==(const DLDevice&, const DLDevice&) = default;
};

/// Kinds of elements; DLDataType::bits says how large they are.
enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLBool = 6,
};

/// The type of an element.
struct DLDataType {
  std::uint8_t code;  ///< a DLDataTypeCode
  std::uint8_t bits;  ///< of one lane
  std::uint16_t lanes;
  friend bool operator==(const DLDataType&, const DLDataType&) = default;
};

/// Memory with a type and a shape. It owns nothing.
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements
  std::uint64_t byte_offset;
};

/// Without a version: what libraries from before DLPack 1.0 take.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

/// The version of DLPack that a structure follows.
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

inline constexpr std::uint64_t kReadOnlyFlag = 1;
inline constexpr std::uint64_t kIsCopiedFlag = 2;

/// With a version and flags: what DLPack 1.0 and later take.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4 && sizeof(DLPackVersion) == 8);
static_assert(sizeof(void*) != 8 ||
              (sizeof(DLTensor) == 48 && offsetof(DLTensor, device) == 8 &&
               offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
               offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, strides) == 32 &&
               offsetof(DLTensor, byte_offset) == 40));
static_assert(sizeof(void*) != 8 ||
              (sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, manager_ctx) == 48 &&
               offsetof(DLManagedTensor, deleter) == 56));
static_assert(sizeof(void*) != 8 || (sizeof(DLManagedTensorVersioned) == 80 &&
                                     offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
                                     offsetof(DLManagedTensorVersioned, deleter) == 16 &&
                                     offsetof(DLManagedTensorVersioned, flags) == 24 &&
                                     offsetof(DLManagedTensorVersioned, dl_tensor) == 32));

/// DLPack's type of elements of `dtype`. Never fails: it knows all dtypes of ringfeed.
DLDataType DataTypeOf(DType dtype) noexcept;
/// The dtype of DLPack's type; none if ringfeed has no such dtype (vectors, complex numbers, fp8,
/// …).
std::optional<DType> DTypeOf(const DLDataType& type) noexcept;

/// DLPack's device of a place. An emulated device is the CPU: its memory is host memory.
DLDevice DeviceOf(Place place) noexcept;
/// The place of DLPack's device; pinned host memory is the CPU's. None for devices that ringfeed
/// does not know.
std::optional<Place> PlaceOf(const DLDevice& device) noexcept;

/// What an export says about its memory.
struct ExportOptions {
  /// The consumer is told not to write. A consumer that takes no read-only tensors needs false, and
  /// memory that nothing else reads.
  bool read_only = true;
  /// For host memory: it is pinned (registered with a CUDA backend), which the consumer may use.
  bool pinned = false;
};

/// Exports a tensor, its memory shared, not copied. The result owns a share of `tensor.owner`, and
/// is itself owned by the caller until it calls result->deleter(result), or a consumer does: once,
/// from any thread. That drops the share and frees the result with all it points to.
///
/// A tensor without elements has null data. Of a ragged tensor the values are exported, its `lod`
/// is not. The dimensions must fit tensor.bytes (asserted).
///
/// For device memory: the exporter ensures that the consumer's stream comes after the copy that
/// filled it. The deleter names no stream: the owner must know which streams read the memory.
DLManagedTensorVersioned* ExportVersioned(const Tensor& tensor, const ExportOptions& options = {});
/// As ExportVersioned, for libraries from before DLPack 1.0. It cannot say that memory is
/// read-only.
DLManagedTensor* ExportUnversioned(const Tensor& tensor, const ExportOptions& options = {});

}  // namespace ringfeed::dlpack
