#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "readers/formats/examined_file.h"
#include "readers/index/indexed_file.h"
#include "readers/index/open_index.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// ExamineFile, or Manifest::Examine if there is a manifest, which has the file under `number`. Of
/// a compressed file with seek points, kept ones or those of zstd's seekable format, the content is
/// examined: `object` reads it, and `compression` is kNone. If kept points are of no use, a warning
/// says why. Blocks.
ExaminedFile ExamineListed(const IndexOptions& index, std::size_t number, const std::string& name,
                           const std::shared_ptr<Source>& source, const std::string& format,
                           std::uint64_t stripe_bytes);

struct MadePoints {
  Status status;
  std::size_t points = 0;
  std::uint64_t bytes = 0;  ///< that keeping them takes
  std::string path;
};
/// Makes and keeps the seek points of a compressed file, and then reads it once. Fails as
/// MakeSeekPoints, and if they cannot be kept. Blocks.
MadePoints MakePoints(const IndexedFile& file, const IndexOptions& options);

}  // namespace ringfeed
