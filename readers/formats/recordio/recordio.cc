#include "readers/formats/recordio/recordio.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32.h"
#include "base/edit_distance.h"
#include "base/little_endian.h"
#include "readers/formats/compression/compressor.h"
#include "readers/formats/compression/snappy_frames.h"
#include "readers/formats/writing/file_record_writer.h"
#include "ringfeed/formats.h"
#include "ringfeed/source.h"

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

constexpr std::uint32_t kMostCompressor = 3;  // of any dialect in the wild

class RecordIo final : public Format {
 public:
  explicit RecordIo(const RecordIoOptions& options) : options_(options) {}

  std::string_view name() const override { return "recordio"; }

  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with(".recordio");
  }

  bool MatchesBytes(std::span<const std::byte> head) const override {
    return head.size() >= RecordIoLayout::kLengthBytes &&
           LoadLe<std::uint32_t>(head.data()) == RecordIoLayout::kMagic;
  }

  bool units_by_headers() const override { return true; }

  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewRecordIoFramer(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return NewRecordIoUnitFramer(options);
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t /*offset*/) const override {
    return NewFramer(options);  // it looks for a record if none starts there
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), std::make_unique<RecordIoWriter>(std::move(file), options_)};
  }
  RowEncoderResult NewRowEncoder(const std::vector<FieldSpec>& fields) const override {
    return {Status(), NewExampleEncoder(fields)};
  }

 private:
  const RecordIoOptions options_;
};

bool ReadWord(std::string_view word, RecordIoOptions* options) {
  if (word == "fluid") {
    options->dialect = RecordIoDialect::kFluid;
  } else if (word == "go") {
    options->dialect = RecordIoDialect::kGo;
  } else if (word == "none") {
    options->compressor = RecordIoCompressor::kNone;
  } else if (word == "snappy") {
    options->compressor = RecordIoCompressor::kSnappy;
  } else if (word == "gzip") {
    options->compressor = RecordIoCompressor::kGzip;
  } else {
    return false;
  }
  return true;
}

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

RecordIoChunk ReadRecordIoHeader(const std::byte* header) {
  const auto word = [header](std::size_t number) {
    return LoadOnceLe<std::uint32_t>(header + 4 * number);
  };
  RecordIoChunk chunk;
  if (word(3) <= kMostCompressor) {
    chunk = {RecordIoDialect::kFluid, word(1), word(2), word(3), word(4)};
  } else {
    chunk = {RecordIoDialect::kGo, word(4), word(1), word(2), word(3)};
  }
  return chunk;
}

void WriteRecordIoHeader(const RecordIoChunk& chunk, std::byte* header) {
  const bool fluid = chunk.dialect == RecordIoDialect::kFluid;
  const std::uint32_t words[] = {
      RecordIoLayout::kMagic,
      fluid ? chunk.records : chunk.checksum,
      fluid ? chunk.checksum : chunk.compressor,
      fluid ? chunk.compressor : chunk.stored_bytes,
      fluid ? chunk.stored_bytes : chunk.records,
  };
  for (const std::uint32_t word : words) {
    StoreLe(header, word);
    header += sizeof(word);
  }
}

Status ParseRecordIoOptions(std::string_view text, RecordIoOptions* options) {
  *options = {};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (!ReadWord(rest.substr(0, comma), options)) {
      const std::array<std::string, 5> words = {"fluid", "go", "none", "snappy", "gzip"};
      return Status(StatusCode::kInvalidArgument,
                    "format \"recordio:" + std::string(text) + "\": \"" +
                        std::string(rest.substr(0, comma)) +
                        "\" is none of fluid, go, none, snappy, gzip" +
                        DidYouMeanWord(rest.substr(0, comma), words));
    }
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  const bool fluid = options->dialect == RecordIoDialect::kFluid;
  if (fluid && options->compressor == RecordIoCompressor::kGzip) {
    return Status(StatusCode::kInvalidArgument,
                  "Fluid never read gzip: write recordio:go,gzip, or recordio:fluid,snappy");
  }
  return {};
}

std::shared_ptr<const Format> RecordIoFormat(const RecordIoOptions& options) {
  return std::make_shared<const RecordIo>(options);
}

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
