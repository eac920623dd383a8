#include <algorithm>
#include <functional>
#include <utility>

#include "readers/engine/blocks/block.h"
#include "readers/engine/sources/lane.h"

namespace ringfeed {

namespace {

constexpr std::size_t kReadBytes = 512 * 1024;
constexpr std::size_t kLeastReadBytes = 4096;

std::size_t ReadBytesOf(const OpenOptions& options) {
  if (options.ahead_bytes == 0) return kReadBytes;
  const std::uint64_t most = std::min<std::uint64_t>(kReadBytes, options.ahead_bytes);
  return std::max(kLeastReadBytes, static_cast<std::size_t>(most));
}

}  // namespace

StreamLane::StreamLane(const StreamInput& input, std::uint32_t number, const Ends& ends,
                       LaneContext* context, std::stop_token stop)
    : stream_(input, stop),
      number_(number),
      format_name_(input.format),
      ends_(ends),
      context_(context),
      stop_(std::move(stop)),
      feed_(NewFeed(Compression::kNone)) {}

StreamLane::~StreamLane() {
  if (run_) context_->arena->Free(run_);
}

ByteFeed StreamLane::NewFeed(Compression compression) {
  return ByteFeed(context_, compression, [this](std::span<std::byte> to, std::size_t* got) {
    if (!head_.empty()) {
      *got = std::min(to.size(), head_.size());
      std::copy_n(head_.begin(), *got, to.begin());
      head_.erase(head_.begin(), head_.begin() + static_cast<std::ptrdiff_t>(*got));
      return Status();
    }
    const InputTimer timer(*context_->read_clock, *context_->wait_clock);
    const Status status = stream_.Read(to, got);
    context_->read_bytes->Add(*got);
    return status;
  });
}

bool StreamLane::MakeRoom(std::size_t bytes, Block* block) {
  if (run_.bytes >= bytes || (run_ && context_->arena->Extend(&run_, bytes))) return true;
  const SlabRun larger = context_->arena->Allocate(bytes, context_->last_run);
  if (!larger) {
    block->Deny(Status(StatusCode::kResourceExhausted,
                       "no " + std::to_string(bytes) +
                           " bytes left in the pinned arena; raise it (RINGFEED_ARENA_BYTES)",
                       {stream_.name(), -1, -1}));
    return false;
  }
  std::copy_n(run_.data, carried_, larger.data);
  if (run_) context_->arena->Free(run_);
  run_ = larger;
  context_->last_run = run_.data;
  return true;
}

bool StreamLane::ReadSome(Block* block) {
  const std::size_t had = carried_;
  // A block's worth, or, if the current record needs more, as much again as there is: so a false
  // length takes no memory.
  const std::size_t missing = need_ > had ? need_ - had : 0;
  const std::size_t ask = std::max(ReadBytesOf(*context_->options), std::min(missing, had));
  if (!MakeRoom(had + ask, block)) return false;
  std::size_t got = 0;
  const Status status = feed_.Read({run_.data + had, ask}, &got);
  carried_ = had + got;
  stream_done_ = got == 0;
  return status.ok() || NoteFailure(status, block);
}

// False if it ends everything; true if it is damage to be skipped.
bool StreamLane::NoteFailure(const Status& status, Block* block) {
  const std::uint64_t end = position_ + carried_;
  const bool damage =
      status.code() == StatusCode::kDamaged || status.code() == StatusCode::kTruncated;
  ByteFeed::Gap gap = feed_.GapAt(status, *block, position_, end);
  if (!damage || framer_ == nullptr || on_damage() != OnDamage::kSkip) {
    block->status =
        Status(status.code(), gap.Reason(), status.place())
            .WithPlace({stream_.name(), damage ? static_cast<std::int64_t>(end) : -1, -1});
    return false;
  }
  // Tells what it was passing over.
  BlockMemory memory(context_->arena);
  framer_->Frame({{}, position_, kUnknownSize, true, &memory}, &block->frame);
  feed_.GoOnBehind(*format_, Framing(), end, &gap);
  end_framed_ = gap.framer == nullptr;
  if (!end_framed_) {
    framer_ = std::move(gap.framer);
    need_ = 1;
    stream_done_ = false;
  }
  block->frame.damage.push_back({stream_.name(), gap.begin, end, gap.Reason()});
  position_ = end;
  carried_ = 0;  // what there is of a record
  return true;
}

FramerOptions StreamLane::Framing() const {
  FramerOptions options;
  options.file = stream_.name();
  options.on_damage = on_damage();
  options.max_record_bytes = context_->options->max_record_bytes;
  options.check_elements = context_->check_elements;
  return options;
}

bool StreamLane::Detect(Block* block) {
  const std::string& asked = format_name_;
  // The bytes of an interactive stream may be enough long before its head is full.
  const auto knows_enough = [&] { return IsFormatTold(asked, stream_.name(), carry()); };
  while (!stream_done_ && carried_ < HeadBytesOf(carry()) && !knows_enough()) {
    if (!ReadSome(block)) return false;
  }
  const bool nothing_came = stream_done_ && carried_ == 0;
  if (nothing_came && ends_.may_be_empty) return true;  // a stream of no format
  if (nothing_came && asked.empty()) {
    block->status = Status(StatusCode::kInvalidArgument,
                           "the stream ended without a byte, so nothing tells its format: name one",
                           {stream_.name(), -1, -1});
    return false;
  }
  FormatResult found = ChooseFormat(asked, stream_.name(), carry());
  if (!found.status.ok()) {
    block->status = found.status.WithPlace({stream_.name(), -1, -1});
    if (ends_.outlived && stream_done_) {
      block->status = Status(StatusCode::kTruncated, "the stream ended before its format was told",
                             block->status.place());
    }
    return false;
  }
  format_ = std::move(found.format);
  framer_ = format_->NewFramer(Framing());
  if (found.compression != Compression::kNone) {
    head_.assign(carry().begin(), carry().end());
    carried_ = 0;
    stream_done_ = false;
    feed_ = NewFeed(found.compression);
  }
  return true;
}

void StreamLane::FrameSome(Block* block) {
  FrameInput input;
  input.bytes = carry();
  input.offset = position_;
  input.limit = kUnknownSize;
  input.at_end = end_framed_ = stream_done_;
  BlockMemory memory(context_->arena);
  input.memory = &memory;
  const StageTimer timer(*context_->frame_clock);
  const FrameResult result = framer_->Frame(input, &block->frame);
  memory.GiveTo(block);
  block->NoteFramed(input.bytes.first(result.consumed), position_);
  block->file_name = stream_.name();
  block->file_index = number_;
  block->first_record = records_;
  records_ += block->rows();
  position_ += result.consumed;
  need_ = std::max<std::size_t>(result.need_bytes, 1);
  block->status = result.status;
  block->denied = memory.exhausted();
  feed_.NoteFramed(*block);
  TakeFramed(result.consumed, block);
}

// Records stay in the run that they were read to; what no record has taken goes to the start of the
// next run.
void StreamLane::TakeFramed(std::size_t bytes, Block* block) {
  const std::span<const std::byte> rest = carry().subspan(bytes);
  carried_ = rest.size();
  if (block->rows() == 0) {  // no record has the consumed bytes
    std::copy(rest.begin(), rest.end(), run_.data);
    return;
  }
  const SlabRun framed = std::exchange(run_, SlabRun());
  if (!rest.empty() && block->status.ok()) {
    // Room for what comes next too, so that it is not moved again.
    const std::size_t carried = std::exchange(carried_, 0);
    if (MakeRoom(carried + ReadBytesOf(*context_->options), block)) {
      std::copy(rest.begin(), rest.end(), run_.data);
      carried_ = carried;
    }
  }
  // Records that overlap reach past what was consumed. Lost ones have no bytes.
  const std::vector<RecordSpan>& records = block->frame.records;
  const bool all_lost = std::all_of(records.begin(), records.end(),
                                    [](const RecordSpan& record) { return record.damaged(); });
  std::size_t used = std::max<std::size_t>(all_lost ? 0 : bytes, 1);
  const RecordSpan& last = records.back();
  const std::span<const std::byte> in_run(framed.data, bytes + rest.size());
  const bool in_it = !std::less<>()(last.data, in_run.data()) &&
                     std::less<>()(last.data, in_run.data() + in_run.size());
  if (in_it) used = std::max(used, static_cast<std::size_t>(last.data - framed.data) + last.size);
  block->runs.push_back(context_->arena->Trim(framed, used));
}

bool StreamLane::Reopen(Block* block) {
  Status status;
  if (!stream_.Reopen(&status)) {
    if (!status.ok()) block->status = status.WithPlace({stream_.name(), -1, -1});
    return false;
  }
  ++block->reopened;
  format_ = nullptr;
  framer_ = nullptr;
  feed_ = NewFeed(Compression::kNone);
  position_ = 0;
  need_ = 1;
  stream_done_ = false;
  end_framed_ = false;
  return true;
}

void StreamLane::Outlive(Block* block) {
  const StatusCode code = block->status.code();
  if (!ends_.outlived || (code != StatusCode::kTruncated && code != StatusCode::kIoError)) return;
  block->frame.damage.push_back(
      {stream_.name(), position_, position_ + carried_, block->status.message()});
  block->status = Status();
  stream_done_ = true;
  end_framed_ = true;
  carried_ = 0;
}

bool StreamLane::Fill(Block* block) {
  if (pass_ended_) {
    block->stream_ends = true;
    return true;
  }
  FillSome(block);
  if (!block->status.ok()) Outlive(block);
  return true;
}

// A framer that took every byte may still wait for what a record promises. It is asked about no
// bytes at all if an empty file would be asked about, too.
bool StreamLane::has_ended() const {
  if (!stream_done_ || carried_ != 0) return false;
  if (framer_ == nullptr || end_framed_) return true;
  return position_ == 0 && !feed_.decompresses() && format_->Stripes(0, 1) == 0;
}

void StreamLane::FillSome(Block* block) {
  while (has_ended()) {
    if (Reopen(block) && (Detect(block) || !block->status.ok())) continue;
    block->pass_ends = pass_ended_ = block->status.ok();
    return;
  }
  if (format_ == nullptr && !Detect(block)) return;
  while (block->status.ok() && block->rows() == 0 && block->frame.damage.empty()) {
    if (stop_.stop_requested()) {  // a record of any length may be half read
      block->status = Status(StatusCode::kCancelled, "stopped", {stream_.name(), -1, -1});
      return;
    }
    if (carried_ < need_ && !stream_done_) {
      if (!ReadSome(block)) return;
      if (carried_ < need_ && !stream_done_) continue;
    }
    if (has_ended()) break;
    FrameSome(block);
    if (stream_done_) {
      if (block->status.ok()) carried_ = 0;
      break;
    }
  }
}

}  // namespace ringfeed
