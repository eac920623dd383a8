#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringfeed {

/// How the tests compress: by zlib and libzstd, which read nothing of what the library does.
struct CompressedForm {
  enum class Kind : std::uint8_t { kGzip, kZlib, kZstd };
  Kind kind = Kind::kGzip;
  std::size_t members = 1;      ///< the content is cut into so many of about the same size
  std::size_t flush_every = 0;  ///< bytes after which the writer flushes; 0: never
  int level = 6;
};

std::vector<std::byte> Compress(std::span<const std::byte> content, const CompressedForm& form);

}  // namespace ringfeed
