#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/recordio/recordio.h"
#include "ringfeed/formats.h"
#include "ringfeed/source.h"

namespace ringfeed {
namespace {

Status ReadChunkPlace(Source* source, std::uint64_t offset, std::uint64_t left,
                      RecordIoChunkPlace* place) {
  std::array<std::byte, RecordIoLayout::kHeaderBytes> header;
  std::size_t got = 0;
  if (left < header.size()) {
    return Status(StatusCode::kTruncated, "the file ends inside a chunk's header");
  }
  Status status = source->ReadAt(offset, header, &got);
  if (!status.ok()) return status;
  if (got < header.size()) return Status(StatusCode::kTruncated, "the file shrank");
  if (LoadLe<std::uint32_t>(header.data()) != RecordIoLayout::kMagic) {
    return Status(StatusCode::kDamaged, "no chunk begins here: the magic number is another");
  }
  const RecordIoChunk chunk = ReadRecordIoHeader(header.data());
  *place = {offset, header.size() + std::uint64_t{chunk.stored_bytes}, chunk.records};
  if (place->bytes > left) {
    return Status(StatusCode::kTruncated, "a chunk of " + std::to_string(chunk.stored_bytes) +
                                              " bytes reaches past the end of the file");
  }
  return {};
}

}  // namespace

RecordIoIndex LoadRecordIoIndex(const std::string& path) {
  RecordIoIndex index;
  const std::unique_ptr<Source> file = OpenFileRange(path, 0, kToEnd);
  std::uint64_t offset = 0;
  while (index.status.ok() && offset < file->Size()) {
    RecordIoChunkPlace place;
    index.status = ReadChunkPlace(file.get(), offset, file->Size() - offset, &place)
                       .WithPlace({path, static_cast<std::int64_t>(offset), -1});
    if (!index.status.ok()) break;
    index.chunks.push_back(place);
    offset += place.bytes;
  }
  return index;
}

std::unique_ptr<Source> OpenRecordIoChunks(const std::string& path, std::uint64_t first,
                                           std::uint64_t count) {
  const RecordIoIndex index = LoadRecordIoIndex(path);
  const std::uint64_t known = index.chunks.size();
  const bool reaches_damage = first > known || count > known - first;
  if (!index.status.ok() && reaches_damage) throw Error(index.status);
  const std::uint64_t begin = std::min(first, known);
  const std::uint64_t end = begin + std::min(count, known - begin);
  if (begin == end) return OpenFileRange(path, 0, 0);
  const RecordIoChunkPlace& last = index.chunks[end - 1];
  const std::uint64_t offset = index.chunks[begin].offset;
  return OpenFileRange(path, offset, last.offset + last.bytes - offset);
}

}  // namespace ringfeed
