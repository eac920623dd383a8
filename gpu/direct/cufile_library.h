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

/// What moves the bytes of cuFile's reads.
enum class CuFilePath : std::uint8_t {
  kDriver,      ///< GPUDirect by NVIDIA's driver, nvidia-fs
  kPeerToPeer,  ///< GPUDirect by the kernel's peer-to-peer DMA
  kCompatible,  ///< cuFile's compatibility mode: the host reads and copies
  kUnknown,     ///< one of these: this cuFile, or its state, does not tell
};
/// In words.
std::string_view CuFilePathName(CuFilePath path);

/// libcufile.so.0, loaded at run time, and its driver, which a process opens once. What was loaded
/// stays. Thread safe.
class CuFileLibrary {
 public:
  /// The one of that path; "": as RINGFEED_CUFILE says, else libcufile.so.0 as the system finds it.
  static std::shared_ptr<CuFileLibrary> Of(const std::string& path = {});
  /// Whether RINGFEED_CUFILE names one. Loads nothing.
  static bool IsNamed();
  explicit CuFileLibrary(std::string path);

  /// Why there is none; empty where it is loaded.
  const std::string& why_not() const { return why_not_; }
  /// Whether its path was named, by a program or RINGFEED_CUFILE.
  bool named() const { return named_; }
  const cufile::Api& api() const { return api_; }

  /// Opens the driver, where that was not done, in the best mode that `try_read` succeeds in: a
  /// read of the kind that it is for. With `only_direct` never in the compatibility mode. Blocks
  /// for as long as the driver takes, half a second. The calling thread has a device.
  Status OpenDriver(bool only_direct, const std::function<Status()>& try_read);
  /// Behind OpenDriver.
  CuFilePath path() const;

 private:
  std::string Load(const std::string& path);
  Status Open(bool allow_compat);
  /// In whatever mode it is set to.
  Status OpenAsItIs();
  /// Behind one of these: whether the driver is kept open, by what a read says.
  Status Try(CuFilePath path, const std::function<Status()>& try_read);
  void Close();

  bool named_ = false;
  std::string why_not_;
  cufile::Api api_;

  mutable std::mutex mutex_;  ///< guards what follows
  bool is_open_ = false;
  CuFilePath path_ = CuFilePath::kUnknown;
};

/// "cuFileRead: error 5027"; cuda_error where that is what failed.
Status CuFileFailure(const char* call, cufile::Status status);
Status CuFileReadFailure(ssize_t result, int error_number);

}  // namespace ringfeed
