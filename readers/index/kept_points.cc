#include "readers/index/kept_points.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

std::vector<std::byte> Encode(const FileIdentity& file, const SeekPoints& points) {
  PointsHeader header;
  std::copy(PointsHeader::kMagic.begin(), PointsHeader::kMagic.end(), header.magic.begin());
  header.version = PointsHeader::kVersion;
  header.file = file;
  header.compression = static_cast<std::uint32_t>(points.compression);
  header.sum = static_cast<std::uint32_t>(points.sum);
  header.content_bytes = points.content_bytes;
  header.points = points.points.size();
  std::vector<std::byte> bytes(sizeof(header));
  const auto table = std::as_bytes(std::span(points.points));
  bytes.insert(bytes.end(), table.begin(), table.end());
  bytes.insert(bytes.end(), points.windows.begin(), points.windows.end());
  header.checksum = HeaderChecksum(header, std::span(bytes).subspan(sizeof(header)));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Status Decode(std::span<const std::byte> bytes, FileIdentity* file, SeekPoints* points) {
  const auto damaged = [](const char* what) { return Status(StatusCode::kDamaged, what); };
  PointsHeader header;
  if (bytes.size() < sizeof(header)) return damaged("it is shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes = bytes.subspan(sizeof(header));
  Status status = CheckKind(header, "list of seek points");
  if (!status.ok()) return status;
  if (header.checksum != HeaderChecksum(header, bytes)) return damaged("it is damaged");
  const bool is_known = header.compression > static_cast<std::uint32_t>(Compression::kNone) &&
                        header.compression <= static_cast<std::uint32_t>(Compression::kSnappy) &&
                        header.sum == static_cast<std::uint32_t>(SpanSum::kCrc32c);
  if (!is_known || header.points > bytes.size() / sizeof(SeekPoint)) {
    return damaged("its header is damaged");
  }
  const auto table = bytes.first(static_cast<std::size_t>(header.points) * sizeof(SeekPoint));
  points->compression = static_cast<Compression>(header.compression);
  points->sum = static_cast<SpanSum>(header.sum);
  points->stored_bytes = header.file.bytes;
  points->content_bytes = header.content_bytes;
  points->points.resize(static_cast<std::size_t>(header.points));
  if (!table.empty()) std::memcpy(points->points.data(), table.data(), table.size());
  const auto windows = bytes.subspan(table.size());
  points->windows.assign(windows.begin(), windows.end());
  *file = header.file;
  return points->Check();
}

}  // namespace

Status LoadPoints(const IndexPlace& place, FolderIndexes* folders, KeptPoints* kept) {
  KeptFile file;
  const Status status = ReadKept(place, folders, &file);
  kept->path = file.path;
  kept->written_ns = file.written_ns;
  return status.ok() ? Decode(file.stored.bytes(), &kept->file, &kept->points) : status;
}

Status SavePoints(const IndexPlace& place, const FileIdentity& file, const SeekPoints& points,
                  FolderIndexes* folders, std::string* path, std::uint64_t* bytes) {
  const std::vector<std::byte> encoded = Encode(file, points);
  *bytes = encoded.size();
  return KeepWhereItFits(place, encoded, folders, path);
}

}  // namespace ringfeed
