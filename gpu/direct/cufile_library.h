#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "gpu/direct/cufile_api.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The path of the bytes of cuFile's reads.
enum class CuFilePath : std::uint8_t {
  kDriver,      ///< GPUDirect by NVIDIA's driver, nvidia-fs
  kPeerToPeer,  ///< GPUDirect by the kernel's peer-to-peer DMA
  kCompatible,  ///< cuFile's compatibility mode: the host reads and copies
  kUnknown,     ///< one of these: this cuFile, or its state, does not tell
};
/// In words.
std::string_view CuFilePathName(CuFilePath path);

/// libcufile.so.0, loaded at run time, and its driver, which a process opens once. A loaded library
/// stays. Thread safe.
class CuFileLibrary {
 public:
  /// The library of that path; "": as RINGFEED_CUFILE says, else libcufile.so.0 as the system finds
  /// it.
  static std::shared_ptr<CuFileLibrary> Of(const std::string& path = {});
  /// Whether RINGFEED_CUFILE names a library. Loads nothing.
  static bool IsNamed();
  explicit CuFileLibrary(std::string path);

  /// Why there is none; empty if it is loaded.
  const std::string& why_not() const { return why_not_; }
  /// Whether a program or RINGFEED_CUFILE named its path.
  bool named() const { return named_; }
  const cufile::Api& api() const { return api_; }

  /// Opens the driver, unless it is open, in the best mode in which `try_read` succeeds; `try_read`
  /// makes a read of the kind that it is needed for. With `only_direct` never in the compatibility
  /// mode. Blocks for as long as the driver takes, half a second. The calling thread has a device.
  Status OpenDriver(bool only_direct, const std::function<Status()>& try_read);
  /// Call it after OpenDriver.
  CuFilePath path() const;

 private:
  std::string Load(const std::string& path);
  Status Open(bool allow_compat);
  /// Opens it in its present mode.
  Status OpenAsItIs();
  /// Call it after one of these: whether the driver is kept open, judged by a read.
  Status Try(CuFilePath path, const std::function<Status()>& try_read);
  void Close();

  bool named_ = false;
  std::string why_not_;
  cufile::Api api_;

  mutable std::mutex mutex_;  ///< guards what follows
  bool is_open_ = false;
  CuFilePath path_ = CuFilePath::kUnknown;
};

/// "cuFileRead: error 5027"; or cuda_error if CUDA failed.
Status CuFileFailure(const char* call, cufile::Status status);
Status CuFileReadFailure(ssize_t result, int error_number);

}  // namespace ringfeed
