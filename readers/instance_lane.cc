#include <exception>
#include <string>
#include <utility>

#include "readers/lane.h"

namespace ringfeed {

namespace {

/// Instances that cross to the planner together, at most.
constexpr std::size_t kInstancesPerBlock = 64;

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
  // Spans point at the instances, so these must not move: room for all of them first.
  block->instances.reserve(kInstancesPerBlock);
  while (block->instances.size() < kInstancesPerBlock && !stop_.stop_requested()) {
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
      return true;
    }
    if (result == ReadResult::kEnd) {
      block->pass_ends = true;
      pass_ended_ = true;
      return true;
    }
    block->instances.push_back(std::move(instance));
    const Instance& held = block->instances.back();
    block->frame.records.push_back({reinterpret_cast<const std::byte*>(&held), sizeof(Instance)});
  }
  return true;
}

}  // namespace ringfeed
