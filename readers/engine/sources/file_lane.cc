#include <exception>
#include <string>
#include <utility>

#include "base/refusal.h"
#include "readers/engine/sources/lane.h"

namespace ringfeed {

namespace {

constexpr const char* kWhyInOrder = "compressed: read inline from start to end";

}  // namespace

FileLane::FileLane(std::size_t index, FileSchedule* schedule, const SourceNode& source,
                   LaneContext* context, std::stop_token stop, FileNews news)
    : index_(index),
      schedule_(schedule),
      source_(source),
      context_(context),
      stop_(std::move(stop)),
      news_(std::move(news)) {}

bool FileLane::Fill(Block* block) {
  if (reader_ == nullptr && user_lane_ == nullptr) {
    if (turns_left_ > 0) {  // of a file that had less to give than was scheduled
      --turns_left_;
      return true;
    }
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
    file_index_ = static_cast<std::uint32_t>(assignment.file);
    tells_turns_ = assignment.stripes == kUnknownSize;
    turns_left_ = tells_turns_ ? 0 : assignment.stripes;
    if (source_.file_readers ? !OpenByUser(assignment, block) : !Open(assignment, block)) {
      EndTurn(true, block);
      return true;
    }
  }
  block->file_index = file_index_;
  if (user_lane_ != nullptr) return FillByUser(block);
  if (!reader_->ReadPart(block)) return false;
  const bool ends = reader_->stripes_left() == 0 || !block->status.ok();
  if (block->turn_ends) EndTurn(ends, block);
  if (ends) reader_.reset();
  return true;
}

// A file whose turns are known takes as many, also where it has become another one since they were
// counted: what other lanes read, and what they wait for, was decided by them.
void FileLane::EndTurn(bool file_ends, Block* block) {
  if (tells_turns_) {
    schedule_->EndTurn(index_, file_ends);
  } else if (turns_left_ == 1 && !file_ends) {
    block->turn_ends = false;
  } else {
    --turns_left_;
  }
}

bool FileLane::Open(const Assignment& assignment, Block* block) {
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
    block->Deny(status);  // no engine reads it
    return false;
  }
  if (news_.opened) news_.opened(*file);
  from_memory_ = reader_->from_memory();
  return true;
}

bool FileLane::OpenByUser(const Assignment& assignment, Block* block) {
  Status status = assignment.status;
  try {
    if (status.ok()) user_reader_ = (*source_.file_readers)(assignment.name, source_.slots);
    if (status.ok() && user_reader_ == nullptr) {
      status = Status(StatusCode::kUserError, "the format's constructor made no reader");
    }
  } catch (const std::exception& error) {
    status = Status(StatusCode::kUserError, std::string("cannot be opened: ") + error.what());
  }
  if (!status.ok()) {
    Fail(assignment, status.WithPlace({assignment.name, -1, -1}), block);
    return false;
  }
  assignment_ = assignment;
  if (news_.read) news_.read(assignment.name);
  user_lane_ = std::make_unique<InstanceLane>(user_reader_.get(), source_.slots, 1,
                                              std::function<bool()>(), stop_);
  return true;
}

bool FileLane::FillByUser(Block* block) {
  (void)user_lane_->Fill(block);
  block->turn_ends = std::exchange(block->pass_ends, false);
  if (block->status.ok() && !block->turn_ends) return true;
  user_lane_.reset();
  user_reader_.reset();
  EndTurn(true, block);
  if (block->status.ok()) return true;
  const Status status = std::exchange(block->status, Status());
  block->turn_ends = true;
  Fail(assignment_, status.WithPlace({assignment_.name, -1, -1}), block);
  return true;
}

void FileLane::Fail(const Assignment& assignment, const Status& status, Block* block) {
  if (news_.failed) news_.failed(assignment.name, status);
  if (IsRefusal(status)) {
    block->Deny(status);
    return;
  }
  if (context_->options->on_damage == OnDamage::kFail) {
    block->status = status;
    return;
  }
  // Skipped: its first turn reports it, the others are empty.
  block->frame.damage.push_back({assignment.name, 0, assignment.bytes, status.ToString()});
}

}  // namespace ringfeed
