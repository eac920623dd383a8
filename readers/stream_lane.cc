#include <algorithm>
#include <utility>

#include "readers/block_memory.h"
#include "readers/lane.h"

namespace ringfeed {

namespace {

constexpr std::size_t kHeadBytes = 4096;
constexpr std::size_t kReadBytes = 512 * 1024;

}  // namespace

StreamLane::StreamLane(StreamSource* stream, LaneContext* context, std::stop_token stop)
    : stream_(stream), context_(context), stop_(std::move(stop)) {}

bool StreamLane::ReadSome(Block* block) {
  const StageTimer timer(*context_->read_clock);
  const std::size_t had = carried_;
  // A block's worth, or as much again as there is where the record at hand needs more: a length
  // that nothing stands behind takes no memory.
  const std::size_t missing = need_ > had ? need_ - had : 0;
  const std::size_t ask = std::max(kReadBytes, std::min(missing, had));
  // Grows only: clearing what a short read leaves unused would cost more than the read.
  if (buffer_.size() < had + ask) buffer_.resize(had + ask);
  std::size_t got = 0;
  const Status status = stream_->Read({buffer_.data() + had, ask}, &got, stop_);
  carried_ = had + got;
  context_->read_bytes->Add(got);
  if (!status.ok()) {
    block->status = status.WithPlace({stream_->name(), -1, -1});
    return false;
  }
  stream_done_ = got == 0;
  return true;
}

bool StreamLane::Detect(Block* block) {
  const std::string& asked = context_->options->format;
  while (asked.empty() && carried_ < kHeadBytes && !stream_done_) {
    if (DetectFormat(stream_->name(), carry()).status.ok()) break;
    if (!ReadSome(block)) return false;
  }
  FormatResult found = asked.empty() ? DetectFormat(stream_->name(), carry()) : FindFormat(asked);
  if (!found.status.ok()) {
    block->status = found.status.WithPlace({stream_->name(), -1, -1});
    return false;
  }
  format_ = std::move(found.format);
  FramerOptions options;
  options.file = stream_->name();
  options.on_damage = context_->options->on_damage;
  options.max_record_bytes = context_->options->max_record_bytes;
  framer_ = format_->NewFramer(options);
  return true;
}

void StreamLane::FrameSome(Block* block) {
  const std::size_t bytes = carried_;
  const SlabRun run = context_->arena->Allocate(std::max<std::size_t>(bytes, 1));
  if (!run) {
    block->status = Status(StatusCode::kResourceExhausted,
                           "no " + std::to_string(bytes) + " bytes left in the pinned arena",
                           {stream_->name(), -1, -1});
    return;
  }
  block->runs.push_back(run);
  std::copy_n(buffer_.data(), bytes, run.data);
  FrameInput input;
  input.bytes = {run.data, bytes};
  input.offset = position_;
  input.limit = kUnknownSize;
  input.at_end = stream_done_;
  BlockMemory memory(context_->arena);
  input.memory = &memory;
  const StageTimer timer(*context_->frame_clock);
  const FrameResult result = framer_->Frame(input, &block->frame);
  memory.GiveTo(block);
  position_ += result.consumed;
  carried_ -= result.consumed;
  std::copy_n(buffer_.data() + result.consumed, carried_, buffer_.data());
  need_ = std::max<std::size_t>(result.need_bytes, 1);
  block->status = result.status;
}

bool StreamLane::Fill(Block* block) {
  if (pass_ended_) {
    block->stream_ends = true;
    return true;
  }
  if (format_ == nullptr && !Detect(block)) return true;
  if (stream_done_ && carried_ == 0) {
    block->pass_ends = true;
    pass_ended_ = true;
    return true;
  }
  while (block->status.ok() && block->rows() == 0 && block->frame.damage.empty()) {
    if (carried_ < need_ && !stream_done_) {
      if (!ReadSome(block)) return true;
      if (carried_ < need_ && !stream_done_) continue;
    }
    if (carried_ == 0) break;
    FrameSome(block);
    if (stream_done_) {
      carried_ = 0;
      break;
    }
  }
  return true;
}

}  // namespace ringfeed
