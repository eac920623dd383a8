#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "readers/engine/sources/stripe_reader.h"

namespace ringfeed {

namespace {

/// Stripes by an engine that reads ahead: the current stripe's buffer and the next one's are in
/// flight or in memory, of an object of a store those of more stripes, as many as fill the link. A
/// record that straddles a border is completed at the end of the current buffer; one that is larger
/// than that gets a buffer of its own, read straight to its place.
class AsyncStripes final : public StripeReader {
 public:
  AsyncStripes(LaneContext* context, std::shared_ptr<InputFile> file, const ExaminedFile& scheduled,
               ReadEngine* engine)
      : StripeReader(context, std::move(file), scheduled), engine_(engine) {
    if (file_->remote() != nullptr) most_ahead_ += context_->store_ahead.lane_bytes / RunBytes();
  }
  ~AsyncStripes() override {
    context_->io->Abandon(std::move(current_), file_);
    for (auto& stripe : ahead_) context_->io->Abandon(std::move(stripe), file_);
  }

  bool ReadPart(Block* block) override;
  bool frames_hot() const override { return false; }

 private:
  enum class Step : std::uint8_t { kDone, kAgain, kWait };

  bool RequestBuffers(Block* block);
  std::unique_ptr<ReadBuffer> RequestStripe(SlabRun run, std::uint64_t begin, std::uint64_t end);
  /// Whether a stripe beyond the next one may be asked for.
  bool MayAskFurther() const;
  Step FrameCurrent(Block* block);
  Step AppendFromNext(Block* block, std::uint64_t need_end);
  Step MoveToLargeBuffer(Block* block, std::uint64_t need_end);
  /// The file ends, or cannot be read, at the end of what `last` has.
  Step EndFile(Block* block, const ReadBuffer& last);
  void TakeCurrent(Block* block);
  void LetGoOfNext();
  /// Of a whole stripe.
  std::size_t RunBytes() const { return context_->options->stripe_bytes + kStripeRoomBytes; }
  /// Reads again what the medium did not give of a buffer, except what cannot be read.
  void Mend(ReadBuffer* buffer);

  std::uint64_t AlignedDown(std::uint64_t offset) const {
    return offset / file_->alignment() * file_->alignment();
  }

  ReadEngine* const engine_;
  std::unique_ptr<ReadBuffer> current_;
  std::deque<std::unique_ptr<ReadBuffer>> ahead_;  ///< whole stripes in a row, the next one first
  std::size_t most_ahead_ = 1;
};

// Whether the block has any bytes of the run.
bool HasFramedOf(const Block& block, const SlabRun& run) {
  return std::any_of(block.framed.begin(), block.framed.end(), [&](const Block::Framed& framed) {
    return framed.bytes.data() >= run.data && framed.bytes.data() < run.data + run.bytes;
  });
}

std::unique_ptr<ReadBuffer> AsyncStripes::RequestStripe(SlabRun run, std::uint64_t begin,
                                                        std::uint64_t end) {
  auto buffer = context_->io->Request(file_.get(), engine_, run, begin, end, begin);
  context_->io->Pump(buffer.get());
  return buffer;
}

bool AsyncStripes::MayAskFurther() const {
  if (ahead_.size() >= most_ahead_) return false;
  const auto waits =
      std::ranges::count_if(ahead_, [](const auto& its) { return !its->complete(); });
  return context_->MayAskStore(static_cast<std::size_t>(waits) + (current_->complete() ? 0 : 1));
}

bool AsyncStripes::RequestBuffers(Block* block) {
  const std::uint64_t stripe_bytes = context_->options->stripe_bytes;
  if (current_ == nullptr) {
    const std::uint64_t begin = AlignedDown(position_);
    const std::uint64_t end = std::min(limit(), file_bytes_);
    const SlabRun run = Allocate(block, static_cast<std::size_t>(end - begin) + kStripeRoomBytes);
    if (!run) return false;
    current_ = RequestStripe(run, begin, end);
  } else {
    context_->io->Pump(current_.get());
  }
  for (const auto& stripe : ahead_) context_->io->Pump(stripe.get());
  while (ahead_.empty() || MayAskFurther()) {
    const std::uint64_t begin = ahead_.empty() ? current_->end : ahead_.back()->end;
    if (begin >= file_bytes_ || begin % stripe_bytes != 0) break;
    const std::uint64_t end = std::min(begin + stripe_bytes, file_bytes_);
    const std::size_t bytes = static_cast<std::size_t>(end - begin) + kStripeRoomBytes;
    // A stripe that is not needed yet fails nothing.
    const SlabRun run = ahead_.empty() ? Allocate(block, bytes) : context_->arena->Allocate(bytes);
    if (!run) return !ahead_.empty();
    ahead_.push_back(RequestStripe(run, begin, end));
  }
  return true;
}

bool AsyncStripes::ReadPart(Block* block) {
  while (position_ < limit() || (file_bytes_ == 0 && stripe_ == 0)) {
    if (!RequestBuffers(block)) break;
    if (!current_->complete()) return false;
    Mend(current_.get());
    const Step step = FrameCurrent(block);
    if (step == Step::kWait) return false;
    if (step == Step::kDone) break;
  }
  FinishPart(block);
  return true;
}

void AsyncStripes::Mend(ReadBuffer* buffer) {
  if (buffer->status.ok()) return;
  const InputTimer timer(*context_->read_clock, *context_->wait_clock);
  for (ReadBuffer::Part& part : buffer->parts) {
    if (part.status.ok()) continue;
    std::size_t got = part.got;
    part.status = ReadAround(part.status, part.offset, {part.buffer, part.bytes}, &got);
    buffer->bytes_read += got - part.got;
    part.got = static_cast<std::uint32_t>(got);
    if (!part.status.ok()) break;  // the failure
  }
  buffer->Conclude();
}

AsyncStripes::Step AsyncStripes::FrameCurrent(Block* block) {
  if (!current_->status.ok() && current_->valid_end <= position_) {
    return EndFile(block, *current_);
  }
  const std::uint64_t expected = std::min(current_->end, file_bytes_);
  const bool cut = current_->valid_end < expected;
  const bool at_end = current_->valid_end >= file_bytes_ || (cut && current_->status.ok());
  if (cut && !current_->status.ok()) leaves_sums_from_ = FrameInput::kLeavesNone;
  const auto used = static_cast<std::size_t>(position_ - current_->begin);
  const auto valid = static_cast<std::size_t>(current_->valid_end - current_->begin);
  const std::size_t need =
      FrameAround(block, {current_->run.data + used, valid - used}, limit(), at_end);
  if (cut) return EndFile(block, *current_);
  if (need == 0 || at_end) {
    TakeCurrent(block);
    return Step::kDone;
  }
  const std::uint64_t need_end = position_ + need;
  const bool fits = need_end - current_->begin <= current_->run.bytes;
  if (fits && !ahead_.empty() && need_end <= ahead_.front()->end) {
    return AppendFromNext(block, need_end);
  }
  return MoveToLargeBuffer(block, need_end);
}

AsyncStripes::Step AsyncStripes::AppendFromNext(Block* block, std::uint64_t need_end) {
  ReadBuffer* const next = ahead_.front().get();
  if (!next->complete()) return Step::kWait;
  Mend(next);
  if (next->valid_end < need_end && leaves_sums_from_ != FrameInput::kLeavesNone) {
    leaves_sums_from_ = FrameInput::kLeavesNone;  // the framer may then need less
    return Step::kAgain;
  }
  if (next->valid_end < need_end) return EndFile(block, *next);  // inside this record
  const auto bytes = static_cast<std::size_t>(need_end - current_->valid_end);
  const auto from = static_cast<std::size_t>(current_->valid_end - next->begin);
  std::copy_n(next->run.data + from, bytes,
              current_->run.data + (current_->valid_end - current_->begin));
  current_->valid_end = need_end;
  current_->end = need_end;
  return Step::kAgain;
}

// Moves what is in memory already, and reads the rest after it.
AsyncStripes::Step AsyncStripes::MoveToLargeBuffer(Block* block, std::uint64_t need_end) {
  const std::uint64_t begin = AlignedDown(position_);
  const std::uint64_t end = std::min(need_end, file_bytes_);
  std::vector<const ReadBuffer*> have = {current_.get()};
  for (const auto& stripe : ahead_) {
    // One that is short ends what there is.
    if (stripe->begin >= end || have.back()->valid_end < stripe->begin) break;
    if (!stripe->complete()) return Step::kWait;
    Mend(stripe.get());
    have.push_back(stripe.get());
  }
  const std::uint64_t have_end = std::max(current_->valid_end, have.back()->valid_end);
  const std::uint64_t read_from = AlignedDown(std::min(have_end, end));
  const SlabRun run = Allocate(block, static_cast<std::size_t>(end - begin) + kStripeRoomBytes);
  if (!run) return Step::kDone;
  std::uint64_t at = begin;
  for (const ReadBuffer* const from : have) {
    const std::uint64_t to = std::min(from->valid_end, read_from);
    if (at >= to) continue;
    std::copy_n(from->run.data + (at - from->begin), to - at, run.data + (at - begin));
    at = to;
  }
  context_->read_bytes->Add(current_->bytes_read);
  auto large = context_->io->Request(file_.get(), engine_, run, begin, end, read_from);
  if (HasFramedOf(*block, current_->run)) {
    block->runs.push_back(current_->run);
  } else {
    context_->arena->Free(current_->run);
  }
  current_ = std::move(large);
  // What the last one has after this record comes next.
  while (!ahead_.empty() && ahead_.front()->end <= end) LetGoOfNext();
  return Step::kAgain;
}

AsyncStripes::Step AsyncStripes::EndFile(Block* block, const ReadBuffer& last) {
  if (!last.status.ok()) {
    NoteReadFailure(block, last.valid_end, last.status);
  } else {
    NoteShortFile(block, last.valid_end);
  }
  TakeCurrent(block);
  return Step::kDone;
}

void AsyncStripes::TakeCurrent(Block* block) {
  const auto valid = static_cast<std::size_t>(current_->valid_end - current_->begin);
  context_->read_bytes->Add(current_->bytes_read);
  block->cold = file_->reads_direct();
  // If it failed after Trim, the run's end would be given back twice.
  block->runs.reserve(block->runs.size() + 1);
  block->runs.push_back(context_->trim ? context_->arena->Trim(current_->run, valid)
                                       : current_->run);
  current_.reset();
  while (!ahead_.empty() && position_ >= ahead_.front()->end) LetGoOfNext();
  if (!ahead_.empty() && position_ >= ahead_.front()->begin) {
    current_ = std::move(ahead_.front());
    ahead_.pop_front();
  }
  while (current_ == nullptr && !ahead_.empty()) LetGoOfNext();
}

void AsyncStripes::LetGoOfNext() {
  context_->read_bytes->Add(ahead_.front()->bytes_read);
  context_->io->Abandon(std::move(ahead_.front()), file_);
  ahead_.pop_front();
}

}  // namespace

std::unique_ptr<StripeReader> MakeAsyncStripes(LaneContext* context,
                                               std::shared_ptr<InputFile> file,
                                               const ExaminedFile& scheduled, ReadEngine* engine) {
  return std::make_unique<AsyncStripes>(context, std::move(file), scheduled, engine);
}

}  // namespace ringfeed
