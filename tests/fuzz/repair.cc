#include "tests/fuzz/repair.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>

#include "base/crc32.h"
#include "base/crc32c.h"
#include "base/little_endian.h"
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

}  // namespace

void RepairChecksums(std::string_view format, std::vector<std::byte>* file) {
  if (format == "tfrecord") RepairTfRecord(*file);
  if (format == "recordio") RepairRecordIo(*file);
  if (format == "tar") RepairTar(*file);
}

}  // namespace ringfeed
