#include "readers/formats/ofrecord/ofrecord.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/fetch_ahead.h"
#include "base/little_endian.h"
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

class OfRecordFramer final : public Framer {
 public:
  explicit OfRecordFramer(const FramerOptions& options) : options_(options) {}

  FrameResult Frame(const FrameInput& input, FrameOutput* output) override;

 private:
  std::size_t UsualRecords(const FrameInput& input, std::size_t pos, FrameOutput* output);
  // Each returns kStop with *result filled in if the call ends there.
  FrameStep NextRecord(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                       FrameResult* result);
  FrameStep BadMessage(const FrameInput& input, std::uint64_t length, std::size_t* pos,
                       FrameOutput* output, FrameResult* result);
  enum class Belief { kYes, kNo, kMore };
  Belief BelieveEnd(const FrameInput& input, std::size_t pos, std::uint64_t frame,
                    FrameResult* result) const;
  FrameStep BadLength(std::uint64_t length, std::uint64_t at, FrameOutput* output,
                      FrameResult* result);
  FrameStep Ends(std::uint64_t at, FrameOutput* output, FrameResult* result);
  FrameStep PassOver(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                     FrameResult* result);
  FrameStep Damaged(StatusCode code, std::string reason, std::uint64_t at, FrameOutput* output,
                    FrameResult* result);
  void Note(std::uint64_t begin, std::uint64_t end, FrameOutput* output);

  bool known_size() const { return options_.file_bytes != kUnknownSize; }
  // How many bytes of a file of known size follow `at`.
  std::uint64_t FileLeft(std::uint64_t at) const {
    return options_.file_bytes - std::min(at, options_.file_bytes);
  }

  const FramerOptions options_;
  std::int64_t next_record_ = 0;
  bool lost_ = false;  // nothing from lost_at_ on is believed any more
  bool noted_ = false;
  std::uint64_t lost_at_ = 0;
  std::string lost_reason_;
  Status failed_;
};

FrameResult OfRecordFramer::Frame(const FrameInput& input, FrameOutput* output) {
  FrameResult result;
  result.status = failed_;
  if (!failed_.ok()) return result;
  std::size_t pos = 0;
  while (true) {
    if (lost_) {
      PassOver(input, &pos, output, &result);
      break;
    }
    pos = UsualRecords(input, pos, output);
    if (NextRecord(input, &pos, output, &result) == FrameStep::kStop) break;
  }
  result.consumed = pos;
  return result;
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

// Takes whole, short, correct records from `pos` on. Returns the place of the first other one.
std::size_t OfRecordFramer::UsualRecords(const FrameInput& input, std::size_t pos,
                                         FrameOutput* output) {
  constexpr std::size_t kMostBytes = 1024;
  const std::byte* const data = input.bytes.data();
  const std::size_t size = input.bytes.size();
  const std::uint64_t most = std::min<std::uint64_t>(kMostBytes, options_.max_record_bytes);
  const std::uint64_t to_limit = input.limit - std::min(input.limit, input.offset);
  const std::size_t before = output->records.size();
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
  return pos;
}

FrameStep OfRecordFramer::NextRecord(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                                     FrameResult* result) {
  const std::uint64_t at = input.offset + *pos;
  const std::size_t left = input.bytes.size() - *pos;
  if (known_size() && at >= options_.file_bytes) return FrameStep::kStop;
  if (left == 0 && input.at_end) return Ends(at, output, result);
  if (at >= input.limit) return FrameStep::kStop;
  if (left < kLength) {
    if (input.at_end || (known_size() && FileLeft(at) < kLength)) {
      return Damaged(StatusCode::kTruncated, "the file ends inside a record's length of 8 bytes",
                     at, output, result);
    }
    result->need_bytes = kLength;
    return FrameStep::kStop;
  }
  const std::byte* const record = input.bytes.data() + *pos + kLength;
  const auto length = LoadOnceLe<std::uint64_t>(record - kLength);
  const bool fits = !known_size() || length <= FileLeft(at) - kLength;
  if (length == 0 || length > options_.max_record_bytes || !fits) {
    return BadLength(length, at, output, result);
  }
  const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(length, left - kLength));
  if (!OfRecordEntriesChain({record, here}, length)) {
    return BadMessage(input, length, pos, output, result);
  }
  if (here < length) {
    if (input.at_end) {
      return Damaged(StatusCode::kTruncated,
                     "the file ends inside a record of " + std::to_string(length) + " bytes", at,
                     output, result);
    }
    result->need_bytes = kLength + static_cast<std::size_t>(length);
    return FrameStep::kStop;
  }
  output->records.push_back({record, here});
  if (output->units != nullptr) output->units->push_back({at, at + kLength + here});
  ++next_record_;
  *pos += kLength + here;
  return FrameStep::kGoOn;
}

// The length is within bounds, but the bytes are no message. If a whole record follows at the place
// to which the length leads, the length was right and only one record is lost.
FrameStep OfRecordFramer::BadMessage(const FrameInput& input, std::uint64_t length,
                                     std::size_t* pos, FrameOutput* output, FrameResult* result) {
  const std::uint64_t at = input.offset + *pos;
  const std::uint64_t frame = kLength + length;
  std::string reason = "no OFRecord of " + std::to_string(length) +
                       " bytes stands here: entries of its map, 0x0a and a length each, were "
                       "expected to fill it";
  Belief belief = Belief::kNo;
  if (options_.on_damage == OnDamage::kSkip) belief = BelieveEnd(input, *pos, frame, result);
  if (belief == Belief::kMore) return FrameStep::kStop;
  if (belief == Belief::kNo) {
    return Damaged(StatusCode::kDamaged, std::move(reason), at, output, result);
  }
  output->damage.push_back({options_.file, at, at + frame, std::move(reason)});
  output->records.push_back({});
  if (output->units != nullptr) output->units->push_back({at, at, 1, true});
  ++next_record_;
  *pos += static_cast<std::size_t>(frame);
  return FrameStep::kGoOn;
}

// Whether a frame of so many bytes at `pos` ends in front of a whole record or with the file. If
// that is not at hand yet, *result says what is needed.
OfRecordFramer::Belief OfRecordFramer::BelieveEnd(const FrameInput& input, std::size_t pos,
                                                  std::uint64_t frame, FrameResult* result) const {
  const std::size_t left = input.bytes.size() - pos;
  const std::uint64_t file_left = known_size()   ? FileLeft(input.offset + pos)
                                  : input.at_end ? left
                                                 : kUnknownSize;
  const auto here = [&](std::uint64_t bytes) {
    if (bytes <= left) return Belief::kYes;
    if (input.at_end || bytes > file_left) return Belief::kNo;
    result->need_bytes = static_cast<std::size_t>(bytes);
    return Belief::kMore;
  };
  if (frame == file_left) return here(frame);
  Belief belief = here(frame + kLength);
  // In a file of unknown size the end may follow right after it: then the caller asks once more.
  if (belief != Belief::kYes) return belief;
  const std::byte* const next = input.bytes.data() + pos + frame;
  const auto length = LoadOnceLe<std::uint64_t>(next);
  if (length == 0 || length > options_.max_record_bytes) return Belief::kNo;
  const auto bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>(length, left - static_cast<std::size_t>(frame) - kLength));
  if (!OfRecordEntriesChain({next + kLength, bytes}, length)) return Belief::kNo;
  return here(frame + kLength + length);
}

FrameStep OfRecordFramer::BadLength(std::uint64_t length, std::uint64_t at, FrameOutput* output,
                                    FrameResult* result) {
  const auto promised = static_cast<std::int64_t>(length);
  const std::string size = "a record of " + std::to_string(promised) + " bytes";
  if (promised <= 0) {
    return Damaged(StatusCode::kDamaged, size + ": a length of at least 1 was expected", at, output,
                   result);
  }
  if (known_size() && length > FileLeft(at) - kLength) {
    return Damaged(StatusCode::kTruncated,
                   size + " reaches past the end of the file: at most " +
                       std::to_string(FileLeft(at) - kLength) + " were expected",
                   at, output, result);
  }
  return Damaged(
      StatusCode::kResourceExhausted,
      size + " is longer than max_record_bytes (" + std::to_string(options_.max_record_bytes) + ")",
      at, output, result);
}

// The bytes end between two records: the file's end, or before the end that it had when opened.
FrameStep OfRecordFramer::Ends(std::uint64_t at, FrameOutput* output, FrameResult* result) {
  if (!known_size()) return FrameStep::kStop;
  return Damaged(StatusCode::kTruncated,
                 "the file shrank from " + std::to_string(options_.file_bytes) + " to " +
                     std::to_string(at) + " bytes",
                 at, output, result);
}

// Nothing marks the start of a record, so the rest of the file is one range of damage. If the
// file's size is not known, this waits for its end.
FrameStep OfRecordFramer::PassOver(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                                   FrameResult* result) {
  // Until the end is known a byte is kept: without one no call would come to tell it.
  const std::size_t kept = noted_ || input.at_end ? 0 : 1;
  *pos = input.bytes.size() - std::min(kept, input.bytes.size() - *pos);
  const std::uint64_t at = input.offset + *pos;
  if (!noted_ && input.at_end) Note(lost_at_, at, output);
  const bool done = input.at_end || at >= input.limit || (known_size() && FileLeft(at) == 0);
  result->need_bytes = done ? 0 : kept + 1;
  return FrameStep::kStop;
}

FrameStep OfRecordFramer::Damaged(StatusCode code, std::string reason, std::uint64_t at,
                                  FrameOutput* output, FrameResult* result) {
  if (options_.on_damage == OnDamage::kFail) {
    const DataPlace place{options_.file, static_cast<std::int64_t>(at), next_record_};
    failed_ = Status(code, std::move(reason), place);
    result->status = failed_;
    return FrameStep::kStop;
  }
  lost_ = true;
  lost_at_ = at;
  lost_reason_ = std::move(reason);
  if (known_size()) Note(at, options_.file_bytes, output);
  return FrameStep::kGoOn;
}

void OfRecordFramer::Note(std::uint64_t begin, std::uint64_t end, FrameOutput* output) {
  output->damage.push_back({options_.file, begin, end, std::move(lost_reason_)});
  noted_ = true;
}

class OfRecordUnitFramer final : public UnitFramer {
 public:
  explicit OfRecordUnitFramer(const FramerOptions& options) : lost_(options) {}

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
    if (!problem.empty() || records != 1) return lost_.Lose(unit, records, problem, output);
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

  const LostUnits lost_;
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
