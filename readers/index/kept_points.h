#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "readers/formats/compression/seek_points.h"
#include "readers/index/folder_index.h"
#include "readers/index/index_image.h"
#include "readers/index/kept_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The first bytes of kept seek points, little-endian. The points follow, each a SeekPoint as it is
/// in memory, then their windows, each a frame of zstd without a checksum: a span has one.
struct PointsHeader {
  static constexpr std::string_view kMagic{"ringfeed points\n", 16};
  static constexpr std::uint32_t kVersion = 1;

  std::array<char, 16> magic{};
  std::uint32_t version = 0;
  std::uint32_t checksum = 0;  ///< CRC-32C of the header with zero here, and of all that follows
  FileIdentity file;           ///< the compressed one
  std::uint32_t compression = 0;
  std::uint32_t sum = 0;
  std::uint64_t content_bytes = 0;
  std::uint64_t points = 0;
};
static_assert(sizeof(PointsHeader) == 16 + 8 + 40 + 8 + 16);

/// Points as they are kept.
struct KeptPoints {
  std::string path;   ///< of the place where they are, or would be
  FileIdentity file;  ///< the compressed one as it was
  std::int64_t written_ns = 0;
  SeekPoints points;
};
/// Opens kept points; CheckState tells whether they are of a file as it is. kNotFound if there are
/// none; kInvalidArgument, of another version; kDamaged. Blocks.
Status LoadPoints(const IndexPlace& place, FolderIndexes* folders, KeptPoints* kept);
/// Keeps them. *path is where they are, *bytes how many they take. Blocks.
Status SavePoints(const IndexPlace& place, const FileIdentity& file, const SeekPoints& points,
                  FolderIndexes* folders, std::string* path, std::uint64_t* bytes);

}  // namespace ringfeed
