#pragma once

#include <cstdint>
#include <stop_token>
#include <string_view>

#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What another program's index says of a tar file, asked from its first sample to its end. Each
/// call fails with NotBelieved if the index says otherwise.
class ListedSamples {
 public:
  virtual ~ListedSamples() = default;

  /// The next sample begins at `at`, with its headers.
  virtual Status Begin(std::uint64_t at) = 0;
  /// It has such a member, whose `bytes` bytes are at `at`.
  virtual Status Member(std::string_view extension, std::uint64_t at, std::uint64_t bytes) = 0;
  /// It was the last one, and the zeros of the end begin at `at`.
  virtual Status End(std::uint64_t at) = 0;
};

/// Goes from header to header, as the framer of tar does, and compares the samples with `listed`.
/// The image has all but the file's identity. Blocks. kDamaged, with the reason, if they differ or
/// the archive is damaged; kCancelled soon after `stop` is requested.
Status CheckTar(const IndexedFile& file, ListedSamples* listed, IndexImage* image,
                const std::stop_token& stop);

}  // namespace ringfeed
