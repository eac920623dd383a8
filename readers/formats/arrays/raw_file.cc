#include <algorithm>
#include <string>
#include <utility>

#include "readers/formats/arrays/arrays.h"
#include "readers/formats/stepped_framer.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

// The first read of a stream whose end is not known; doubled after that.
constexpr std::size_t kFirstPiece = 64 * 1024;

std::string TooLong(std::uint64_t bytes, const FramerOptions& options) {
  return "a raw file of " + std::to_string(bytes) + " bytes is longer than max_record_bytes (" +
         std::to_string(options.max_record_bytes) + ")";
}

class RawFileFramer final : public SteppedFramer {
 public:
  using SteppedFramer::SteppedFramer;

 private:
  void Run(FrameCall* call) override;
  FrameStep WholeFile(FrameCall* call);
  FrameStep Lose(StatusCode code, std::string reason, std::uint64_t end, FrameCall* call);

  bool done_ = false;
};

void RawFileFramer::Run(FrameCall* call) {
  const std::size_t here = call->input.bytes.size();
  const std::uint64_t promised = known_size() ? options_.file_bytes : here;
  const bool whole = known_size() && here >= promised;
  if (done_) {
    (void)call->PassRest(0);
  } else if (promised > options_.max_record_bytes) {
    (void)Lose(StatusCode::kResourceExhausted, TooLong(promised, options_), promised, call);
  } else if (whole || call->input.at_end) {
    (void)WholeFile(call);
  } else {
    (void)call->Need(known_size() ? promised : std::max(kFirstPiece, 2 * here));
  }
}

FrameStep RawFileFramer::WholeFile(FrameCall* call) {
  static constexpr std::byte kNothing{};
  const std::span<const std::byte> bytes = call->input.bytes;
  if (known_size() && bytes.size() < options_.file_bytes) {
    return Lose(StatusCode::kTruncated, ShrankTo(bytes.size()), options_.file_bytes, call);
  }
  done_ = true;
  call->output->records.push_back(
      {bytes.data() != nullptr ? bytes.data() : &kNothing, bytes.size()});
  return call->PassRest(0);
}

FrameStep RawFileFramer::Lose(StatusCode code, std::string reason, std::uint64_t end,
                              FrameCall* call) {
  done_ = true;
  if (Damaged(code, std::move(reason), 0, end, call) == FrameStep::kStop) return FrameStep::kStop;
  call->output->records.push_back({});
  return call->PassRest(0);
}

class RawUnitFramer final : public UnitFramer {
 public:
  using UnitFramer::UnitFramer;

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (options_.file_bytes != kUnknownSize && options_.file_bytes > options_.max_record_bytes) {
      return Lose(unit, records, "the file is longer than max_record_bytes", output);
    }
    static constexpr std::byte kNothing{};
    const std::byte* const data = unit.bytes.empty() ? &kNothing : unit.bytes.data();
    output->records.push_back({data, unit.bytes.size()});
    return {};
  }
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
  bool has_fixed_places() const override { return true; }
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
