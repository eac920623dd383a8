#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "readers/formats/format.h"

namespace ringfeed {

/// PaddlePaddle's RecordIO: a file is chunks back to back, without a header or an index of its own.
/// A chunk is 20 bytes of little-endian u32 and a payload of records, each after its u32 length:
///   Fluid (C++):  magic, records, checksum, compressor, stored bytes
///   Go:           magic, checksum, compressor, stored bytes, records
/// The checksum is the CRC-32 of the payload as it is stored. Facts read off Paddle's
/// paddle/fluid/recordio and github.com/PaddlePaddle/recordio.
struct RecordIoLayout {
  static constexpr std::uint32_t kMagic = 0x01020304;
  static constexpr std::size_t kHeaderBytes = 20;
  static constexpr std::size_t kLengthBytes = 4;
};

enum class RecordIoDialect : std::uint8_t { kFluid, kGo };
enum class RecordIoCompressor : std::uint8_t { kNone = 0, kSnappy = 1, kGzip = 2 };

/// A chunk's header, of either dialect.
struct RecordIoChunk {
  RecordIoDialect dialect = RecordIoDialect::kFluid;
  std::uint32_t records = 0;
  std::uint32_t checksum = 0;
  std::uint32_t compressor = 0;  ///< as it is in the file
  std::uint32_t stored_bytes = 0;
};

/// Reads the header that starts with a magic number which was compared already. The fourth word
/// tells the dialects apart: a compressor in one, in the other the stored bytes, which are never so
/// few.
RecordIoChunk ReadRecordIoHeader(const std::byte* header);
void WriteRecordIoHeader(const RecordIoChunk& chunk, std::byte* header);

/// How a file is written. Reading takes any mixture of dialects and compressors.
struct RecordIoOptions {
  RecordIoDialect dialect = RecordIoDialect::kFluid;
  RecordIoCompressor compressor = RecordIoCompressor::kSnappy;  ///< both ancestors' default
};

/// "", "fluid", "go", "none", "fluid,snappy", …: what follows "recordio:".
Status ParseRecordIoOptions(std::string_view text, RecordIoOptions* options);

std::shared_ptr<const Format> RecordIoFormat(const RecordIoOptions& options);
std::unique_ptr<Framer> NewRecordIoFramer(const FramerOptions& options);
std::unique_ptr<UnitFramer> NewRecordIoUnitFramer(const FramerOptions& options);

}  // namespace ringfeed
