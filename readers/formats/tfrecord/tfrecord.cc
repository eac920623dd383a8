#include "readers/formats/tfrecord/tfrecord.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "readers/formats/stepped_framer.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

constexpr std::size_t kHeader = TfRecordLayout::kHeaderBytes;
constexpr std::size_t kFrame = TfRecordLayout::kFrameBytes;
// How far lengths are followed before their checksums are checked: enough records to take several
// CRCs at a time, few enough bytes that short records are still in L1.
constexpr std::size_t kBatch = 16;

constexpr std::string_view kBadPayload = kBadTfRecordPayload;
// Each false header costs a checksum of the bytes that it promises. A file that is made to cost
// more than this is given up for lost.
constexpr std::uint64_t kMostSearchCost = std::uint64_t{16} << 30;

// Records that are wholly in the input, their lengths not yet believed.
struct Batch {
  std::array<std::uint64_t, kBatch> lengths;
  std::array<RecordSpan, kBatch> spans;
  std::array<std::uint32_t, kBatch> crcs;
  std::size_t count = 0;
  std::size_t end = 0;  // of the last one, in the input
};

class TfRecordFramer final : public SteppedFramer {
 public:
  using SteppedFramer::SteppedFramer;

 private:
  void Run(FrameCall* call) override;
  FrameStep PassOver(FrameCall* call) const;
  FrameStep FindNext(FrameCall* call);
  FrameStep FrameBatch(FrameCall* call);
  FrameStep AfterBatch(FrameCall* call);
  FrameStep PartialRecord(FrameCall* call);
  FrameStep ShrunkFile(FrameCall* call);
  FrameStep AppendBelieved(std::size_t good, FrameCall* call);
  FrameStep AppendBatch(std::size_t good, std::size_t believed, FrameCall* call);
  FrameStep LastIsDamaged(std::size_t good, FrameCall* call);
  enum class Belief { kYes, kNo, kMore };
  Belief BelieveEnd(std::size_t pos, std::size_t bytes, FrameCall* call) const;
  FrameStep Damaged(StatusCode code, std::string reason, std::uint64_t at, FrameCall* call);
  void EndSearch(std::uint64_t at, FrameCall* call);
  bool Plausible(std::uint64_t at, std::uint64_t length, const FrameInput& input) const;

  std::uint64_t pass_to_ = 0;  // an oversized record ends here; nothing of it is wanted
  bool searching_ = false;     // for the next intact header, since search_begin_
  std::uint64_t search_begin_ = 0;
  std::string search_reason_;
  std::uint64_t search_cost_ = 0;  // bytes summed of records that turned out to be none
  Batch batch_;                    // here so that it is not cleared for every few records
};

void TfRecordFramer::Run(FrameCall* call) {
  while (true) {
    if (PassOver(call) == FrameStep::kStop) return;
    if (searching_ && FindNext(call) == FrameStep::kStop) return;
    if (FrameBatch(call) == FrameStep::kStop) return;
  }
}

FrameStep TfRecordFramer::PassOver(FrameCall* call) const {
  const std::uint64_t at = call->at();
  if (pass_to_ <= at) return FrameStep::kGoOn;
  const std::uint64_t left = pass_to_ - at;
  if (left <= call->left()) {
    call->pos += static_cast<std::size_t>(left);
    return FrameStep::kGoOn;
  }
  return call->PassRest(kHeader);
}

// Whether a record of this length can start here, checksums aside.
bool TfRecordFramer::Plausible(std::uint64_t at, std::uint64_t length,
                               const FrameInput& input) const {
  if (length > options_.max_record_bytes) return false;
  if (known_size() && length + kFrame > FileLeft(at)) return false;
  return !input.at_end || length + kFrame <= input.offset + input.bytes.size() - at;
}

// Examines every offset once, over all calls. A header is 12 bytes, of which four are a checksum of
// the other eight: so none matches by chance and also fits into the file.
FrameStep TfRecordFramer::FindNext(FrameCall* call) {
  const std::size_t size = call->input.bytes.size();
  if (search_cost_ >= kMostSearchCost)
    call->pos = std::max(call->pos, size - std::min(size, kHeader - 1));
  for (; size - call->pos >= kHeader; ++call->pos) {
    const std::uint64_t at = call->at();
    if (at >= call->input.limit) return FrameStep::kStop;
    const auto header = call->input.bytes.subspan(call->pos, kHeader);
    if (!Plausible(at, LoadLe<std::uint64_t>(header.data()), call->input)) continue;
    if (!TfRecordHeaderMatches(header)) continue;
    EndSearch(at, call);
    return FrameStep::kGoOn;
  }
  const std::uint64_t end = known_size() ? options_.file_bytes : call->input.offset + size;
  if (call->input.at_end || (known_size() && end - call->input.offset - call->pos < kHeader)) {
    call->pos = size;
    EndSearch(end, call);
    pass_to_ = end;
  } else if (call->at() < call->input.limit) {
    call->result.need_bytes = kHeader;
  }
  return FrameStep::kStop;
}

void TfRecordFramer::EndSearch(std::uint64_t at, FrameCall* call) {
  Note(search_begin_, at, std::move(search_reason_), call);
  searching_ = false;
}

// Only this header's length tells the place of the next one, which leaves the memory idle in
// between: the lines that a short record will need are asked for ahead of it. Inlined by force: g++
// takes a function that only prefetches for one without effect, and drops the call.
[[gnu::always_inline]] inline void FetchAhead(const std::byte* data, std::size_t length,
                                              const std::byte* end) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kAhead = 4096;
  constexpr std::size_t kShort = 1024;  // longer runs the processor fetches ahead by itself
  if (length > kShort || static_cast<std::size_t>(end - data) < kAhead + kShort + kFrame) return;
  for (std::size_t at = 0; at < length + kFrame; at += kLine) {
    __builtin_prefetch(data + kAhead + at);
  }
}

// Follows the lengths of whole records; nothing is read outside the input, whatever they say.
void Walk(const FrameInput& input, std::size_t pos, Batch* batch) {
  batch->count = 0;
  const std::size_t size = input.bytes.size();
  while (batch->count < kBatch && size - pos >= kFrame && input.offset + pos < input.limit) {
    const std::byte* data = input.bytes.data() + pos;
    const auto length = LoadOnceLe<std::uint64_t>(data);
    if (length > size - pos - kFrame) break;
    FetchAhead(data, static_cast<std::size_t>(length), input.bytes.data() + size);
    batch->lengths[batch->count] = length;
    batch->spans[batch->count] = {data + kHeader, static_cast<std::size_t>(length)};
    ++batch->count;
    pos += static_cast<std::size_t>(length) + kFrame;
  }
  batch->end = pos;
}

// How many of the batch's lengths match their checksums, and are in bounds.
std::size_t CheckHeaders(Batch* batch, std::size_t max_record_bytes) {
  Crc32cOfEachU64({batch->lengths.data(), batch->count}, batch->crcs.data());
  for (std::size_t i = 0; i < batch->count; ++i) {
    const auto stored = LoadLe<std::uint32_t>(batch->spans[i].data - 4);
    if (stored != MaskCrc32c(batch->crcs[i]) || batch->lengths[i] > max_record_bytes) return i;
  }
  return batch->count;
}

FrameStep TfRecordFramer::FrameBatch(FrameCall* call) {
  Batch& batch = batch_;
  Walk(call->input, call->pos, &batch);
  const std::size_t good = CheckHeaders(&batch, options_.max_record_bytes);
  if (good != 0 && AppendBelieved(good, call) == FrameStep::kStop) return FrameStep::kStop;
  if (good == kBatch || searching_) return FrameStep::kGoOn;
  return AfterBatch(call);
}

// Adds the units of `spans`, the first of which starts at `at`.
void AddUnits(std::span<const RecordSpan> spans, std::uint64_t at, std::vector<FramedUnit>* units) {
  const std::size_t base = units->size();
  units->resize(base + spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    FramedUnit& unit = (*units)[base + i];
    unit.begin = at + static_cast<std::uint64_t>(spans[i].data - spans[0].data);
    unit.end = unit.begin + spans[i].size + kFrame;
  }
}

bool PayloadMatches(const RecordSpan& span) {
  return LoadLe<std::uint32_t>(span.data + span.size) == MaskCrc32c(Crc32c(span.bytes()));
}

bool HeaderStandsAt(const FrameInput& input, std::size_t pos) {
  return input.bytes.size() - pos >= kHeader && TfRecordHeaderMatches(input.bytes.subspan(pos));
}

// Which payloads match their checksums. Of the first `believed` the checksums may be left: then
// they count as matching, and the last records of the output, which are these, as unchecked.
std::array<bool, kBatch> TakeSums(std::span<const RecordSpan> spans, std::size_t believed,
                                  FrameCall* call) {
  FrameOutput* const output = call->output;
  const auto is_left = [&](std::size_t i) {
    return i < believed && spans[i].size >= call->input.leaves_sums_from;
  };
  std::array<RecordSpan, kBatch> taken;
  std::size_t count = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (is_left(i)) {
      output->LeaveSum(output->records.size() - spans.size() + i);
    } else {
      taken[count++] = spans[i];
    }
  }
  std::array<std::uint32_t, kBatch> crcs;
  Crc32cEach({taken.data(), count}, crcs.data());
  std::array<bool, kBatch> matches;
  count = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const RecordSpan& span = spans[i];
    matches[i] =
        is_left(i) || LoadLe<std::uint32_t>(span.data + span.size) == MaskCrc32c(crcs[count++]);
  }
  return matches;
}

// A record's checksum can be left only if damage loses that record alone: if its length leads to a
// header. So the header after the last of `good` records decides, wherever the input ends:
// otherwise how the file is read would change what a damaged record costs.
FrameStep TfRecordFramer::AppendBelieved(std::size_t good, FrameCall* call) {
  const RecordSpan& last = batch_.spans[good - 1];
  if (options_.units_only || last.size < call->input.leaves_sums_from) {
    return AppendBatch(good, good - 1, call);
  }
  const auto at = static_cast<std::size_t>(last.data - batch_.spans[0].data) + call->pos;
  switch (BelieveEnd(at, last.size + kFrame, call)) {
    case Belief::kYes:
      return AppendBatch(good, good, call);
    case Belief::kNo:
      return AppendBatch(good, good - 1, call);
    case Belief::kMore:
      break;
  }
  if (good > 1) (void)AppendBatch(good - 1, good - 1, call);
  return FrameStep::kStop;
}

// Checks the payloads of the batch's first `good` records and appends them; see TakeSums.
FrameStep TfRecordFramer::AppendBatch(std::size_t good, std::size_t believed, FrameCall* call) {
  const std::span<const RecordSpan> spans{batch_.spans.data(), good};
  const RecordSpan& last = spans.back();
  const std::uint64_t at = call->at();
  if (call->output->units != nullptr) AddUnits(spans, at, call->output->units);
  next_record_ += static_cast<std::int64_t>(good);
  call->pos += static_cast<std::size_t>(last.data - spans[0].data) + last.size + kFrame;
  if (options_.units_only) {
    if (HeaderStandsAt(call->input, call->pos) || PayloadMatches(last)) return FrameStep::kGoOn;
    return LastIsDamaged(good, call);
  }
  const std::size_t base = call->output->records.size();
  call->output->records.insert(call->output->records.end(), spans.begin(), spans.end());
  const std::array<bool, kBatch> matches = TakeSums(spans, believed, call);
  for (std::size_t i = 0; i < good; ++i) {
    if (matches[i]) [[likely]] {
      continue;
    }
    const RecordSpan& span = spans[i];
    const std::uint64_t begin = at + static_cast<std::uint64_t>(span.data - spans[0].data);
    if (options_.on_damage == OnDamage::kFail) {
      call->output->CutRecords(base + i);
      next_record_ -= static_cast<std::int64_t>(good - i);
      return Damaged(StatusCode::kDamaged, std::string(kBadPayload), begin, call);
    }
    call->output->records[base + i] = {};
    if (i + 1 == good) return LastIsDamaged(good, call);
    // A header follows it, so its length was right.
    Note(begin, begin + span.size + kFrame, std::string(kBadPayload), call);
  }
  return FrameStep::kGoOn;
}

// The last of `good` records, which were appended up to call->pos, does not match its checksum. If
// its length leads to a header, or to the end of the file, it is lost alone. Otherwise its length
// is believed no more than its payload, and the search for the next record starts after its header.
FrameStep TfRecordFramer::LastIsDamaged(std::size_t good, FrameCall* call) {
  const std::size_t bytes = batch_.spans[good - 1].size + kFrame;
  const std::uint64_t begin = call->at() - bytes;
  switch (BelieveEnd(call->pos - bytes, bytes, call)) {
    case Belief::kYes:
      // A reader of units alone reads it again later, and handles it then.
      if (!options_.units_only) Note(begin, begin + bytes, std::string(kBadPayload), call);
      return FrameStep::kGoOn;
    case Belief::kMore:
      if (!options_.units_only) call->output->records.pop_back();
      if (call->output->units != nullptr) call->output->units->pop_back();
      --next_record_;
      call->pos -= bytes;
      return FrameStep::kStop;
    case Belief::kNo:
      break;
  }
  if (call->output->units != nullptr) call->output->units->back() = {begin, begin, 1, true};
  call->pos -= bytes - kHeader;
  search_cost_ += bytes;
  searching_ = true;
  search_begin_ = begin;
  search_reason_ = std::string(kBadPayload) + ", and no record stands where it should end";
  return FrameStep::kGoOn;
}

// Whether a record of so many bytes at `pos`, all of them at hand, ends in front of a header or
// with the file. If that is not at hand yet, the call says what is needed.
TfRecordFramer::Belief TfRecordFramer::BelieveEnd(std::size_t pos, std::size_t bytes,
                                                  FrameCall* call) const {
  const std::size_t left = call->input.bytes.size() - pos;
  const std::uint64_t file_left = FileLeft(call->input.offset + pos, call->input);
  if (bytes == file_left) return Belief::kYes;
  if (left >= bytes + kHeader) {
    return HeaderStandsAt(call->input, pos + bytes) ? Belief::kYes : Belief::kNo;
  }
  if (call->input.at_end || file_left < bytes + kHeader) return Belief::kNo;
  call->result.need_bytes = bytes + kHeader;
  return Belief::kMore;
}

// At the limit, the end, a record that is not all here, or damage.
FrameStep TfRecordFramer::AfterBatch(FrameCall* call) {
  const std::uint64_t at = call->at();
  const std::size_t left = call->left();
  if (known_size() && at >= options_.file_bytes) return FrameStep::kStop;
  if (left == 0 && call->input.at_end) {
    return known_size() ? ShrunkFile(call) : FrameStep::kStop;
  }
  if (at >= call->input.limit) return FrameStep::kStop;
  if (left >= kHeader) return PartialRecord(call);
  if (call->input.at_end || (known_size() && options_.file_bytes - at < kHeader)) {
    return Damaged(StatusCode::kTruncated, "the file ends inside a record's header", at, call);
  }
  return call->Need(kHeader);
}

// A header that belongs to no whole, checked record.
FrameStep TfRecordFramer::PartialRecord(FrameCall* call) {
  const std::uint64_t at = call->at();
  const auto header = call->input.bytes.subspan(call->pos, kHeader);
  std::uint64_t length = 0;
  if (!ReadTfRecordHeader(header, &length)) {
    return Damaged(StatusCode::kDamaged, "the length's checksum does not match", at, call);
  }
  const std::string size = "a record of " + std::to_string(length) + " bytes";
  const std::uint64_t file_left = known_size() ? options_.file_bytes - at : kUnknownSize;
  if (known_size() && (file_left < kFrame || length > file_left - kFrame)) {
    return Damaged(StatusCode::kTruncated, size + " reaches past the end of the file", at, call);
  }
  if (length > options_.max_record_bytes) {
    if (options_.on_damage == OnDamage::kFail || !known_size()) {
      return Damaged(StatusCode::kResourceExhausted, AboveLimit(size), at, call);
    }
    Note(at, at + length + kFrame, AboveLimit(size), call);
    LoseRecord(at, call);
    pass_to_ = at + length + kFrame;
    return FrameStep::kGoOn;
  }
  if (call->input.at_end) {
    return Damaged(StatusCode::kTruncated, "the file ends inside " + size, at, call);
  }
  call->result.need_bytes = static_cast<std::size_t>(length) + kFrame;
  // If the next header is at hand too, the checksum can be left.
  if (length >= call->input.leaves_sums_from && known_size() &&
      file_left - length - kFrame >= kHeader) {
    call->result.need_bytes += kHeader;
  }
  return FrameStep::kStop;
}

// The file ends between two records, but before the end that it had when it was opened.
FrameStep TfRecordFramer::ShrunkFile(FrameCall* call) {
  const std::uint64_t at = call->at();
  if (options_.on_damage == OnDamage::kFail) {
    return Fail(StatusCode::kTruncated, ShrankTo(at), at, call);
  }
  Note(at, options_.file_bytes, ShrankTo(at), call);
  pass_to_ = options_.file_bytes;
  return FrameStep::kStop;
}

// Damage without a length to trust: the end under kFail, else a search from the next byte on.
FrameStep TfRecordFramer::Damaged(StatusCode code, std::string reason, std::uint64_t at,
                                  FrameCall* call) {
  if (options_.on_damage == OnDamage::kFail) {
    return Fail(code, std::move(reason), at, call);
  }
  searching_ = true;
  search_begin_ = at;
  search_reason_ = std::move(reason);
  pass_to_ = at + 1;
  return FrameStep::kGoOn;
}

class TfRecordUnitFramer final : public UnitFramer {
 public:
  using UnitFramer::UnitFramer;

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    std::uint64_t length = 0;
    const std::string_view problem = Problem(unit.bytes, unit.leaves_sums_from, &length);
    if (!problem.empty() || records != 1) [[unlikely]] {
      return Lose(unit, records, problem, output);
    }
    output->records.push_back({unit.bytes.data() + kHeader, static_cast<std::size_t>(length)});
    if (length >= unit.leaves_sums_from) output->LeaveSum(output->records.size() - 1);
    return {};
  }

 private:
  static std::string_view Problem(std::span<const std::byte> bytes, std::size_t leaves_sums_from,
                                  std::uint64_t* length) {
    if (bytes.empty()) return kLostBefore;
    if (bytes.size() < kFrame) return "the file ends inside a record's header";
    if (!ReadTfRecordHeader(bytes.first(kHeader), length)) {
      return "the length's checksum does not match";
    }
    if (*length > bytes.size() - kFrame) return "the record is longer than the index says";
    const auto rest = bytes.subspan(kFrame + static_cast<std::size_t>(*length));
    if (!rest.empty() && HasRecord(rest)) [[unlikely]] {
      return "another record stands after it that the index does not know";
    }
    if (*length >= leaves_sums_from) return {};
    const auto payload = bytes.subspan(kHeader, static_cast<std::size_t>(*length));
    const auto stored = LoadLe<std::uint32_t>(payload.data() + payload.size());
    if (stored != MaskCrc32c(Crc32c(payload))) return kBadPayload;
    return {};
  }

  // The bytes after a record are what was lost when the index was made. In an index that another
  // program made they may be a record that no read would ask for.
  static bool HasRecord(std::span<const std::byte> rest) {
    std::uint64_t length = 0;
    return rest.size() >= kFrame && ReadTfRecordHeader(rest.first(kHeader), &length) &&
           length <= rest.size() - kFrame;
  }
};

class TfRecordWriter final : public FileRecordWriter {
 public:
  using FileRecordWriter::FileRecordWriter;

 private:
  Status Append(std::span<const std::byte> record) override {
    std::array<std::byte, TfRecordLayout::kHeaderBytes> header;
    StoreLe(header.data(), static_cast<std::uint64_t>(record.size()));
    StoreLe(header.data() + 8, MaskCrc32c(Crc32c({header.data(), 8})));
    std::array<std::byte, TfRecordLayout::kFooterBytes> footer;
    StoreLe(footer.data(), MaskCrc32c(Crc32c(record)));
    for (const std::span<const std::byte> piece :
         {std::span<const std::byte>(header), record, std::span<const std::byte>(footer)}) {
      Status status = file().Append(piece);
      if (!status.ok()) return status;
    }
    return {};
  }
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "…-00000-of-00010", as TensorFlow's writers name the shards of a data set.
bool EndsAsShard(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && IsDigit(name[end - 1])) --end;
  if (end == name.size() || end < 4 || name.substr(end - 4, 4) != "-of-") return false;
  const std::size_t first_end = end - 4;
  std::size_t first = first_end;
  while (first > 0 && IsDigit(name[first - 1])) --first;
  return first < first_end && first > 0 && name[first - 1] == '-';
}

class TfRecord final : public Format {
 public:
  std::string_view name() const override { return "tfrecord"; }

  bool MatchesName(std::string_view file_name) const override {
    const std::string_view base = file_name.substr(file_name.rfind('/') + 1);
    if (base.ends_with(".tfrecord") || base.ends_with(".tfrecords")) return true;
    return base.find("tfrecord") != std::string_view::npos && EndsAsShard(base);
  }

  bool MatchesBytes(std::span<const std::byte> head) const override {
    return head.size() >= TfRecordLayout::kHeaderBytes && TfRecordHeaderMatches(head);
  }

  ForeignIndex foreign_index() const override { return ForeignIndex::kOfTfRecord; }

  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<TfRecordFramer>(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<TfRecordUnitFramer>(options);
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t /*offset*/) const override {
    return NewFramer(options);  // it looks for a record if none starts there
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), std::make_unique<TfRecordWriter>(std::move(file))};
  }
  RowEncoderResult NewRowEncoder(const std::vector<FieldSpec>& fields) const override {
    return {Status(), NewExampleEncoder(fields)};
  }
};

}  // namespace

bool ReadTfRecordHeader(std::span<const std::byte> header, std::uint64_t* length) {
  *length = LoadOnceLe<std::uint64_t>(header.data());
  std::uint32_t crc = 0;
  Crc32cOfEachU64({length, 1}, &crc);
  return LoadLe<std::uint32_t>(header.data() + 8) == MaskCrc32c(crc);
}

std::shared_ptr<const Format> TfRecordFormat() {
  static const auto kFormat = std::make_shared<const TfRecord>();
  return kFormat;
}

}  // namespace ringfeed
