#include <algorithm>
#include <string>
#include <utility>

#include "readers/formats/tokens/megatron.h"

namespace ringfeed {
namespace {

/// With FramerOptions::units_only it reads only the index: it asks for no bytes.
class MegatronFramer final : public Framer {
 public:
  MegatronFramer(const FramerOptions& options, std::shared_ptr<const MegatronIndex> index)
      : options_(options), index_(std::move(index)) {}

  FrameResult Frame(const FrameInput& input, FrameOutput* output) override;
  /// Goes over the whole index.
  MegatronDamage Survey();

 private:
  FrameStep NextSequence(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                         FrameResult* result);
  FrameStep AtLastEnd(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                      FrameResult* result);
  /// What is wrong with the next sequence's place in the index; empty if nothing is.
  std::string PlaceProblem(std::uint64_t at, std::int64_t begin, std::int64_t bytes) const;
  FrameStep SkipSequence(std::string problem, std::uint64_t at, FrameOutput* output,
                         FrameResult* result);
  void NoteLost(std::uint64_t end, FrameOutput* output);
  void LoseRest(const FrameInput& input, FrameOutput* output, FrameResult* result);
  FrameStep Damaged(StatusCode code, std::string reason, std::uint64_t begin, std::uint64_t end,
                    FrameOutput* output, FrameResult* result);

  const FramerOptions options_;
  const std::shared_ptr<const MegatronIndex> index_;
  std::uint64_t next_ = 0;
  bool lost_ = false;  // sequences since lost_begin_, up to the next one that is believed
  std::uint64_t lost_begin_ = 0;
  std::string lost_reason_;    // of the first of them
  bool gap_is_noted_ = false;  // the bytes before the next sequence were reported
  bool tail_is_noted_ = false;
  bool rest_is_lost_ = false;
  Status failed_;
};

FrameResult MegatronFramer::Frame(const FrameInput& input, FrameOutput* output) {
  FrameResult result;
  if (index_ == nullptr && failed_.ok()) {
    failed_ = Status(StatusCode::kUnsupported,
                     "Megatron's index is read with the .bin file beside it: neither can come from "
                     "elsewhere than a file",
                     {options_.file, 0, -1});
  }
  if (failed_.ok() && next_ == 0 && input.offset == 0) {
    failed_ = CheckMegatronElements(*index_, options_);
  }
  result.status = failed_;
  if (!failed_.ok()) return result;
  const std::size_t records = output->records.size();
  const std::size_t ranges = output->damage.size();
  std::size_t pos = 0;
  while (NextSequence(input, &pos, output, &result) == FrameStep::kGoOn) {
  }
  result.consumed = pos;
  if (index_ != nullptr && index_->shrunk()) {
    output->records.resize(records);
    output->damage.resize(ranges);
    LoseRest(input, output, &result);
  }
  return result;
}

// The index cannot be trusted from here on, nor tells it how many sequences are lost.
void MegatronFramer::LoseRest(const FrameInput& input, FrameOutput* output, FrameResult* result) {
  *result = FrameResult();
  result->consumed = input.bytes.size();
  const bool done = input.at_end || input.offset + input.bytes.size() >= input.limit;
  result->need_bytes = done ? 0 : 1;
  if (options_.on_damage == OnDamage::kFail) {
    failed_ = Status(StatusCode::kTruncated, MegatronIndex::kShrunk,
                     {options_.file, static_cast<std::int64_t>(input.offset), -1});
    result->consumed = 0;
    result->need_bytes = 0;
    result->status = failed_;
  } else if (!std::exchange(rest_is_lost_, true)) {
    const std::uint64_t begin = lost_ ? lost_begin_ : input.offset;
    output->damage.push_back({options_.file, begin, options_.file_bytes, MegatronIndex::kShrunk});
  }
}

FrameStep MegatronFramer::NextSequence(const FrameInput& input, std::size_t* pos,
                                       FrameOutput* output, FrameResult* result) {
  const std::uint64_t at = input.offset + *pos;
  // Empty sequences at the end of the file do not start before a limit.
  if (at >= input.limit && at < options_.file_bytes) return FrameStep::kStop;
  if (next_ == index_->sequences()) return AtLastEnd(input, pos, output, result);
  // The index is mapped, and may be written to: each number of it is read once.
  const std::int64_t its_begin = index_->begin(next_);
  const std::int64_t its_bytes = index_->bytes(next_);
  if (std::string problem = PlaceProblem(at, its_begin, its_bytes); !problem.empty()) {
    return SkipSequence(std::move(problem), at, output, result);
  }
  const auto begin = static_cast<std::uint64_t>(its_begin);
  const auto bytes = static_cast<std::size_t>(its_bytes);
  NoteLost(begin, output);
  const std::size_t here = options_.units_only ? static_cast<std::size_t>(options_.file_bytes - at)
                                               : input.bytes.size() - *pos;
  if (begin > at) {
    if (!gap_is_noted_) {
      gap_is_noted_ = true;
      return Damaged(StatusCode::kDamaged, "no sequence of the index has these bytes", at, begin,
                     output, result);
    }
    const auto passed = static_cast<std::size_t>(std::min<std::uint64_t>(here, begin - at));
    *pos += passed;
    if (passed > 0) return FrameStep::kGoOn;
    result->need_bytes = input.at_end ? 0 : 1;
    return FrameStep::kStop;
  }
  if (bytes > here) {
    if (input.at_end) {
      return SkipSequence("the file ends inside a sequence of " + std::to_string(bytes) + " bytes",
                          at, output, result);
    }
    result->need_bytes = bytes;
    return FrameStep::kStop;
  }
  if (!options_.units_only) output->records.push_back({input.bytes.data() + *pos, bytes});
  *pos += bytes;
  ++next_;
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
  const bool last = next_ + 1 == index_->sequences();
  if (!last && index_->begin(next_ + 1) != begin + bytes) {
    return place + ", but the next sequence at " + std::to_string(index_->begin(next_ + 1));
  }
  // No later sequence vouches for the last one: the one before it must, or the end of the file.
  if (last && begin != static_cast<std::int64_t>(at) && begin + bytes != size) {
    return place + ", with bytes of no sequence on either side";
  }
  return "";
}

FrameStep MegatronFramer::SkipSequence(std::string problem, std::uint64_t at, FrameOutput* output,
                                       FrameResult* result) {
  const std::int64_t bytes = index_->bytes(next_);
  const std::int64_t begin = index_->begin(next_);
  const auto size = static_cast<std::int64_t>(options_.file_bytes);
  const bool cut = bytes >= 0 && begin >= 0 && (begin > size || bytes > size - begin);
  if (options_.on_damage == OnDamage::kFail) {
    const StatusCode code = cut ? StatusCode::kTruncated : StatusCode::kDamaged;
    return Damaged(code, std::move(problem), at, at, output, result);
  }
  if (!std::exchange(lost_, true)) {
    lost_begin_ = at;
    lost_reason_ = std::move(problem);
  }
  // Keeps the ordinals of the later ones.
  if (!options_.units_only) output->records.emplace_back();
  ++next_;
  gap_is_noted_ = true;
  return FrameStep::kGoOn;
}

// Notes the range that the lost sequences leave up to `end`: none if only the index is wrong.
void MegatronFramer::NoteLost(std::uint64_t end, FrameOutput* output) {
  if (!std::exchange(lost_, false)) return;
  output->damage.push_back({options_.file, lost_begin_, end, std::move(lost_reason_)});
}

FrameStep MegatronFramer::AtLastEnd(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                                    FrameResult* result) {
  const std::uint64_t at = input.offset + *pos;
  NoteLost(options_.file_bytes, output);
  if (at < options_.file_bytes && !gap_is_noted_ && !std::exchange(tail_is_noted_, true)) {
    const FrameStep step = Damaged(StatusCode::kDamaged, "no sequence of the index has these bytes",
                                   at, options_.file_bytes, output, result);
    if (step == FrameStep::kStop) return step;
  }
  *pos = input.bytes.size();
  const bool done = input.at_end || input.offset + *pos >= input.limit;
  result->need_bytes = done ? 0 : 1;
  return FrameStep::kStop;
}

FrameStep MegatronFramer::Damaged(StatusCode code, std::string reason, std::uint64_t begin,
                                  std::uint64_t end, FrameOutput* output, FrameResult* result) {
  if (options_.on_damage == OnDamage::kFail) {
    failed_ =
        Status(code, std::move(reason),
               {options_.file, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(next_)});
    result->status = failed_;
    return FrameStep::kStop;
  }
  output->damage.push_back({options_.file, begin, end, std::move(reason)});
  return FrameStep::kGoOn;
}

// Finds what is lost and reported, as a reading in order does.
MegatronDamage MegatronFramer::Survey() {
  MegatronDamage found;
  FrameInput input;
  input.limit = kUnknownSize;
  input.at_end = true;
  FrameOutput output;
  FrameResult result;
  std::size_t pos = 0;
  std::uint64_t first_lost = 0;
  for (FrameStep step = FrameStep::kGoOn; step == FrameStep::kGoOn;) {
    const bool was_lost = lost_;
    const std::uint64_t before = next_;
    step = NextSequence(input, &pos, &output, &result);
    if (lost_ && next_ != before) found.lost.push_back(before);
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
