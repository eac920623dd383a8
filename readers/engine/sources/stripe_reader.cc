#include "readers/engine/sources/stripe_reader.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/memory/arena_advice.h"
#include "base/refusal.h"
#include "readers/engine/blocks/locate.h"

namespace ringfeed {

namespace {

// Whether the checksums of most records from that one on were left.
bool LeftMost(const FrameOutput& frame, std::size_t first) {
  if (frame.unchecked.size() <= first) return false;
  const auto begin = frame.unchecked.begin() + static_cast<std::ptrdiff_t>(first);
  const auto left = std::count(begin, frame.unchecked.end(), std::uint8_t{1});
  return 2 * static_cast<std::size_t>(left) > frame.records.size() - first;
}

// If damage fails in another order than that of the file, a record that fails must not change how
// later ones are framed: its checksum is taken by itself, however the file is read.
std::size_t LeavesSumsFrom(const LaneContext& context, Compression compression,
                           const InputFile& file) {
  if (context.sums == nullptr || compression != Compression::kNone) return FrameInput::kLeavesNone;
  const bool cold = file.reads_direct();
  const bool left = context.sums->leaves_in_memory(cold) || context.fails_in_order ||
                    file.choice().path == IoPath::kMmap;
  return left ? context.sums->leaves_from(cold) : FrameInput::kLeavesNone;
}

}  // namespace

std::size_t PartBytes(const OpenOptions& options, std::size_t slab_bytes) {
  return std::min(options.stripe_bytes, std::max(options.io.block_bytes, 2 * slab_bytes));
}

StripeReader::StripeReader(LaneContext* context, std::shared_ptr<InputFile> file,
                           const ExaminedFile& scheduled)
    : context_(context),
      file_(std::move(file)),
      format_(scheduled.format),
      file_bytes_(scheduled.compression == Compression::kNone ? scheduled.bytes : kUnknownSize),
      // A pass before may have counted those of a compressed file; it reads on to its end.
      stripes_(file_bytes_ == kUnknownSize ? kUnknownSize : scheduled.stripes),
      has_grown_(file_bytes_ != kUnknownSize && file_->size() > file_bytes_),
      leaves_sums_from_(LeavesSumsFrom(*context, scheduled.compression, *file_)),
      memory_(context->arena),
      careful_(file_.get()) {
  FramerOptions options = Framing(context_->options->on_damage);
  options.check_elements = context_->check_elements;
  framer_ = format_->NewFramer(options);
}

FramerOptions StripeReader::Framing(OnDamage on_damage) const {
  FramerOptions options{file_->name(), file_bytes_, on_damage, context_->options->max_record_bytes};
  options.has_grown = has_grown_;
  return options;
}

std::uint64_t StripeReader::limit() const {
  if (stripe_ + 1 >= stripes_) return file_bytes_;
  return (stripe_ + 1) * context_->options->stripe_bytes;
}

std::uint64_t StripeReader::part_limit() const {
  if (context_->trim) return limit();
  return std::min(limit(),
                  position_ + PartBytes(*context_->options, context_->arena->slab_bytes()));
}

std::size_t StripeReader::Frame(Block* block, std::span<const std::byte> bytes, std::uint64_t end,
                                bool at_end) {
  if (context_->stop.stop_requested()) {  // a record of any length may be half read
    block->status = Status(StatusCode::kCancelled, "stopped", {file_->name(), -1, -1});
    return 0;
  }
  const StageTimer timer(*context_->frame_clock);
  FrameInput input;
  input.bytes = bytes;
  input.offset = position_;
  input.limit = end;
  input.at_end = at_end;
  input.memory = &memory_;
  input.leaves_sums_from = leaves_sums_from_;
  const std::size_t first_row = block->rows();
  FrameResult result = framer_->Frame(input, &block->frame);
  const bool goes_on = !result.status.ok() && GoesOnBehind(*block, first_row, bytes, result.status);
  if (goes_on) {
    result.consumed = static_cast<std::size_t>(
        static_cast<std::uint64_t>(result.status.place().offset) - position_);
  }
  block->NoteFramed(bytes.first(result.consumed), position_);
  position_ += result.consumed;
  if (goes_on) {
    GoOnBehind(block, result.status);
    return Frame(block, bytes.subspan(result.consumed), end, at_end);
  }
  if (!failure_.ok()) FailDamaged(block, first_row);
  left_most_ = LeftMost(block->frame, first_row);
  if (!result.status.ok()) {
    block->status = result.status;
    block->denied = memory_.exhausted();
  }
  return block->status.ok() ? result.need_bytes : 0;
}

std::size_t StripeReader::FrameAround(Block* block, std::span<const std::byte> bytes,
                                      std::uint64_t end, bool at_end) {
  careful_.Forget(position_);
  if (careful_.ranges().empty()) [[likely]] {
    return Frame(block, bytes, end, at_end);
  }
  const std::uint64_t begin = position_;
  const std::uint64_t bytes_end = begin + bytes.size();
  const auto rest = [&] { return bytes.subspan(static_cast<std::size_t>(position_ - begin)); };
  const bool skips = context_->options->on_damage == OnDamage::kSkip;
  if (skips && format_->has_fixed_places()) {
    const std::size_t first_row = block->rows();
    const std::size_t need = Frame(block, bytes, end, at_end);
    LoseUnreadable(block, first_row, bytes, begin);
    return need;
  }
  while (!careful_.ranges().empty() && careful_.ranges().front().begin < bytes_end) {
    if (position_ >= end) return 0;
    const UnreadableRange bad = careful_.ranges().front();
    if (bad.begin > position_) {
      const auto before = static_cast<std::size_t>(bad.begin - position_);
      const std::size_t need = Frame(block, rest().first(before), end, false);
      if (!block->status.ok() || (need == 0 && position_ >= end)) return 0;
    }
    if (!skips) {
      NoteReadFailure(block, bad.begin, bad.why);
      return 0;
    }
    if (!PassUnreadable(block, std::min(bad.end, bytes_end), bad.why)) return 0;
    careful_.Forget(position_);
  }
  if (position_ >= end || (position_ == bytes_end && at_end)) return 0;
  return position_ == bytes_end ? 1 : Frame(block, rest(), end, at_end);
}

void StripeReader::FrameToGap(Block* block) {
  const std::uint64_t at = position_;
  std::vector<DamagedRange>& damage = block->frame.damage;
  const std::size_t before = damage.size();
  Frame(block, {}, at, true);
  block->frame.warnings.clear();
  // If the file's size is known it says that the file shrank.
  std::erase_if(damage, [at](const DamagedRange& range) { return range.begin >= at; });
  for (std::size_t i = before; i < damage.size(); ++i) damage[i].end = std::min(damage[i].end, at);
}

bool StripeReader::PassUnreadable(Block* block, std::uint64_t to, const Status& why) {
  const std::uint64_t at = position_;
  std::vector<DamagedRange>& damage = block->frame.damage;
  FrameToGap(block);
  const Status placed = why.WithPlace({file_->name(), static_cast<std::int64_t>(at), -1});
  const FramerOptions options = Framing(OnDamage::kSkip);
  std::unique_ptr<Framer> framer = format_->NewFramerBehindGap(options, to);
  const std::uint64_t lost_to = framer != nullptr ? to : file_bytes_;
  if (!damage.empty() && damage.back().end == at && damage.back().file == file_->name()) {
    damage.back().end = lost_to;  // one loss
  } else {
    damage.push_back({file_->name(), at, lost_to, placed.ToString()});
  }
  position_ = lost_to;
  if (framer == nullptr) return false;
  framer_ = std::move(framer);
  framed_from_ = to;
  return true;
}

void StripeReader::LoseUnreadable(Block* block, std::size_t first_row,
                                  std::span<const std::byte> bytes, std::uint64_t offset) {
  std::vector<RecordSpan>& records = block->frame.records;
  const std::span<const UnreadableRange> bad = careful_.ranges();
  // Rows of an array that is gathered are in other memory: each has bytes of all of it.
  const auto stands_here = [bytes](const RecordSpan& record) {
    return !std::less<>()(record.data, bytes.data()) &&
           !std::less<>()(bytes.data() + bytes.size(), record.data + record.size);
  };
  for (std::size_t row = first_row; row < records.size(); ++row) {
    RecordSpan& record = records[row];
    if (record.damaged()) continue;
    std::uint64_t begin = offset;
    std::uint64_t end = position_;
    if (stands_here(record)) {
      begin += static_cast<std::uint64_t>(record.data - bytes.data());
      end = begin + record.size;
    }
    const auto lost = std::find_if(bad.begin(), bad.end(), [&](const UnreadableRange& range) {
      return range.begin < end && begin < range.end;
    });
    if (lost == bad.end()) continue;
    record = RecordSpan();
    block->frame.damage.push_back({file_->name(), begin, end, lost->why.ToString()});
  }
  SortDamage(block);
}

Status StripeReader::ReadAround(const Status& failure, std::uint64_t offset,
                                std::span<std::byte> buffer, std::size_t* got) {
  if (context_->direct != nullptr || !careful_.HelpsAfter(failure)) return failure;
  const std::size_t had = *got / file_->alignment() * file_->alignment();
  const std::span<std::byte> rest = buffer.subspan(had);
  std::size_t more = 0;
  const Status status = context_->options->on_damage == OnDamage::kSkip
                            ? careful_.ReadAll(offset + had, rest, &more)
                            : careful_.ReadToFirst(offset + had, rest, &more);
  *got = had + more;
  return status;
}

void StripeReader::SortDamage(Block* block) {
  std::stable_sort(block->frame.damage.begin(), block->frame.damage.end(),
                   [](const DamagedRange& a, const DamagedRange& b) { return a.begin < b.begin; });
}

// Records after one that fails may come before it in the order. They are framed if the format's
// records are independent of each other, and the begin of the failed one is known.
bool StripeReader::GoesOnBehind(const Block& block, std::size_t first_row,
                                std::span<const std::byte> bytes, const Status& failure) const {
  if (!block.fails_in_order || !failure_.ok() || memory_.exhausted()) return false;
  if (context_->options->on_damage != OnDamage::kFail) return false;
  const std::int64_t at = failure.place().offset;
  if (at < 0 || static_cast<std::uint64_t>(at) < position_) return false;
  const std::uint64_t before = static_cast<std::uint64_t>(at) - position_;
  if (before > bytes.size()) return false;
  if (!format_->records_stand_alone()) return false;
  if (block.rows() > first_row) {
    // What was decompressed of a chunk in front of it is in other memory.
    const std::byte* const last = block.frame.records.back().data;
    if (last >= bytes.data() + before && last < bytes.data() + bytes.size()) return false;
  }
  return format_->NewFramerBehindGap(Framing(OnDamage::kSkip), static_cast<std::uint64_t>(at)) !=
         nullptr;
}

void StripeReader::GoOnBehind(Block* block, const Status& failure) {
  block->status = failure;
  block->FailBehindRows();
  block->status = Status();
  framer_ = format_->NewFramer(Framing(OnDamage::kSkip));
  failure_ = failure;
  failed_at_ = position_;
}

void StripeReader::FailDamaged(Block* block, std::size_t first_row) {
  std::vector<RecordSpan>& records = block->frame.records;
  std::vector<DamagedRange> damage = std::exchange(block->frame.damage, {});
  if (!damage.empty() && damage.front().begin == failed_at_) {
    // Removes the record that has failed already.
    damage.erase(damage.begin());
    if (first_row < records.size() && records[first_row].damaged()) {
      block->frame.EraseRecord(first_row);
    }
  }
  const auto holes =
      std::count_if(records.begin() + static_cast<std::ptrdiff_t>(first_row), records.end(),
                    [](const RecordSpan& record) { return record.damaged(); });
  const bool each_known = holes == static_cast<std::ptrdiff_t>(damage.size());
  auto range = damage.begin();
  for (std::size_t row = first_row; row < records.size(); ++row) {
    if (!records[row].damaged()) continue;
    Status why = failure_;
    if (each_known) {
      why = Status(StatusCode::kDamaged, range->reason,
                   {range->file, static_cast<std::int64_t>(range->begin), -1});
      ++range;
    }
    (void)block->FailAt(static_cast<std::uint32_t>(row), why);
  }
}

void StripeReader::SetEnd(std::uint64_t bytes) {
  file_bytes_ = bytes;
  stripes_ = std::max(stripe_ + 1, format_->Stripes(bytes, context_->options->stripe_bytes));
}

void StripeReader::NoteShortFile(Block* block, std::uint64_t end) {
  if (!block->status.ok()) return;
  const std::string reason = "the file ends at " + std::to_string(end) + ", it had " +
                             std::to_string(file_bytes_) + " bytes when it was opened";
  if (context_->options->on_damage == OnDamage::kFail) {
    block->status =
        Status(StatusCode::kTruncated, reason, {file_->name(), static_cast<std::int64_t>(end), -1});
  } else {
    block->frame.damage.push_back({file_->name(), end, file_bytes_, reason});
  }
  position_ = file_bytes_;
}

void StripeReader::NoteReadFailure(Block* block, std::uint64_t offset, const Status& status) {
  if (!block->status.ok()) return;
  const Status placed = status.WithPlace({file_->name(), static_cast<std::int64_t>(offset), -1});
  if (IsRefusal(status)) {
    block->Deny(placed);
  } else if (context_->options->on_damage == OnDamage::kFail ||
             IsNoDamage(status, file_->remote() != nullptr)) {
    block->status = placed;
  } else {
    block->frame.damage.push_back({file_->name(), position_, file_bytes_, placed.ToString()});
  }
  position_ = file_bytes_;
}

void StripeReader::FinishPart(Block* block) {
  memory_.GiveTo(block);
  block->file_name = file_->name();
  block->first_record = records_;
  records_ += block->rows();
  // Held blocks must not keep descriptors: thousands of them may wait in a shuffle.
  if (!file_->mapping().empty() && block->files.empty()) block->files.push_back(file_);
  block->turn_ends = position_ >= limit() || !block->status.ok();
  if (block->turn_ends) ++stripe_;
}

SlabRun StripeReader::Allocate(Block* block, std::size_t bytes) {
  SlabRun run = context_->arena->Allocate(bytes, context_->trim ? nullptr : context_->last_run);
  context_->last_run = run.data;
  if (!run) {
    block->Deny(Status(StatusCode::kResourceExhausted,
                       NoRunOf(bytes, *context_->arena, "cycle, window or batch size"),
                       {file_->name(), static_cast<std::int64_t>(position_), -1}));
  }
  return run;
}

namespace {

/// A file that is in memory: no copy at all, records point into the mapping.
class MappedStripes final : public StripeReader {
 public:
  using StripeReader::StripeReader;

  bool ReadPart(Block* block) override {
    const std::uint64_t end = std::min<std::uint64_t>(file_bytes_, file_->mapping().size());
    if (position_ < limit() || file_bytes_ == 0) {
      const std::uint64_t start = position_;
      const std::uint64_t framed_from = framed_from_;
      // Bytes that are not read need no room in the cache.
      const bool cached = context_->written && !left_most_;
      const std::uint64_t part_end =
          cached ? std::min(part_limit(), start + kMemoryPartBytes) : part_limit();
      FrameAround(block, file_->mapping().subspan(start, end - std::min(start, end)), part_end,
                  true);
      context_->read_bytes->Add(position_ - start);
      if (file_->damaged()) {
        FrameAgain(block, {start, end, part_end, framed_from});
      } else if (end < file_bytes_ && (position_ >= end || position_ == start)) {
        // It was shorter already when it was mapped: nothing of what was scheduled follows.
        NoteShortFile(block, std::min(position_, end));
      }
    }
    FinishPart(block);
    return true;
  }

  std::span<const std::byte> Upcoming() const override {
    const std::size_t bytes = file_->mapping().size();
    if (position_ >= bytes || left_most_) return {};
    return file_->mapping().subspan(position_,
                                    std::min<std::size_t>(2 * kMemoryPartBytes, bytes - position_));
  }

  bool frames_hot() const override { return !left_most_; }

 private:
  struct Part {
    std::uint64_t start = 0;
    std::uint64_t file_end = 0;
    std::uint64_t end = 0;
    std::uint64_t framed_from = 0;  ///< as it was at the start
  };
  void FrameAgain(Block* block, const Part& part);
  /// The pages from `start` on that the medium did not give.
  void NoteUnreadable(std::uint64_t start);
  void FrameUpTo(std::uint64_t start, std::uint64_t end);

  std::size_t known_ = 0;  ///< pages that the medium did not give, as of the last part
};

// The bytes framed in this part may be zeros in place of data: the file shrank, or the medium did
// not give a page.
void MappedStripes::FrameAgain(Block* block, const Part& part) {
  if (file_->shrank()) {
    if (!block->status.ok()) return;
    block->frame.CutRecords(0);
    NoteShortFile(block, part.start);
    return;
  }
  if (format_->has_fixed_places() && part.start > 0) return;  // the writer of the rows looks
  // Framing it again may touch more of them.
  for (std::size_t pages = file_->unreadable().size(); pages != known_;
       pages = file_->unreadable().size()) {
    known_ = pages;
    NoteUnreadable(part.start);
    if (careful_.ranges().empty()) continue;
    block->frame.CutRecords(0);
    block->frame.damage.clear();
    block->framed.clear();
    block->status = Status();
    framed_from_ = part.framed_from;
    FrameUpTo(part.start, std::max(part.start, careful_.ranges().front().begin));
    FrameAround(block, file_->mapping().subspan(part.start, part.file_end - part.start), part.end,
                true);
  }
}

void MappedStripes::NoteUnreadable(std::uint64_t start) {
  for (const std::span<const std::byte> page : file_->unreadable()) {
    const auto at = static_cast<std::uint64_t>(page.data() - file_->mapping().data());
    careful_.Note(at, at + page.size(),
                  WhyDamaged(*file_).WithPlace({file_->name(), static_cast<std::int64_t>(at), -1}));
  }
  careful_.Forget(start);
}

// Makes a framer that has framed what precedes `start`. It may look on up to `end`.
void MappedStripes::FrameUpTo(std::uint64_t start, std::uint64_t end) {
  const FramerOptions options = Framing(context_->options->on_damage);
  framer_ = framed_from_ == 0 ? format_->NewFramer(options)
                              : format_->NewFramerBehindGap(options, framed_from_);
  position_ = start;
  FrameOutput unused;
  HeapFrameMemory memory;
  FrameInput input;
  input.limit = start;
  input.memory = &memory;
  for (std::uint64_t at = framed_from_; at < start;) {
    input.bytes = file_->mapping().subspan(at, end - at);
    input.offset = at;
    const FrameResult result = framer_->Frame(input, &unused);
    if (result.consumed == 0 || !result.status.ok()) return;
    at += result.consumed;
    unused = FrameOutput();
    memory.Clear();
  }
}

}  // namespace

std::unique_ptr<StripeReader> MakeStripeReader(LaneContext* context,
                                               std::shared_ptr<InputFile> file,
                                               const ExaminedFile& scheduled, Status* status) {
  const IoChoice& choice = file->choice();
  const bool compressed = scheduled.compression != Compression::kNone;
  if (choice.path == IoPath::kMmap && !compressed) {
    return std::make_unique<MappedStripes>(context, std::move(file), scheduled);
  }
  if (compressed || choice.resident || file->loads_ahead()) {
    return MakeInlineStripes(context, std::move(file), scheduled);
  }
  ReadEngine* engine = context->io->EngineFor(*file, status);
  if (engine == nullptr) return nullptr;
  *status = Status();
  return MakeAsyncStripes(context, std::move(file), scheduled, engine);
}

}  // namespace ringfeed
