#include <algorithm>
#include <string>
#include <utility>

#include "readers/formats/arrays/arrays.h"
#include "readers/formats/format.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

// The first read of a stream whose end is not known; doubled after that.
constexpr std::size_t kFirstPiece = 64 * 1024;

std::string TooLong(std::uint64_t bytes, const FramerOptions& options) {
  return "a raw file of " + std::to_string(bytes) + " bytes is longer than max_record_bytes (" +
         std::to_string(options.max_record_bytes) + ")";
}

class RawFileFramer final : public Framer {
 public:
  explicit RawFileFramer(const FramerOptions& options) : options_(options) {}

  FrameResult Frame(const FrameInput& input, FrameOutput* output) override;

 private:
  FrameResult WholeFile(const FrameInput& input, FrameOutput* output);
  FrameResult Damaged(StatusCode code, const std::string& reason, std::uint64_t end,
                      const FrameInput& input, FrameOutput* output);

  bool known_size() const { return options_.file_bytes != kUnknownSize; }

  const FramerOptions options_;
  bool done_ = false;
  Status failed_;
};

FrameResult RawFileFramer::Frame(const FrameInput& input, FrameOutput* output) {
  FrameResult result;
  result.status = failed_;
  if (!failed_.ok()) return result;
  result.consumed = input.bytes.size();
  if (done_) return result;
  const std::uint64_t promised = known_size() ? options_.file_bytes : input.bytes.size();
  if (promised > options_.max_record_bytes) {
    return Damaged(StatusCode::kResourceExhausted, TooLong(promised, options_), promised, input,
                   output);
  }
  const bool whole = known_size() && input.bytes.size() >= promised;
  if (whole || input.at_end) return WholeFile(input, output);
  result.consumed = 0;
  result.need_bytes = known_size() ? static_cast<std::size_t>(promised)
                                   : std::max(kFirstPiece, 2 * input.bytes.size());
  return result;
}

FrameResult RawFileFramer::WholeFile(const FrameInput& input, FrameOutput* output) {
  static constexpr std::byte kNothing{};
  if (known_size() && input.bytes.size() < options_.file_bytes) {
    return Damaged(StatusCode::kTruncated,
                   "the file shrank from " + std::to_string(options_.file_bytes) + " to " +
                       std::to_string(input.bytes.size()) + " bytes",
                   options_.file_bytes, input, output);
  }
  done_ = true;
  const std::byte* data = input.bytes.data() != nullptr ? input.bytes.data() : &kNothing;
  output->records.push_back({data, input.bytes.size()});
  FrameResult result;
  result.consumed = input.bytes.size();
  return result;
}

FrameResult RawFileFramer::Damaged(StatusCode code, const std::string& reason, std::uint64_t end,
                                   const FrameInput& input, FrameOutput* output) {
  done_ = true;
  FrameResult result;
  if (options_.on_damage == OnDamage::kFail) {
    failed_ = Status(code, reason, {options_.file, 0, 0});
    result.status = failed_;
    return result;
  }
  output->records.push_back({});
  output->damage.push_back({options_.file, 0, end, reason});
  result.consumed = input.bytes.size();
  return result;
}

class RawUnitFramer final : public UnitFramer {
 public:
  explicit RawUnitFramer(const FramerOptions& options)
      : file_bytes_(options.file_bytes), most_bytes_(options.max_record_bytes), lost_(options) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (file_bytes_ != kUnknownSize && file_bytes_ > most_bytes_) {
      return lost_.Lose(unit, records, "the file is longer than max_record_bytes", output);
    }
    static constexpr std::byte kNothing{};
    const std::byte* const data = unit.bytes.empty() ? &kNothing : unit.bytes.data();
    output->records.push_back({data, unit.bytes.size()});
    return {};
  }

 private:
  const std::uint64_t file_bytes_;
  const std::uint64_t most_bytes_;
  const LostUnits lost_;
};

class RawFileWriter final : public FileRecordWriter {
 public:
  using FileRecordWriter::FileRecordWriter;

 private:
  Status Append(std::span<const std::byte> record) override {
    if (std::exchange(written_, true)) {
      return Status(StatusCode::kInvalidArgument, "a raw file is one record; open another file");
    }
    return file().Append(record);
  }
  Status Finish() override {
    if (written_) return {};
    return Status(StatusCode::kInvalidArgument, "a raw file is one record; none was written");
  }

  bool written_ = false;
};

class RawFile final : public Format {
 public:
  std::string_view name() const override { return "raw"; }
  // Any file may be read as it is, so none is guessed to be raw.
  bool MatchesName(std::string_view) const override { return false; }
  bool MatchesBytes(std::span<const std::byte>) const override { return false; }
  std::uint64_t Stripes(std::uint64_t, std::uint64_t) const override { return 1; }
  bool decompresses() const override { return false; }
  bool MayHold(Mistake mistake, bool asked) const override {
    return asked ? mistake != Mistake::kPointer : Format::MayHold(mistake, asked);
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<RawFileFramer>(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<RawUnitFramer>(options);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> /*head*/) const override {
    FixedIndex::Layout fixed;
    fixed.file_bytes = options.file_bytes;
    fixed.units = {0, fixed.file_bytes, fixed.file_bytes};
    fixed.records = 1;
    fixed.lost = options.file_bytes > options.max_record_bytes;  // it is not read
    if (fixed.lost) {
      fixed.damage.push_back({0, options.file_bytes, 0, TooLong(options.file_bytes, options)});
    }
    return {Status(), std::make_shared<const FixedIndex>(fixed)};
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), std::make_unique<RawFileWriter>(std::move(file))};
  }
};

}  // namespace

std::shared_ptr<const Format> RawFileFormat() {
  static const auto kFormat = std::make_shared<const RawFile>();
  return kFormat;
}

}  // namespace ringfeed
