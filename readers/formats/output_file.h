#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// A file that is written front to back under a temporary name beside its own, and renamed when
/// it is complete. Removed if it never is. After a failure every call returns it.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status Open();
  Status Append(std::span<const std::byte> bytes);
  Status AppendZeros(std::size_t count);
  Status Commit();

 private:
  Status WriteOut(std::span<const std::byte> bytes);
  Status Fail(int error_number, const std::string& what);

  const std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  std::vector<std::byte> buffer_;
  Status status_;
};

}  // namespace ringfeed
