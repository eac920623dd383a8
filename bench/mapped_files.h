#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ringfeed::bench {

/// Files that stay mapped, every page of them touched: what a loop over mapped files is given
/// before its time is taken. Throws Error where one cannot be mapped.
class MappedFiles {
 public:
  explicit MappedFiles(const std::vector<std::string>& paths);
  ~MappedFiles();
  MappedFiles(const MappedFiles&) = delete;
  MappedFiles& operator=(const MappedFiles&) = delete;

  /// The bytes of each, in the order of `paths`.
  const std::vector<std::span<const std::byte>>& files() const { return files_; }

 private:
  std::vector<std::span<const std::byte>> files_;
};

}  // namespace ringfeed::bench
