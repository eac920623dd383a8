#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

// The part of cuFile's interface (libcufile.so.0 of CUDA 11.4 to 13) that ringfeed calls, as NVIDIA
// documents it: its header is not needed to build, nor the library to run.

namespace ringfeed::cufile {

/// The result of most calls, by value: a C struct.
struct Status {
  int error;       ///< 0, or from kFirstError on
  int cuda_error;  ///< if `error` is kCudaError
};
inline constexpr int kFirstError = 5000;
inline constexpr int kCudaError = 5011;

/// A file, registered.
using Handle = void*;

/// What is registered.
struct Descriptor {
  int type = kDescriptor;
  union {
    int descriptor;
    void* handle;
  } of{};
  const void* operations = nullptr;

  static constexpr int kDescriptor = 1;
};

/// The driver's facts about itself, with room for what later versions add.
struct Properties {
  unsigned major_version = 0;  ///< of nvidia-fs; 0: it is not loaded
  unsigned minor_version = 0;
  std::size_t poll_threshold_bytes = 0;
  std::size_t most_direct_io_bytes = 0;
  unsigned status_flags = 0;
  unsigned control_flags = 0;
  unsigned features = 0;
  std::array<unsigned, 5> limits{};
  std::array<unsigned char, 512> later{};
};

static_assert(sizeof(Status) == 8 && sizeof(Descriptor) == 24);

/// Parameters of cuFileSetParameterBool.
inline constexpr int kAllowCompatMode = 1;
inline constexpr int kForceCompatMode = 2;

/// Its calls. Null if the library is too old to have one.
struct Api {
  Status (*driver_open)() = nullptr;
  Status (*driver_close)() = nullptr;
  Status (*driver_properties)(Properties*) = nullptr;
  Status (*handle_register)(Handle*, Descriptor*) = nullptr;
  void (*handle_deregister)(Handle) = nullptr;
  Status (*buffer_register)(const void*, std::size_t, int) = nullptr;
  Status (*buffer_deregister)(const void*) = nullptr;
  /// Bytes; -1 and errno; or a negative error.
  ssize_t (*read)(Handle, void* base, std::size_t bytes, off_t file_offset,
                  off_t buffer_offset) = nullptr;

  long (*use_count)() = nullptr;                 ///< may be null
  Status (*set_parameter)(int, bool) = nullptr;  ///< may be null: before 1.14
};

}  // namespace ringfeed::cufile
