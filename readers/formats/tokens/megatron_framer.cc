#include <algorithm>
#include <string>
#include <utility>

#include "readers/formats/stepped_framer.h"
#include "readers/formats/tokens/megatron.h"

namespace ringfeed {
namespace {

/// With FramerOptions::units_only it reads only the index: it asks for no bytes.
class MegatronFramer final : public SteppedFramer {
 public:
  MegatronFramer(const FramerOptions& options, std::shared_ptr<const MegatronIndex> index)
      : SteppedFramer(options), index_(std::move(index)) {}

  /// Goes over the whole index.
  MegatronDamage Survey();

 private:
  void Run(FrameCall* call) override;
  FrameStep NextSequence(FrameCall* call);
  FrameStep AtLastEnd(FrameCall* call);
  /// What is wrong with the next sequence's place in the index; empty if nothing is.
  std::string PlaceProblem(std::uint64_t at, std::int64_t begin, std::int64_t bytes) const;
  FrameStep SkipSequence(std::string problem, FrameCall* call);
  void NoteLost(std::uint64_t end, FrameCall* call);
  void LoseRest(FrameCall* call);
  std::uint64_t next() const { return static_cast<std::uint64_t>(next_record_); }

  const std::shared_ptr<const MegatronIndex> index_;
  bool lost_ = false;  // sequences since lost_begin_, up to the next one that is believed
  std::uint64_t lost_begin_ = 0;
  std::string lost_reason_;    // of the first of them
  bool gap_is_noted_ = false;  // the bytes before the next sequence were reported
  bool tail_is_noted_ = false;
  bool rest_is_lost_ = false;
};

void MegatronFramer::Run(FrameCall* call) {
  Status refused;
  if (index_ == nullptr) {
    refused = Status(StatusCode::kUnsupported,
                     "Megatron's index is read with the .bin file beside it: neither can come from "
                     "elsewhere than a file",
                     {options_.file, 0, -1});
  } else if (next() == 0 && call->input.offset == 0) {
    refused = CheckMegatronElements(*index_, options_);
  }
  if (!refused.ok()) {
    (void)Fail(refused, call);
    return;
  }
  const std::size_t records = call->output->records.size();
  const std::size_t ranges = call->output->damage.size();
  while (NextSequence(call) == FrameStep::kGoOn) {
  }
  if (index_->shrunk()) {
    call->output->records.resize(records);
    call->output->damage.resize(ranges);
    LoseRest(call);
  }
}

// The index cannot be trusted from here on, nor tells it how many sequences are lost.
void MegatronFramer::LoseRest(FrameCall* call) {
  const std::uint64_t offset = call->input.offset;
  call->pos = 0;
  call->result = FrameResult();
  if (options_.on_damage == OnDamage::kFail) {
    (void)Fail(Status(StatusCode::kTruncated, MegatronIndex::kShrunk,
                      {options_.file, static_cast<std::int64_t>(offset), -1}),
               call);
    return;
  }
  (void)call->PassRest(1);
  if (!std::exchange(rest_is_lost_, true)) {
    Note(lost_ ? lost_begin_ : offset, options_.file_bytes, MegatronIndex::kShrunk, call);
  }
}

FrameStep MegatronFramer::NextSequence(FrameCall* call) {
  const std::uint64_t at = call->at();
  // Empty sequences at the end of the file do not start before a limit.
  if (at >= call->input.limit && at < options_.file_bytes) return FrameStep::kStop;
  if (next() == index_->sequences()) return AtLastEnd(call);
  // The index is mapped, and may be written to: each number of it is read once.
  const std::int64_t its_begin = index_->begin(next());
  const std::int64_t its_bytes = index_->bytes(next());
  if (std::string problem = PlaceProblem(at, its_begin, its_bytes); !problem.empty()) {
    return SkipSequence(std::move(problem), call);
  }
  const auto begin = static_cast<std::uint64_t>(its_begin);
  const auto bytes = static_cast<std::size_t>(its_bytes);
  NoteLost(begin, call);
  const std::size_t here =
      options_.units_only ? static_cast<std::size_t>(options_.file_bytes - at) : call->left();
  if (begin > at) {
    if (!gap_is_noted_) {
      gap_is_noted_ = true;
      return Damaged(StatusCode::kDamaged, "no sequence of the index has these bytes", at, begin,
                     call);
    }
    const auto passed = static_cast<std::size_t>(std::min<std::uint64_t>(here, begin - at));
    call->pos += passed;
    if (passed > 0) return FrameStep::kGoOn;
    return call->Need(call->input.at_end ? 0 : 1);
  }
  if (bytes > here) {
    if (call->input.at_end) {
      return SkipSequence("the file ends inside a sequence of " + std::to_string(bytes) + " bytes",
                          call);
    }
    return call->Need(bytes);
  }
  if (!options_.units_only) call->output->records.push_back({call->data(), bytes});
  call->pos += bytes;
  ++next_record_;
  gap_is_noted_ = false;
  return FrameStep::kGoOn;
}

std::string MegatronFramer::PlaceProblem(std::uint64_t at, std::int64_t begin,
                                         std::int64_t bytes) const {
  const auto size = static_cast<std::int64_t>(options_.file_bytes);
  const std::string place =
      "the index has " + std::to_string(bytes) + " bytes at " + std::to_string(begin);
  if (bytes < 0 || begin < static_cast<std::int64_t>(at)) {
    return place + " where a sequence from " + std::to_string(at) + " on was expected";
  }
  if (begin > size || bytes > size - begin) {
    return place + ", the file has " + std::to_string(size);
  }
  if (static_cast<std::uint64_t>(bytes) > options_.max_record_bytes) {
    return place + ", more than max_record_bytes (" + std::to_string(options_.max_record_bytes) +
           ")";
  }
  const bool last = next() + 1 == index_->sequences();
  if (!last && index_->begin(next() + 1) != begin + bytes) {
    return place + ", but the next sequence at " + std::to_string(index_->begin(next() + 1));
  }
  // No later sequence vouches for the last one: the one before it must, or the end of the file.
  if (last && begin != static_cast<std::int64_t>(at) && begin + bytes != size) {
    return place + ", with bytes of no sequence on either side";
  }
  return "";
}

FrameStep MegatronFramer::SkipSequence(std::string problem, FrameCall* call) {
  const std::uint64_t at = call->at();
  const std::int64_t bytes = index_->bytes(next());
  const std::int64_t begin = index_->begin(next());
  const auto size = static_cast<std::int64_t>(options_.file_bytes);
  const bool cut = bytes >= 0 && begin >= 0 && (begin > size || bytes > size - begin);
  if (options_.on_damage == OnDamage::kFail) {
    const StatusCode code = cut ? StatusCode::kTruncated : StatusCode::kDamaged;
    return Damaged(code, std::move(problem), at, at, call);
  }
  if (!std::exchange(lost_, true)) {
    lost_begin_ = at;
    lost_reason_ = std::move(problem);
  }
  // Keeps the ordinals of the later ones.
  if (!options_.units_only) call->output->records.emplace_back();
  ++next_record_;
  gap_is_noted_ = true;
  return FrameStep::kGoOn;
}

// Notes the range that the lost sequences leave up to `end`: none if only the index is wrong.
void MegatronFramer::NoteLost(std::uint64_t end, FrameCall* call) {
  if (!std::exchange(lost_, false)) return;
  Note(lost_begin_, end, std::move(lost_reason_), call);
}

FrameStep MegatronFramer::AtLastEnd(FrameCall* call) {
  const std::uint64_t at = call->at();
  NoteLost(options_.file_bytes, call);
  if (at < options_.file_bytes && !gap_is_noted_ && !std::exchange(tail_is_noted_, true)) {
    const FrameStep step = Damaged(StatusCode::kDamaged, "no sequence of the index has these bytes",
                                   at, options_.file_bytes, call);
    if (step == FrameStep::kStop) return step;
  }
  return call->PassRest(1);
}

// Finds what is lost and reported, as a reading in order does.
MegatronDamage MegatronFramer::Survey() {
  MegatronDamage found;
  FrameInput input;
  input.limit = kUnknownSize;
  input.at_end = true;
  FrameOutput output;
  FrameCall call{input, &output};
  std::uint64_t first_lost = 0;
  for (FrameStep step = FrameStep::kGoOn; step == FrameStep::kGoOn;) {
    const bool was_lost = lost_;
    const std::uint64_t before = next();
    step = NextSequence(&call);
    if (lost_ && next() != before) found.lost.push_back(before);
    if (lost_ && !was_lost) first_lost = before;
    // The range of what was lost comes first.
    std::uint64_t record = was_lost && !lost_ ? first_lost : IndexDamage::kNoRecord;
    for (DamagedRange& range : output.damage) {
      found.ranges.push_back({range.begin, range.end, record, std::move(range.reason)});
      record = IndexDamage::kNoRecord;
    }
    output.damage.clear();
  }
  std::sort(found.ranges.begin(), found.ranges.end());
  return found;
}

}  // namespace

MegatronDamage FindMegatronDamage(const FramerOptions& options,
                                  std::shared_ptr<const MegatronIndex> index) {
  FramerOptions places = options;
  places.on_damage = OnDamage::kSkip;
  places.units_only = true;
  return MegatronFramer(places, std::move(index)).Survey();
}

std::unique_ptr<Framer> NewMegatronFramer(const FramerOptions& options,
                                          std::shared_ptr<const MegatronIndex> index) {
  return std::make_unique<MegatronFramer>(options, std::move(index));
}

}  // namespace ringfeed
