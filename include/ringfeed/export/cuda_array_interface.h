#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// The fields of Python's `__cuda_array_interface__`, version 3, for bindings that hand tensors to
/// Numba, CuPy and others. It keeps nothing alive: the Python object must hold the tensor. If there
/// is a choice take dlpack.h, which says when the memory is given back.
struct CudaArrayInterface {
  Shape shape;
  std::string typestr;                ///< "<f4": byte order, kind, bytes
  std::uintptr_t data = 0;            ///< with read_only the pair `data`; 0 without elements
  bool read_only = true;              ///< the second half of that pair
  std::vector<std::int64_t> strides;  ///< in bytes
  int version = 3;
  /// The stream that the consumer's work must come after: kLegacyStream, kPerThreadStream or a
  /// cudaStream_t as a number, never 0. None: the data are ready for any stream.
  std::optional<std::uintptr_t> stream;

  static constexpr std::uintptr_t kLegacyStream = 1;
  static constexpr std::uintptr_t kPerThreadStream = 2;
};

/// Describes a tensor on a CUDA device. `*array` is set only if OK is returned.
/// Errors: kInvalidArgument for a tensor in other memory and for stream 0, which the interface
/// forbids; kUnsupported for bfloat16, which it has no name for (cast it, or use DLPack).
Status DescribeCudaArray(const Tensor& tensor, std::optional<std::uintptr_t> stream,
                         CudaArrayInterface* array);

}  // namespace ringfeed
