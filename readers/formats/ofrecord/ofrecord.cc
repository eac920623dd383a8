#include "readers/formats/ofrecord/ofrecord.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/fetch_ahead.h"
#include "base/little_endian.h"
#include "readers/formats/stepped_framer.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

constexpr std::size_t kLength = OfRecordLayout::kLengthBytes;

constexpr unsigned kMostVarintBytes = 10;

// How many bytes of `head` from `at` on are a varint. 0 if it does not end within the head; sets
// *broken if it cannot be a varint at all.
std::size_t ReadVarint(std::span<const std::byte> head, std::size_t at, std::uint64_t* value,
                       bool* broken) {
  *value = 0;
  for (unsigned i = 0; i < kMostVarintBytes; ++i) {
    if (at + i == head.size()) return 0;
    const auto byte = std::to_integer<std::uint64_t>(head[at + i]);
    *value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) return i + 1;
  }
  *broken = true;
  return 0;
}

/// True if a message of `length` bytes that starts with `head` (at most all of it) consists of
/// entries of the map, as far as `head` shows. It looks at nothing inside an entry.
bool OfRecordEntriesChain(std::span<const std::byte> head, std::uint64_t length) {
  std::uint64_t at = 0;
  while (at < length) {
    if (at >= head.size()) return true;
    if (head[static_cast<std::size_t>(at)] != OfRecordLayout::kEntryTag) return false;
    std::uint64_t entry = 0;
    bool broken = false;
    const std::size_t varint = ReadVarint(head, static_cast<std::size_t>(at) + 1, &entry, &broken);
    if (varint == 0) return !broken && head.size() < length;
    at += 1 + varint;
    if (entry > length - at) return false;
    at += entry;
  }
  return true;
}

class OfRecordFramer final : public RestLosingFramer {
 public:
  using RestLosingFramer::RestLosingFramer;

 private:
  void Walk(FrameCall* call) override;
  void UsualRecords(FrameCall* call);
  FrameStep NextRecord(FrameCall* call);
  FrameStep BadMessage(std::uint64_t length, FrameCall* call);
  enum class Belief { kYes, kNo, kMore };
  Belief BelieveEnd(std::uint64_t frame, FrameCall* call) const;
  FrameStep BadLength(std::uint64_t length, FrameCall* call);
};

void OfRecordFramer::Walk(FrameCall* call) {
  do {
    UsualRecords(call);
  } while (NextRecord(call) == FrameStep::kGoOn);
}

// Entries whose lengths take one byte each, and fill the record.
inline bool AreShortEntries(const std::byte* at, std::size_t bytes) {
  const std::byte* const end = at + bytes;
  while (end - at >= 2) {
    const auto entry = Settled(std::to_integer<std::size_t>(at[1]));
    if (at[0] != OfRecordLayout::kEntryTag || entry >= 0x80) return false;
    if (entry > static_cast<std::size_t>(end - at) - 2) return false;
    at += 2 + entry;
  }
  return at == end;
}

// Takes whole, short, correct records, up to the first other one.
void OfRecordFramer::UsualRecords(FrameCall* call) {
  constexpr std::size_t kMostBytes = 1024;
  const FrameInput& input = call->input;
  FrameOutput* const output = call->output;
  const std::byte* const data = input.bytes.data();
  const std::size_t size = input.bytes.size();
  const std::uint64_t most = std::min<std::uint64_t>(kMostBytes, options_.max_record_bytes);
  const std::uint64_t to_limit = input.limit - std::min(input.limit, input.offset);
  const std::size_t before = output->records.size();
  std::size_t pos = call->pos;
  while (pos < to_limit && size - pos > kLength) {
    const auto length = LoadOnceLe<std::uint64_t>(data + pos);
    const std::byte* const record = data + pos + kLength;
    if (length - 1 >= most || length > size - pos - kLength) break;
    FetchAhead(record, static_cast<std::size_t>(length) + kLength);
    if (!AreShortEntries(record, static_cast<std::size_t>(length))) break;
    output->records.push_back({record, static_cast<std::size_t>(length)});
    if (output->units != nullptr) {
      output->units->push_back({input.offset + pos, input.offset + pos + kLength + length});
    }
    pos += kLength + static_cast<std::size_t>(length);
  }
  next_record_ += static_cast<std::int64_t>(output->records.size() - before);
  call->pos = pos;
}

FrameStep OfRecordFramer::NextRecord(FrameCall* call) {
  const std::uint64_t at = call->at();
  const std::size_t left = call->left();
  if (IsAtEnd(call)) return FrameStep::kStop;
  if (left < kLength) {
    if (call->input.at_end || (known_size() && FileLeft(at) < kLength)) {
      return LoseRest(StatusCode::kTruncated, "the file ends inside a record's length of 8 bytes",
                      call);
    }
    return call->Need(kLength);
  }
  const std::byte* const record = call->data() + kLength;
  const auto length = LoadOnceLe<std::uint64_t>(record - kLength);
  const bool fits = !known_size() || length <= FileLeft(at) - kLength;
  if (length == 0 || length > options_.max_record_bytes || !fits) {
    return BadLength(length, call);
  }
  const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(length, left - kLength));
  if (!OfRecordEntriesChain({record, here}, length)) return BadMessage(length, call);
  if (here < length) {
    if (call->input.at_end) {
      return LoseRest(StatusCode::kTruncated,
                      "the file ends inside a record of " + std::to_string(length) + " bytes",
                      call);
    }
    return call->Need(kLength + static_cast<std::size_t>(length));
  }
  Append({record, here}, {at, at + kLength + here}, call);
  call->pos += kLength + here;
  return FrameStep::kGoOn;
}

// The length is within bounds, but the bytes are no message. If a whole record follows at the place
// to which the length leads, the length was right and only one record is lost.
FrameStep OfRecordFramer::BadMessage(std::uint64_t length, FrameCall* call) {
  const std::uint64_t at = call->at();
  const std::uint64_t frame = kLength + length;
  std::string reason = "no OFRecord of " + std::to_string(length) +
                       " bytes stands here: entries of its map, 0x0a and a length each, were "
                       "expected to fill it";
  Belief belief = Belief::kNo;
  if (options_.on_damage == OnDamage::kSkip) belief = BelieveEnd(frame, call);
  if (belief == Belief::kMore) return FrameStep::kStop;
  if (belief == Belief::kNo) return LoseRest(StatusCode::kDamaged, std::move(reason), call);
  Note(at, at + frame, std::move(reason), call);
  LoseRecord(at, call);
  call->pos += static_cast<std::size_t>(frame);
  return FrameStep::kGoOn;
}

// Whether a frame of so many bytes ends in front of a whole record or with the file. If that is not
// at hand yet, the call says what is needed.
OfRecordFramer::Belief OfRecordFramer::BelieveEnd(std::uint64_t frame, FrameCall* call) const {
  const std::size_t left = call->left();
  const std::uint64_t file_left = FileLeft(call->at(), call->input);
  const auto here = [&](std::uint64_t bytes) {
    if (bytes <= left) return Belief::kYes;
    if (call->input.at_end || bytes > file_left) return Belief::kNo;
    call->result.need_bytes = static_cast<std::size_t>(bytes);
    return Belief::kMore;
  };
  if (frame == file_left) return here(frame);
  Belief belief = here(frame + kLength);
  // In a file of unknown size the end may follow right after it: then the caller asks once more.
  if (belief != Belief::kYes) return belief;
  const std::byte* const next = call->data() + frame;
  const auto length = LoadOnceLe<std::uint64_t>(next);
  if (length == 0 || length > options_.max_record_bytes) return Belief::kNo;
  const auto bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>(length, left - static_cast<std::size_t>(frame) - kLength));
  if (!OfRecordEntriesChain({next + kLength, bytes}, length)) return Belief::kNo;
  return here(frame + kLength + length);
}

FrameStep OfRecordFramer::BadLength(std::uint64_t length, FrameCall* call) {
  const auto promised = static_cast<std::int64_t>(length);
  const std::string size = "a record of " + std::to_string(promised) + " bytes";
  if (promised <= 0) {
    return LoseRest(StatusCode::kDamaged, size + ": a length of at least 1 was expected", call);
  }
  const std::uint64_t most = FileLeft(call->at()) - kLength;
  if (known_size() && length > most) {
    return LoseRest(StatusCode::kTruncated,
                    size + " reaches past the end of the file: at most " + std::to_string(most) +
                        " were expected",
                    call);
  }
  return LoseRest(StatusCode::kResourceExhausted, AboveLimit(size), call);
}

class OfRecordUnitFramer final : public UnitFramer {
 public:
  using UnitFramer::UnitFramer;

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    RecordSpan record;
    std::string_view problem = Read(unit.bytes, &record);
    if (problem.empty()) {  // bytes lost after it are no record
      RecordSpan next;
      const auto rest = unit.bytes.subspan(kLength + record.size);
      if (!rest.empty() && Read(rest, &next).empty()) {
        problem = "another record stands after it that the index does not know";
      }
    }
    if (!problem.empty() || records != 1) return Lose(unit, records, problem, output);
    output->records.push_back(record);
    return {};
  }

 private:
  // What is wrong; else *record is set.
  static std::string_view Read(std::span<const std::byte> bytes, RecordSpan* record) {
    if (bytes.empty()) return kLostBefore;
    if (bytes.size() <= kLength) return "the file ends inside a record's length of 8 bytes";
    const auto length = LoadOnceLe<std::uint64_t>(bytes.data());
    if (length == 0 || length > bytes.size() - kLength) {
      return "the record has another length than the index says";
    }
    *record = {bytes.data() + kLength, static_cast<std::size_t>(length)};
    if (!AreShortEntries(record->data, record->size) &&
        !OfRecordEntriesChain(record->bytes(), record->size)) {
      return "no OFRecord stands here: entries of its map, 0x0a and a length each, were expected "
             "to fill it";
    }
    return {};
  }
};

class OfRecordWriter final : public FileRecordWriter {
 public:
  using FileRecordWriter::FileRecordWriter;

 private:
  // Does not write what no reader takes: OneFlow's own stops the process at an empty record.
  Status Append(std::span<const std::byte> record) override {
    if (record.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "an OFRecord file cannot hold an empty record: add a feature to it");
    }
    if (!OfRecordEntriesChain(record, record.size())) {
      return Status(StatusCode::kInvalidArgument,
                    "a record of " + std::to_string(record.size()) +
                        " bytes is no serialised OFRecord: write other records as tfrecord");
    }
    std::array<std::byte, OfRecordLayout::kLengthBytes> length;
    StoreLe(length.data(), static_cast<std::uint64_t>(record.size()));
    Status status = file().Append(length);
    return status.ok() ? file().Append(record) : status;
  }
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "part-0" or "part-00000", as OneFlow's reader looks for them and Spark writes them.
bool IsPart(std::string_view name) {
  constexpr std::string_view kPrefix = "part-";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  const std::string_view number = name.substr(kPrefix.size());
  return std::all_of(number.begin(), number.end(), IsDigit);
}

class OfRecord final : public Format {
 public:
  std::string_view name() const override { return "ofrecord"; }

  bool MatchesName(std::string_view file_name) const override {
    const std::string_view base = file_name.substr(file_name.rfind('/') + 1);
    return base.ends_with(".ofrecord") || IsPart(base);
  }
  bool MatchesBytes(std::span<const std::byte> head) const override;

  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<OfRecordFramer>(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<OfRecordUnitFramer>(options);
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), std::make_unique<OfRecordWriter>(std::move(file))};
  }
};

// A length that Protobuf allows, and entries that start with their key and end with the record; the
// same for the next record as far as the head shows it.
bool OfRecord::MatchesBytes(std::span<const std::byte> head) const {
  // Protobuf's own limit of a message.
  constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - 1;
  // A TFRecord's header is so long: with fewer bytes that format could not be told apart yet.
  constexpr std::size_t kLeastHead = 12;
  if (head.size() < kLeastHead) return false;
  for (bool first = true; head.size() > OfRecordLayout::kLengthBytes; first = false) {
    const auto length = LoadLe<std::uint64_t>(head.data());
    if (length == 0 || length > kMostBytes) return false;
    head = head.subspan(OfRecordLayout::kLengthBytes);
    const std::size_t here = std::min<std::uint64_t>(length, head.size());
    if (!OfRecordEntriesChain(head.first(here), length)) return false;
    if (first) {
      std::uint64_t entry = 0;
      bool broken = false;
      const std::size_t varint = ReadVarint(head.first(here), 1, &entry, &broken);
      const std::size_t inside = 1 + varint;
      if (varint == 0 || inside >= here || head[inside] != OfRecordLayout::kEntryTag) return false;
    }
    head = head.subspan(here);
  }
  return true;
}

}  // namespace

std::shared_ptr<const Format> OfRecordFormat() {
  static const auto kFormat = std::make_shared<const OfRecord>();
  return kFormat;
}

}  // namespace ringfeed
