#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32.h"
#include "base/little_endian.h"
#include "readers/formats/compression/compressor.h"
#include "readers/formats/compression/snappy_frames.h"
#include "readers/formats/recordio/recordio.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

// Fluid's writer cuts by count, Go's by bytes. Both limits hold for both here: a chunk of a
// thousand large records would outgrow its u32.
constexpr std::uint32_t kFluidChunkRecords = 1000;
constexpr std::size_t kChunkBytes = std::size_t{32} << 20;

class RecordIoWriter final : public FileRecordWriter {
 public:
  RecordIoWriter(std::unique_ptr<OutputFile> file, const RecordIoOptions& options)
      : FileRecordWriter(std::move(file)), options_(options) {}

 private:
  Status Append(std::span<const std::byte> record) override;
  Status EndChunk() override { return records_ == 0 ? Status() : WriteChunk(); }
  Status Finish() override { return EndChunk(); }
  Status WriteChunk();
  std::span<const std::byte> Compressed();

  const RecordIoOptions options_;
  std::vector<std::byte> payload_;
  std::vector<std::byte> stored_;
  std::uint32_t records_ = 0;
};

Status RecordIoWriter::Append(std::span<const std::byte> record) {
  constexpr std::size_t kLength = RecordIoLayout::kLengthBytes;
  // Snappy and gzip add a little to what does not compress.
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max() / 8 * 7;
  if (record.size() > kMost) {
    return Status(StatusCode::kInvalidArgument,
                  "a RecordIO chunk counts its bytes in 32 bits: a record of " +
                      std::to_string(record.size()) + " bytes does not fit");
  }
  if (records_ > 0 && payload_.size() + kLength + record.size() > kChunkBytes) {
    Status status = WriteChunk();
    if (!status.ok()) return status;
  }
  std::array<std::byte, kLength> length;
  StoreLe(length.data(), static_cast<std::uint32_t>(record.size()));
  payload_.insert(payload_.end(), length.begin(), length.end());
  payload_.insert(payload_.end(), record.begin(), record.end());
  ++records_;
  const bool full = options_.dialect == RecordIoDialect::kFluid && records_ == kFluidChunkRecords;
  return full ? WriteChunk() : Status();
}

std::span<const std::byte> RecordIoWriter::Compressed() {
  stored_.clear();
  switch (options_.compressor) {
    case RecordIoCompressor::kNone:
      return payload_;
    case RecordIoCompressor::kSnappy:
      SnappyFramedCompress(options_.dialect == RecordIoDialect::kFluid ? SnappyFraming::kStream
                                                                       : SnappyFraming::kOfficial,
                           payload_, &stored_);
      break;
    case RecordIoCompressor::kGzip:
      AppendGzipMember(payload_, &stored_);
      break;
  }
  return stored_;
}

Status RecordIoWriter::WriteChunk() {
  const std::span<const std::byte> stored = Compressed();
  RecordIoChunk chunk;
  chunk.dialect = options_.dialect;
  chunk.records = records_;
  chunk.checksum = Crc32(stored);
  chunk.compressor = static_cast<std::uint32_t>(options_.compressor);
  chunk.stored_bytes = static_cast<std::uint32_t>(stored.size());
  std::array<std::byte, RecordIoLayout::kHeaderBytes> header;
  WriteRecordIoHeader(chunk, header.data());
  Status status = file().Append(header);
  if (status.ok()) status = file().Append(stored);
  payload_.clear();
  records_ = 0;
  return status;
}

}  // namespace

std::unique_ptr<RecordWriter> NewRecordIoWriter(std::unique_ptr<OutputFile> file,
                                                const RecordIoOptions& options) {
  return std::make_unique<RecordIoWriter>(std::move(file), options);
}

}  // namespace ringfeed
