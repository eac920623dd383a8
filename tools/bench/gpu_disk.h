#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/gpu_device.h"

namespace ringfeed::tools {

/// Files of rows with random contents in a new folder under the temporary one; deleted with this
/// object.
class DiskFiles {
 public:
  static constexpr std::size_t kRowBytes = 4096;
  static constexpr std::size_t kBatchBytes = std::size_t{4} << 20;

  /// About `bytes` in all, at least a batch in each of 8 files. Throws Error if they cannot be
  /// written.
  explicit DiskFiles(std::uint64_t bytes);
  ~DiskFiles();
  DiskFiles(const DiskFiles&) = delete;
  DiskFiles& operator=(const DiskFiles&) = delete;

  const std::vector<std::string>& names() const { return names_; }
  std::uint64_t bytes() const { return bytes_; }
  /// Of each run of kBatchBytes, as the Checksum kernel takes it, sorted.
  const std::vector<std::uint64_t>& checksums() const { return checksums_; }
  /// Throws Error if they stay in the page cache.
  void MakeCold() const;

 private:
  void Write(std::uint64_t file_bytes);

  std::string folder_;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> checksums_;
  std::uint64_t bytes_ = 0;
};

/// Bytes per second of plain O_DIRECT reads of the files (ReadLimit). Throws Error if the file
/// system has no O_DIRECT.
double ReadPlainly(const DiskFiles& files);

struct DiskFeedResult {
  double bytes_per_s = 0;  ///< from the start of the feed until the last batch is on the device
  bool verified = false;   ///< every run of kBatchBytes came once, as in the files
  std::string io;          ///< how most files were read
};
/// The files, cold, through a feed with checksums on the device.
DiskFeedResult FeedFromDisk(const OwnedDevice& device, const DiskFiles& files);

}  // namespace ringfeed::tools
