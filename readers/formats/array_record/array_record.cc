#include "readers/formats/array_record/array_record.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "readers/formats/array_record/chunk.h"
#include "readers/formats/array_record/footer.h"
#include "readers/formats/builders/wire_format.h"
#include "readers/formats/stepped_framer.h"

namespace ringfeed {
namespace {

// What an index's unit may have beside a record of the longest size: see UsedBytes.
constexpr std::uint64_t kUnitSlack = 64 * 1024;

Status NoEnd(const std::string& file) {
  return Status(StatusCode::kUnsupported,
                "an ArrayRecord file says at its end where its records are: it is read from a file "
                "or a store, not from a stream, nor compressed as a whole",
                {file, 0, -1});
}

// Appends the records of the chunk that `input` begins with; none if it has a problem.
ChunkProblem AppendRecords(const FrameInput& input, std::uint32_t count, std::size_t most_bytes,
                           RiegeliReader* reader, std::vector<RecordSpan>* records) {
  RiegeliRecords read;
  ChunkProblem problem = reader->Read(input, count, most_bytes, &read);
  if (!problem.ok()) return problem;
  const std::size_t before = records->size();
  WireReader sizes(read.sizes);
  std::span<const std::byte> values = read.values;
  std::uint64_t size = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!sizes.ReadVarint(&size) || size > values.size()) break;
    records->push_back({values.data(), static_cast<std::size_t>(size)});
    values = values.subspan(static_cast<std::size_t>(size));
  }
  if (records->size() == before + count && values.empty() && sizes.done()) return {};
  records->resize(before);
  return {"the sizes of a chunk's records are not those of its bytes"};
}

/// Takes the chunks that the footer lists.
class ArrayRecordFramer final : public RestLosingFramer {
 public:
  ArrayRecordFramer(const FramerOptions& options, std::shared_ptr<const ArrayRecordFooter> footer)
      : RestLosingFramer(options), footer_(std::move(footer)) {}

 private:
  void Walk(FrameCall* call) override;
  FrameStep Next(FrameCall* call);
  FrameStep Lose(const ChunkProblem& problem, std::size_t bytes, FrameCall* call);

  const std::shared_ptr<const ArrayRecordFooter> footer_;
  RiegeliReader reader_;
  bool placed_ = false;
  std::uint64_t chunk_ = 0;  // the next one
};

void ArrayRecordFramer::Walk(FrameCall* call) {
  if (footer_ == nullptr) {
    (void)Fail(NoEnd(options_.file), call);
    return;
  }
  const Status& hopeless = footer_->hopeless();
  if (!hopeless.ok()) {
    if (!IsAtEnd(call)) (void)LoseRest(hopeless.code(), hopeless.message(), call);
    return;
  }
  if (!std::exchange(placed_, true)) {
    // It may begin after a loss.
    chunk_ = footer_->ChunkFrom(call->at());
    const bool ends = chunk_ == footer_->chunks();
    next_record_ =
        static_cast<std::int64_t>(ends ? footer_->records() : footer_->first_record(chunk_));
  }
  while (Next(call) == FrameStep::kGoOn) {
  }
}

FrameStep ArrayRecordFramer::Next(FrameCall* call) {
  if (IsAtEnd(call)) return FrameStep::kStop;
  if (call->left() == 0) return call->Need(1);
  if (chunk_ == footer_->chunks()) return call->PassRest(1);
  const std::uint64_t begin = footer_->begin(chunk_);
  if (call->at() < begin) {
    call->pos +=
        static_cast<std::size_t>(std::min<std::uint64_t>(call->left(), begin - call->at()));
    return FrameStep::kGoOn;
  }
  const std::uint64_t most = std::uint64_t{options_.max_record_bytes} + kUnitSlack;
  const auto bytes =
      static_cast<std::size_t>(std::min(most, footer_->begin(chunk_ + 1) - call->at()));
  if (call->left() < bytes) {
    if (!call->input.at_end) return call->Need(bytes);
    return LoseRest(StatusCode::kTruncated,
                    known_size() ? ShrankTo(call->end()) : "the file ends inside a chunk", call);
  }
  FrameInput input{{call->data(), bytes}, call->at()};
  input.memory = call->input.memory;
  const std::uint32_t count = footer_->RecordsOf(chunk_);
  const ChunkProblem problem =
      AppendRecords(input, count, options_.max_record_bytes, &reader_, &call->output->records);
  if (!problem.ok()) return Lose(problem, bytes, call);
  next_record_ += count;
  call->pos += bytes;
  ++chunk_;
  return FrameStep::kGoOn;
}

FrameStep ArrayRecordFramer::Lose(const ChunkProblem& problem, std::size_t bytes, FrameCall* call) {
  const std::uint64_t begin = call->at();
  if (problem.fatal) return Fail(problem.code, problem.reason, begin, call);
  const std::uint64_t end = footer_->begin(chunk_ + 1);
  if (Damaged(problem.code, problem.reason, begin, end, call) == FrameStep::kStop) {
    return FrameStep::kStop;
  }
  const std::uint32_t count = footer_->RecordsOf(chunk_);
  for (std::uint32_t i = 0; i < count; ++i) LoseRecord(begin, call);
  call->output->more_holes += count - 1;
  call->pos += bytes;
  ++chunk_;
  return FrameStep::kGoOn;
}

/// Takes chunks by themselves.
class ArrayRecordUnitFramer final : public UnitFramer {
 public:
  using UnitFramer::UnitFramer;

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    const ChunkProblem problem =
        AppendRecords(unit, records, options_.max_record_bytes, &reader_, &output->records);
    if (problem.ok()) return {};
    if (!problem.fatal) return Lose(unit, records, problem.reason, output);
    return Status(problem.code, problem.reason,
                  {options_.file, static_cast<std::int64_t>(unit.offset), -1});
  }

 private:
  RiegeliReader reader_;
};

class ArrayRecord final : public Format {
 public:
  /// Of a file, if its footer was read.
  explicit ArrayRecord(std::shared_ptr<const ArrayRecordFooter> footer)
      : footer_(std::move(footer)) {}

  std::string_view name() const override { return "arrayrecord"; }
  bool MatchesName(std::string_view file_name) const override {
    // As it is, and as TFDS names shards: "a.array_record-00000-of-00010".
    const std::string_view base = file_name.substr(file_name.rfind('/') + 1);
    return base.ends_with(".array_record") || base.ends_with(".arrayrecord") ||
           base.find(".array_record-") != std::string_view::npos;
  }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    // The hash of a block's header in front of the first chunk, which is alike in all files.
    constexpr std::array<unsigned char, 8> kSignature = {0x83, 0xaf, 0x70, 0xd1,
                                                         0x0d, 0x88, 0x4a, 0x3f};
    return head.size() >= kSignature.size() &&
           std::equal(kSignature.begin(), kSignature.end(), head.begin(),
                      [](unsigned char a, std::byte b) { return std::byte{a} == b; });
  }
  bool decompresses() const override { return false; }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<ArrayRecordFramer>(options, footer_);
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t /*offset*/) const override {
    return NewFramer(options);  // it looks for its place
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<ArrayRecordUnitFramer>(options);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> /*head*/) const override {
    if (footer_ == nullptr) return {NoEnd(options.file), nullptr};
    return {Status(), std::make_shared<const ArrayRecordPlaces>(footer_)};
  }
  Status ReadEnd(std::uint64_t file_bytes, const ReadPart& read,
                 std::shared_ptr<const Format>* own) const override {
    std::shared_ptr<const ArrayRecordFooter> footer;
    Status status = ArrayRecordFooter::Read(file_bytes, read, &footer);
    *own = std::make_shared<const ArrayRecord>(std::move(footer));
    return status;
  }

 private:
  const std::shared_ptr<const ArrayRecordFooter> footer_;
};

}  // namespace

std::shared_ptr<const Format> ArrayRecordFormat() {
  return std::make_shared<const ArrayRecord>(nullptr);
}

}  // namespace ringfeed
