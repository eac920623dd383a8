#include "readers/formats/samples/sample_framer.h"

#include <zstd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/memory/arena_advice.h"
#include "readers/formats/compression/decompressor.h"
#include "readers/formats/stepped_framer.h"

namespace ringfeed {
namespace {

// A sample that stands there, decompressed if it has to be. As DecompressFrame.
Status TakeSample(const SampleLayout& layout, const FramerOptions& options, FrameMemory* memory,
                  std::span<const std::byte>* sample) {
  constexpr std::size_t kMagicBytes = 4;
  if (layout.may_be_frames && sample->size() >= kMagicBytes &&
      StartsMember(Compression::kZstd, *sample)) {
    Status status = DecompressFrame(options, *sample, memory, sample);
    if (!status.ok()) return status;
  }
  return layout.Fills(*sample) ? Status() : Status(StatusCode::kDamaged, SampleLayout::kFillsNot);
}

/// Framer of a file of samples, from its start to its end.
class SampleFramer final : public RestLosingFramer {
 public:
  SampleFramer(const FramerOptions& options, ReadSampleHead read)
      : RestLosingFramer(options), read_(std::move(read)) {}

 private:
  void Walk(FrameCall* call) override {
    while ((table_ == nullptr ? ReadHead(call) : Next(call)) == FrameStep::kGoOn) {
    }
  }
  FrameStep ReadHead(FrameCall* call);
  FrameStep Next(FrameCall* call);
  FrameStep Take(std::uint64_t begin, std::uint64_t end, FrameCall* call);
  FrameStep Lose(const SampleTable::Lost& lost, FrameCall* call);
  FrameStep PassLost(FrameCall* call);
  FrameStep AtLastEnd(FrameCall* call);
  std::uint64_t next() const { return static_cast<std::uint64_t>(next_record_); }

  const ReadSampleHead read_;
  std::shared_ptr<const SampleTable> table_;
  const SampleTable::Lost* passed_ = nullptr;  // samples whose bytes are passed over
};

FrameStep SampleFramer::ReadHead(FrameCall* call) {
  if (IsAtEnd(call)) return FrameStep::kStop;
  const std::size_t left = call->left();
  const bool ends = call->input.at_end || (known_size() && left == options_.file_bytes);
  SampleHead head = read_({call->data(), left}, ends, options_);
  if (head.need_bytes != 0) return call->Need(head.need_bytes);
  const Status& hopeless = head.table->hopeless();
  if (!hopeless.ok()) return LoseRest(hopeless.code(), hopeless.message(), call);
  Status refused = CheckColumns(head.table->layout(), options_);
  if (!refused.ok()) return Fail(std::move(refused), call);
  for (const SampleTable::Piece& piece : head.table->pieces()) {
    // What the file lacks fails after all that it has.
    if (options_.on_damage == OnDamage::kFail && piece.code == StatusCode::kTruncated) continue;
    if (Damaged(piece.code, piece.reason, piece.begin, piece.end, call) == FrameStep::kStop) {
      return FrameStep::kStop;
    }
  }
  table_ = std::move(head.table);
  call->pos += static_cast<std::size_t>(std::min<std::uint64_t>(table_->head_bytes(), left));
  return FrameStep::kGoOn;
}

FrameStep SampleFramer::Next(FrameCall* call) {
  const SampleTable::Lost* const lost = table_->LostAt(next());
  if (lost != nullptr) return Lose(*lost, call);
  if (passed_ != nullptr) return PassLost(call);
  if (next() == table_->samples()) return AtLastEnd(call);
  if (IsAtEnd(call)) return FrameStep::kStop;
  return Take(table_->begin(next()), table_->end(next()), call);
}

// Where a file of unknown size ends inside of them only its end tells.
FrameStep SampleFramer::PassLost(FrameCall* call) {
  const std::uint64_t end = passed_->end;
  if (call->at() < end) {
    if (call->at() >= call->input.limit) return FrameStep::kStop;
    call->pos += static_cast<std::size_t>(std::min<std::uint64_t>(call->left(), end - call->at()));
    if (call->at() < end && !call->input.at_end) return call->Need(1);
  }
  if (!known_size()) Note(passed_->begin, call->at(), passed_->reason, call);
  passed_ = nullptr;
  return FrameStep::kGoOn;
}

FrameStep SampleFramer::Take(std::uint64_t begin, std::uint64_t end, FrameCall* call) {
  const auto bytes = static_cast<std::size_t>(end - begin);
  if (call->left() < bytes) {
    if (!call->input.at_end) return call->Need(bytes);
    return LoseRest(StatusCode::kTruncated,
                    known_size() ? ShrankTo(call->end()) : "the file ends inside a sample", call);
  }
  std::span<const std::byte> sample(call->data(), bytes);
  const Status status = TakeSample(table_->layout(), options_, call->input.memory, &sample);
  if (status.ok()) {
    Append({sample.data(), sample.size()}, {begin, end}, call);
  } else if (status.code() == StatusCode::kResourceExhausted) {
    return Fail(status.code(), status.message(), begin, call);
  } else {
    if (Damaged(status.code(), status.message(), begin, end, call) == FrameStep::kStop) {
      return FrameStep::kStop;
    }
    LoseRecord(begin, call);
  }
  call->pos += bytes;
  return FrameStep::kGoOn;
}

// They keep their numbers, and stand where the sample before them does.
FrameStep SampleFramer::Lose(const SampleTable::Lost& lost, FrameCall* call) {
  if (options_.on_damage == OnDamage::kFail) return Fail(lost.code, lost.reason, lost.begin, call);
  const bool has_end = lost.end != kUnknownSize;
  const bool has_range = lost.begin < lost.end;
  if (known_size() && has_range) Note(lost.begin, lost.end, lost.reason, call);
  for (std::uint64_t i = 0; i < lost.count; ++i) LoseRecord(lost.begin, call);
  call->output->more_holes += lost.count - (has_range ? 1 : 0);
  if (has_end && has_range) passed_ = &lost;
  return has_end ? FrameStep::kGoOn : LoseRest(lost.code, lost.reason, call);
}

FrameStep SampleFramer::AtLastEnd(FrameCall* call) {
  if (table_->tail_begin() == call->at()) {
    return LoseRest(StatusCode::kDamaged, SampleTable::kTail, call);
  }
  if (known_size()) return FrameStep::kStop;
  if (call->left() > 0) return LoseRest(StatusCode::kDamaged, SampleTable::kTail, call);
  return call->Need(call->input.at_end || call->at() >= call->input.limit ? 0 : 1);
}

/// Takes samples by themselves.
class SampleUnitFramer final : public UnitFramer {
 public:
  SampleUnitFramer(const FramerOptions& options, SampleLayout layout)
      : UnitFramer(options), layout_(std::move(layout)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.empty()) return Lose(unit, records, kLostBefore, output);
    if (records != 1) return Lose(unit, records, {}, output);
    std::span<const std::byte> sample = unit.bytes;
    const Status status = TakeSample(layout_, options_, unit.memory, &sample);
    if (status.code() == StatusCode::kResourceExhausted) {
      return status.WithPlace({options_.file, static_cast<std::int64_t>(unit.offset), -1});
    }
    if (!status.ok()) return Lose(unit, records, status.message(), output);
    output->records.push_back({sample.data(), sample.size()});
    return {};
  }

 private:
  const SampleLayout layout_;
};

}  // namespace

std::unique_ptr<Framer> NewSampleFramer(const FramerOptions& options, ReadSampleHead read) {
  return std::make_unique<SampleFramer>(options, std::move(read));
}

std::unique_ptr<UnitFramer> NewSampleUnitFramer(const FramerOptions& options, SampleLayout layout) {
  return std::make_unique<SampleUnitFramer>(options, std::move(layout));
}

OwnIndexResult SampleIndex(const FramerOptions& options, std::span<const std::byte> head,
                           const ReadSampleHead& read) {
  SampleHead found = read(head, head.size() == options.file_bytes, options);
  if (found.need_bytes != 0) return {Status(), nullptr, found.need_bytes};
  Status refused = CheckColumns(found.table->layout(), options);
  if (!refused.ok()) return {std::move(refused), nullptr};
  return {Status(),
          std::make_shared<const SampleRecords>(std::move(found.table), options.file_bytes)};
}

Status DecompressFrame(const FramerOptions& options, std::span<const std::byte> frame,
                       FrameMemory* memory, std::span<const std::byte>* content) {
  const unsigned long long bytes = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (bytes == ZSTD_CONTENTSIZE_ERROR || bytes == ZSTD_CONTENTSIZE_UNKNOWN) {
    return Status(StatusCode::kDamaged, "a frame of zstd does not tell its size");
  }
  if (bytes > options.max_record_bytes) {
    return Status(StatusCode::kDamaged,
                  "a frame of " + std::to_string(bytes) +
                      " bytes, decompressed, is longer than max_record_bytes (" +
                      std::to_string(options.max_record_bytes) + ")");
  }
  // Spans are never null.
  std::byte* const to = memory->Allocate(std::max<std::size_t>(1, bytes));
  if (to == nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  NoMemoryFor("a frame of " + std::to_string(bytes) + " bytes, decompressed"));
  }
  const std::size_t got = ZSTD_decompress(to, bytes, frame.data(), frame.size());
  if (ZSTD_isError(got) != 0 || got != bytes) {
    return Status(StatusCode::kDamaged, "a frame of zstd does not decompress");
  }
  *content = {to, bytes};
  return {};
}

}  // namespace ringfeed
