#include <utility>

#include "readers/lane.h"

namespace ringfeed {

namespace {

constexpr const char* kWhyInOrder = "compressed: read inline from start to end";

}  // namespace

FileLane::FileLane(std::size_t index, FileSchedule* schedule, LaneContext* context,
                   std::function<void(const IoChoice&)> opened)
    : index_(index), schedule_(schedule), context_(context), opened_(std::move(opened)) {}

bool FileLane::Fill(Block* block) {
  if (reader_ == nullptr) {
    const Assignment assignment = schedule_->Next(index_);
    waiting_ = assignment.kind == Assignment::Kind::kWait;
    waits_since_ = assignment.version;
    if (waiting_) return false;
    if (assignment.kind == Assignment::Kind::kPassEnd) {
      block->pass_ends = true;
      return true;
    }
    if (assignment.kind == Assignment::Kind::kEnd) {
      block->stream_ends = true;
      return true;
    }
    if (!Open(assignment, block)) return true;
  }
  if (!reader_->ReadPart(block)) return false;
  const bool ends = reader_->stripes_left() == 0 || !block->status.ok();
  if (tells_turns_ && block->turn_ends) schedule_->EndTurn(index_, ends);
  if (ends) reader_.reset();
  return true;
}

bool FileLane::Open(const Assignment& assignment, Block* block) {
  tells_turns_ = assignment.stripes == kUnknownSize;
  if (!assignment.status.ok()) {
    Fail(assignment, assignment.status, block);
    return false;
  }
  const std::shared_ptr<Source> source = schedule_->source(assignment.file);
  // The first pass may be the only one; from the second on a resident file is worth mapping.
  const bool may_map = assignment.pass > 0;
  const std::string& name = assignment.name;
  const IoOptions& io = context_->options->io;
  const bool compressed = assignment.compression != Compression::kNone;
  OpenInputResult opened = source       ? OpenInput(source)
                           : compressed ? OpenSequentialInput(name, io, kWhyInOrder)
                                        : OpenInput(name, io, may_map);
  if (!opened.status.ok()) {
    Fail(assignment, opened.status.WithPlace({name, -1, -1}), block);
    return false;
  }
  const std::shared_ptr<InputFile> file = std::move(opened.file);
  Status status;
  reader_ = MakeStripeReader(
      context_,
      {file, assignment.format, assignment.compression, assignment.bytes, assignment.stripes},
      &status);
  if (reader_ == nullptr) {
    block->status = status;
    return false;
  }
  opened_(file->choice());
  from_memory_ = reader_->from_memory();
  return true;
}

void FileLane::Fail(const Assignment& assignment, const Status& status, Block* block) {
  if (context_->options->on_damage == OnDamage::kFail) {
    block->status = status;
    return;
  }
  if (tells_turns_) schedule_->EndTurn(index_, true);
  // Skipped: its first turn reports it, the rest of its turns are not taken. Every rank and run
  // sees the same as long as the file stays as it is.
  block->frame.damage.push_back({assignment.name, 0, assignment.bytes, status.ToString()});
}

}  // namespace ringfeed
