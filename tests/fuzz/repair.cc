#include "tests/fuzz/repair.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>

#include "base/crc32.h"
#include "base/crc32c.h"
#include "base/highway_hash.h"
#include "base/little_endian.h"
#include "readers/formats/array_record/chunk.h"
#include "readers/formats/recordio/recordio.h"

namespace ringfeed {
namespace {

void RepairTfRecord(std::span<std::byte> rest) {
  constexpr std::size_t kHeader = 12;
  constexpr std::size_t kFrame = 16;
  while (rest.size() >= kFrame) {
    const auto length = LoadLe<std::uint64_t>(rest.data());
    StoreLe(rest.data() + 8, MaskCrc32c(Crc32c(rest.first(8))));
    if (length > rest.size() - kFrame) return;
    const auto size = static_cast<std::size_t>(length);
    StoreLe(rest.data() + kHeader + size, MaskCrc32c(Crc32c(rest.subspan(kHeader, size))));
    rest = rest.subspan(size + kFrame);
  }
}

void RepairRecordIo(std::span<std::byte> rest) {
  constexpr std::size_t kHeader = RecordIoLayout::kHeaderBytes;
  while (rest.size() >= kHeader) {
    RecordIoChunk chunk = ReadRecordIoHeader(rest.data());
    if (chunk.stored_bytes > rest.size() - kHeader) return;
    chunk.checksum = Crc32(rest.subspan(kHeader, chunk.stored_bytes));
    WriteRecordIoHeader(chunk, rest.data());
    rest = rest.subspan(kHeader + chunk.stored_bytes);
  }
}

// Every block that says that it is a header.
void RepairTar(std::span<std::byte> rest) {
  constexpr std::size_t kBlock = 512;
  constexpr std::size_t kChecksumAt = 148;
  constexpr std::size_t kChecksumBytes = 8;
  constexpr std::size_t kMagicAt = 257;
  for (; rest.size() >= kBlock; rest = rest.subspan(kBlock)) {
    if (rest[kMagicAt] != std::byte{'u'} || rest[kMagicAt + 1] != std::byte{'s'}) continue;
    const std::span<std::byte> checksum = rest.subspan(kChecksumAt, kChecksumBytes);
    std::fill(checksum.begin(), checksum.end(), std::byte{' '});
    unsigned sum = 0;
    for (const std::byte byte : rest.first(kBlock)) sum += std::to_integer<unsigned>(byte);
    char digits[kChecksumBytes];
    std::snprintf(digits, sizeof digits, "%06o", sum & 0777777U);
    std::transform(digits, digits + 7, checksum.begin(), [](char c) { return std::byte(c); });
  }
}

// The hashes of the chunk that begins there; returns where it ends, as far as its size is believed.
std::size_t RepairChunk(std::span<std::byte> file, std::size_t begin) {
  constexpr std::size_t kHeader = RiegeliLayout::kChunkHeaderBytes;
  const auto place = [begin](std::size_t byte) {
    const std::size_t at = begin + RiegeliChunkBytes(begin, byte);
    return at % RiegeliLayout::kBlockBytes == 0 ? at + RiegeliLayout::kBlockHeaderBytes : at;
  };
  std::vector<std::byte> chunk;
  const auto read = [&](std::size_t bytes) {
    while (chunk.size() < bytes && place(chunk.size()) < file.size()) {
      chunk.push_back(file[place(chunk.size())]);
    }
    return chunk.size() == bytes;
  };
  const auto write = [&](std::size_t at, std::size_t from) {
    const std::uint64_t hash =
        HighwayHash64(std::span(chunk).subspan(from), RiegeliLayout::kHashKey);
    StoreLe(chunk.data() + at, hash);
    for (std::size_t i = at; i < at + sizeof hash; ++i) file[place(i)] = chunk[i];
  };
  if (!read(kHeader)) return file.size();
  const auto stored = LoadLe<std::uint64_t>(chunk.data() + 8);
  const bool whole = stored < file.size() && read(kHeader + static_cast<std::size_t>(stored));
  if (whole) write(16, kHeader);
  chunk.resize(kHeader);
  write(0, 8);
  return whole ? begin + RiegeliChunkBytes(begin, kHeader + stored) : file.size();
}

// Chunks that follow each other, and the postscript.
void RepairArrayRecord(std::span<std::byte> file) {
  constexpr std::size_t kBlock = RiegeliLayout::kBlockBytes;
  if (file.size() < 2 * kBlock) return;
  for (std::size_t at = 0; at < file.size() - kBlock;) at = RepairChunk(file, at);
  (void)RepairChunk(file, file.size() - kBlock);
}

}  // namespace

void RepairChecksums(std::string_view format, std::vector<std::byte>* file) {
  if (format == "tfrecord") RepairTfRecord(*file);
  if (format == "recordio") RepairRecordIo(*file);
  if (format == "tar") RepairTar(*file);
  if (format == "arrayrecord") RepairArrayRecord(*file);
}

}  // namespace ringfeed
