#include "readers/formats/recordio/recordio.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

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

  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewRecordIoFramer(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return NewRecordIoUnitFramer(options);
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t /*offset*/) const override {
    return NewFramer(options);  // it looks for a record wherever none starts
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), NewRecordIoWriter(std::move(file), options_)};
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
      return Status(StatusCode::kInvalidArgument,
                    "format \"recordio:" + std::string(text) + "\": \"" +
                        std::string(rest.substr(0, comma)) +
                        "\" is none of fluid, go, none, snappy, gzip");
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

}  // namespace ringfeed
