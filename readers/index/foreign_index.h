#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file_mapping.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The failure of another program's index that does not fit its file.
Status NotBelieved(const std::string& why);

/// Maps another program's index. kNotFound if there is none. Blocks.
Status MapForeignIndex(const std::string& path, std::shared_ptr<const FileMapping>* mapping);

/// Reads headers of a file in the order of their places. Those that are close to each other are
/// read together. One thread.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& file);
  ~HeaderReader();
  HeaderReader(const HeaderReader&) = delete;
  HeaderReader& operator=(const HeaderReader&) = delete;

  /// Sets *header to the `bytes` bytes from `offset` on, or to those that the file has, up to the
  /// next call. `to_next`: the next header is about so far away. Blocks.
  Status Read(std::uint64_t offset, std::size_t bytes, std::uint64_t to_next,
              std::span<const std::byte>* header);

 private:
  static constexpr std::size_t kWindowBytes = std::size_t{64} << 10;
  static constexpr std::uint64_t kCloseBytes = std::uint64_t{8} << 10;

  const int descriptor_;
  Status status_;
  std::vector<std::byte> window_;
  std::uint64_t begin_ = 0;
};

}  // namespace ringfeed
