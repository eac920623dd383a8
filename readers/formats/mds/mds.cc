#include "readers/formats/mds/mds.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "readers/formats/mds/shard.h"
#include "readers/formats/stepped_framer.h"

namespace ringfeed {
namespace {

/// Framer of a shard, from its start to its end.
class MdsFramer final : public RestLosingFramer {
 public:
  using RestLosingFramer::RestLosingFramer;

 private:
  void Walk(FrameCall* call) override {
    while ((shard_ == nullptr ? ReadHead(call) : Next(call)) == FrameStep::kGoOn) {
    }
  }
  FrameStep ReadHead(FrameCall* call);
  FrameStep Next(FrameCall* call);
  FrameStep Take(std::uint64_t begin, std::uint64_t end, FrameCall* call);
  FrameStep Lose(const MdsShard::Lost& lost, FrameCall* call);
  FrameStep PassLost(FrameCall* call);
  FrameStep AtLastEnd(FrameCall* call);
  std::uint64_t next() const { return static_cast<std::uint64_t>(next_record_); }

  std::shared_ptr<const MdsShard> shard_;
  const MdsShard::Lost* passed_ = nullptr;  // samples whose bytes are passed over
};

FrameStep MdsFramer::ReadHead(FrameCall* call) {
  if (IsAtEnd(call)) return FrameStep::kStop;
  const std::size_t left = call->left();
  const bool ends = call->input.at_end || (known_size() && left == options_.file_bytes);
  MdsHead head = ReadMdsHead({call->data(), left}, ends, options_);
  if (head.need_bytes != 0) return call->Need(head.need_bytes);
  const Status& hopeless = head.shard->hopeless();
  if (!hopeless.ok()) return LoseRest(hopeless.code(), hopeless.message(), call);
  Status refused = head.shard->CheckColumns(options_);
  if (!refused.ok()) return Fail(std::move(refused), call);
  for (const MdsShard::Piece& piece : head.shard->pieces()) {
    // What the file lacks fails after all that it has.
    if (options_.on_damage == OnDamage::kFail && piece.code == StatusCode::kTruncated) continue;
    if (Damaged(piece.code, piece.reason, piece.begin, piece.end, call) == FrameStep::kStop) {
      return FrameStep::kStop;
    }
  }
  shard_ = std::move(head.shard);
  call->pos += static_cast<std::size_t>(std::min<std::uint64_t>(shard_->head_bytes(), left));
  return FrameStep::kGoOn;
}

FrameStep MdsFramer::Next(FrameCall* call) {
  const MdsShard::Lost* const lost = shard_->LostAt(next());
  if (lost != nullptr) return Lose(*lost, call);
  if (passed_ != nullptr) return PassLost(call);
  if (next() == shard_->samples()) return AtLastEnd(call);
  if (IsAtEnd(call)) return FrameStep::kStop;
  return Take(shard_->begin(next()), shard_->end(next()), call);
}

// Where a file of unknown size ends inside of them only its end tells.
FrameStep MdsFramer::PassLost(FrameCall* call) {
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

FrameStep MdsFramer::Take(std::uint64_t begin, std::uint64_t end, FrameCall* call) {
  const auto bytes = static_cast<std::size_t>(end - begin);
  if (call->left() < bytes) {
    if (!call->input.at_end) return call->Need(bytes);
    return LoseRest(StatusCode::kTruncated,
                    known_size() ? ShrankTo(call->end()) : "the file ends inside a sample", call);
  }
  const std::span<const std::byte> sample(call->data(), bytes);
  if (shard_->layout().Fills(sample)) {
    Append({sample.data(), bytes}, {begin, end}, call);
  } else {
    if (Damaged(StatusCode::kDamaged, MdsLayout::kFillsNot, begin, end, call) == FrameStep::kStop) {
      return FrameStep::kStop;
    }
    LoseRecord(begin, call);
  }
  call->pos += bytes;
  return FrameStep::kGoOn;
}

// They keep their numbers, and stand where the sample before them does.
FrameStep MdsFramer::Lose(const MdsShard::Lost& lost, FrameCall* call) {
  if (options_.on_damage == OnDamage::kFail) return Fail(lost.code, lost.reason, lost.begin, call);
  const bool has_end = lost.end != kUnknownSize;
  const bool has_range = lost.begin < lost.end;
  if (known_size() && has_range) Note(lost.begin, lost.end, lost.reason, call);
  for (std::uint64_t i = 0; i < lost.count; ++i) LoseRecord(lost.begin, call);
  call->output->more_holes += lost.count - (has_range ? 1 : 0);
  if (has_end && has_range) passed_ = &lost;
  return has_end ? FrameStep::kGoOn : LoseRest(lost.code, lost.reason, call);
}

FrameStep MdsFramer::AtLastEnd(FrameCall* call) {
  if (shard_->tail_begin() == call->at()) {
    return LoseRest(StatusCode::kDamaged, MdsShard::kTail, call);
  }
  if (known_size()) return FrameStep::kStop;
  if (call->left() > 0) return LoseRest(StatusCode::kDamaged, MdsShard::kTail, call);
  return call->Need(call->input.at_end || call->at() >= call->input.limit ? 0 : 1);
}

/// Takes samples by themselves.
class MdsUnitFramer final : public UnitFramer {
 public:
  MdsUnitFramer(const FramerOptions& options, MdsLayout layout)
      : UnitFramer(options), layout_(std::move(layout)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.empty()) return Lose(unit, records, kLostBefore, output);
    if (records != 1) return Lose(unit, records, {}, output);
    if (!layout_.Fills(unit.bytes)) return Lose(unit, records, MdsLayout::kFillsNot, output);
    output->records.push_back({unit.bytes.data(), unit.bytes.size()});
    return {};
  }

 private:
  const MdsLayout layout_;
};

class Mds final : public Format {
 public:
  /// Of a file's samples, if it is known.
  explicit Mds(MdsLayout layout) : layout_(std::move(layout)) {}

  std::string_view name() const override { return "mds"; }
  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with(".mds");
  }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return StartsAsMdsShard(head);
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<MdsFramer>(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<MdsUnitFramer>(options, layout_);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> head) const override;
  // The units' framer knows the columns then.
  std::shared_ptr<const Format> OfFile(Compression compression,
                                       std::span<const std::byte> head) const override {
    if (compression != Compression::kNone) return nullptr;
    return std::make_shared<const Mds>(ReadMdsHead(head, true, {}).shard->layout());
  }

 private:
  const MdsLayout layout_;
};

OwnIndexResult Mds::OwnIndex(const FramerOptions& options, std::span<const std::byte> head) const {
  MdsHead read = ReadMdsHead(head, head.size() == options.file_bytes, options);
  if (read.need_bytes != 0) return {Status(), nullptr, read.need_bytes};
  Status refused = read.shard->CheckColumns(options);
  if (!refused.ok()) return {std::move(refused), nullptr};
  return {Status(), std::make_shared<const MdsRecords>(std::move(read.shard), options.file_bytes)};
}

}  // namespace

std::shared_ptr<const Format> MdsFormat() { return std::make_shared<const Mds>(MdsLayout()); }

}  // namespace ringfeed
