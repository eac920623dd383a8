#include <exception>
#include <string>
#include <utility>

#include "readers/lane.h"

namespace ringfeed {

namespace {

Status StatusOfException(const char* what) {
  return Status(StatusCode::kUserError, std::string("the reader threw: ") + what);
}

}  // namespace

InstanceLane::InstanceLane(InstanceSource* source, std::uint64_t passes, std::stop_token stop)
    : source_(source), passes_(passes), stop_(std::move(stop)) {}

bool InstanceLane::Fill(Block* block) {
  if (pass_ended_) {
    pass_ended_ = false;
    ++pass_;
    if (passes_ != 0 && pass_ == passes_) {
      block->stream_ends = true;
      return true;
    }
    if (!source_->ReInit()) {
      block->status = Status(StatusCode::kUnsupported,
                             "the reader cannot start again for another pass: ReInit said no");
      return true;
    }
  }
  // One at a time: the next call may wait for what the consumer does with this one.
  Instance instance;
  Status status;
  ReadResult result = ReadResult::kFailed;
  try {
    result = source_->ReadNext(&instance, stop_, &status);
  } catch (const std::exception& error) {
    status = StatusOfException(error.what());
  } catch (...) {
    status = StatusOfException("something that is not a std::exception");
  }
  if (result == ReadResult::kFailed) {
    block->status = status.ok() ? StatusOfException("kFailed without a status") : status;
  } else if (result == ReadResult::kEnd) {
    block->pass_ends = true;
    pass_ended_ = true;
  } else {
    block->instances.push_back(std::move(instance));
    const Instance& held = block->instances.back();
    block->frame.records.push_back({reinterpret_cast<const std::byte*>(&held), sizeof(Instance)});
  }
  return true;
}

}  // namespace ringfeed
