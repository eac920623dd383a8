#include "readers/stripe_reader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ringfeed {

std::size_t PartBytes(const OpenOptions& options, std::size_t slab_bytes) {
  return std::min(options.stripe_bytes, std::max(options.io.block_bytes, 2 * slab_bytes));
}

StripeReader::StripeReader(LaneContext* context, std::shared_ptr<InputFile> file,
                           std::shared_ptr<const Format> format, std::uint64_t file_bytes,
                           std::uint64_t stripes)
    : context_(context),
      file_(std::move(file)),
      format_(std::move(format)),
      framer_(format_->NewFramer({file_->name(), file_bytes, context->options->on_damage,
                                  context->options->max_record_bytes})),
      file_bytes_(file_bytes),
      stripes_(stripes),
      memory_(context->arena) {}

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
  const StageTimer timer(*context_->frame_clock);
  FrameInput input;
  input.bytes = bytes;
  input.offset = position_;
  input.limit = end;
  input.at_end = at_end;
  input.memory = &memory_;
  const FrameResult result = framer_->Frame(input, &block->frame);
  position_ += result.consumed;
  if (!result.status.ok()) block->status = result.status;
  return block->status.ok() ? result.need_bytes : 0;
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
  if (context_->options->on_damage == OnDamage::kFail) {
    block->status = placed;
  } else {
    block->frame.damage.push_back({file_->name(), position_, file_bytes_, placed.ToString()});
  }
  position_ = file_bytes_;
}

void StripeReader::FinishPart(Block* block) {
  memory_.GiveTo(block);
  block->file_name = file_->name();
  // Held blocks must not keep descriptors: thousands of them may wait behind a shuffle.
  if (!file_->mapping().empty()) block->file = file_;
  block->turn_ends = position_ >= limit() || !block->status.ok();
  if (block->turn_ends) ++stripe_;
}

SlabRun StripeReader::Allocate(Block* block, std::size_t bytes) {
  SlabRun run = context_->arena->Allocate(bytes, context_->trim ? nullptr : context_->last_run);
  context_->last_run = run.data;
  if (!run) {
    block->status =
        Status(StatusCode::kResourceExhausted,
               "no " + std::to_string(bytes) + " contiguous bytes left in the pinned arena of " +
                   std::to_string(context_->arena->bytes()) +
                   "; raise its size (RINGFEED_ARENA_BYTES), or lower cycle, window or batch size",
               {file_->name(), static_cast<std::int64_t>(position_), -1});
  }
  return run;
}

namespace {

/// A file that stands in memory: no copy at all, records point into the mapping.
class MappedStripes final : public StripeReader {
 public:
  using StripeReader::StripeReader;

  bool ReadPart(Block* block) override {
    const std::uint64_t end = std::min<std::uint64_t>(file_bytes_, file_->mapping().size());
    if (position_ < limit() || file_bytes_ == 0) {
      const std::uint64_t start = position_;
      const std::uint64_t part_end =
          context_->written ? std::min(part_limit(), start + kPartBytes) : part_limit();
      Frame(block, file_->mapping().subspan(start, end - std::min(start, end)), part_end, true);
      context_->read_bytes->Add(position_ - start);
      if (file_->damaged() && block->status.ok()) {
        // What was framed since the file shrank may be zeros in place of data.
        block->frame.records.clear();
        NoteShortFile(block, start);
      }
    }
    FinishPart(block);
    return true;
  }

  std::span<const std::byte> Upcoming() const override {
    const std::size_t bytes = file_->mapping().size();
    if (position_ >= bytes) return {};
    return file_->mapping().subspan(position_,
                                    std::min<std::size_t>(2 * kPartBytes, bytes - position_));
  }

 private:
  /// The part that is written and the next one, which is fetched meanwhile, stand in L2 together.
  static constexpr std::size_t kPartBytes = 128 * 1024;
};

/// Reads in the caller's thread, block by block into one run: each block is framed while it is hot,
/// and no record is ever moved, since the next block lands right behind it.
class InlineStripes final : public StripeReader {
 public:
  using StripeReader::StripeReader;

  bool ReadPart(Block* block) override {
    if (position_ < limit() || (file_bytes_ == 0 && stripe_ == 0)) ReadRecords(block);
    FinishPart(block);
    return true;
  }

 private:
  /// Behind a stripe's end this much more is read at once, for the record that straddles it.
  static constexpr std::size_t kSlackBytes = 4096;

  void ReadRecords(Block* block);
  Status ReadMore(std::uint64_t offset, std::byte* to, std::size_t bytes, std::size_t* got);
  /// Moves the unfinished record to a run that holds `need` bytes.
  bool Grow(Block* block, std::size_t used, std::size_t need);

  SlabRun run_;
  std::uint64_t base_ = 0;  ///< file offset of run_.data[0]
  std::size_t fill_ = 0;    ///< bytes in the run
  std::size_t largest_record_ = 0;
};

Status InlineStripes::ReadMore(std::uint64_t offset, std::byte* to, std::size_t bytes,
                               std::size_t* got) {
  const StageTimer timer(*context_->read_clock);
  const Status status = file_->ReadAt(offset, {to, bytes}, got);
  context_->read_bytes->Add(*got);
  return status;
}

bool InlineStripes::Grow(Block* block, std::size_t used, std::size_t need) {
  const SlabRun larger = Allocate(block, need + kSlackBytes);
  if (!larger) return false;
  std::copy_n(run_.data + used, fill_ - used, larger.data);
  block->runs.push_back(run_);
  run_ = larger;
  base_ += used;
  fill_ -= used;
  return true;
}

void InlineStripes::ReadRecords(Block* block) {
  const std::uint64_t part_end = part_limit();
  const std::size_t planned = static_cast<std::size_t>(part_end - position_);
  const std::size_t room = std::max(kSlackBytes, 2 * largest_record_);
  run_ = Allocate(block, planned + room);
  if (!run_) return;
  base_ = position_;
  fill_ = 0;
  std::size_t wanted = planned + kSlackBytes;
  const std::size_t block_bytes = context_->options->io.block_bytes;
  while (true) {
    const std::uint64_t left = file_bytes_ - (base_ + fill_);
    const auto ask = static_cast<std::size_t>(
        std::min<std::uint64_t>({left, block_bytes, wanted - fill_, run_.bytes - fill_}));
    std::size_t got = 0;
    Status failure;
    if (ask > 0) failure = ReadMore(base_ + fill_, run_.data + fill_, ask, &got);
    fill_ += got;
    const bool ended = failure.ok() && (base_ + fill_ >= file_bytes_ || got < ask);
    const auto used = static_cast<std::size_t>(position_ - base_);
    const std::size_t need = Frame(block, {run_.data + used, fill_ - used}, part_end, ended);
    if (!failure.ok()) {
      NoteReadFailure(block, base_ + fill_, failure);
      break;
    }
    if (got < ask) {
      NoteShortFile(block, base_ + fill_);
      break;
    }
    if (need == 0 || ended) break;
    const auto now_used = static_cast<std::size_t>(position_ - base_);
    largest_record_ = std::max(largest_record_, need);
    wanted = std::max(wanted, now_used + need);
    if (now_used + need > run_.bytes) {
      if (!Grow(block, now_used, need)) break;
      wanted = need + kSlackBytes;
    }
  }
  block->runs.push_back(context_->trim && run_ ? context_->arena->Trim(run_, fill_) : run_);
}

}  // namespace

std::unique_ptr<StripeReader> MakeAsyncStripes(LaneContext* context,
                                               std::shared_ptr<InputFile> file,
                                               std::shared_ptr<const Format> format,
                                               std::uint64_t file_bytes, std::uint64_t stripes,
                                               ReadEngine* engine);

std::unique_ptr<StripeReader> MakeStripeReader(LaneContext* context,
                                               std::shared_ptr<InputFile> file,
                                               std::shared_ptr<const Format> format,
                                               std::uint64_t file_bytes, std::uint64_t stripes,
                                               Status* status) {
  const IoChoice& choice = file->choice();
  if (choice.path == IoPath::kMmap) {
    return std::make_unique<MappedStripes>(context, std::move(file), std::move(format), file_bytes,
                                           stripes);
  }
  if (choice.resident || file->descriptor() < 0) {
    return std::make_unique<InlineStripes>(context, std::move(file), std::move(format), file_bytes,
                                           stripes);
  }
  ReadEngine* engine = context->io->EngineFor(*file, status);
  if (engine == nullptr) return nullptr;
  *status = Status();
  return MakeAsyncStripes(context, std::move(file), std::move(format), file_bytes, stripes, engine);
}

}  // namespace ringfeed
