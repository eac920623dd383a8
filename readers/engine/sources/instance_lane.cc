#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "readers/engine/sources/lane.h"

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

// What is handed on together, where nothing is waited for in between.
constexpr std::size_t kMostInstances = 64;
constexpr std::chrono::milliseconds kLongest{1};

Status StatusOfException(const char* what) {
  return Status(StatusCode::kUserError, std::string("the reader threw: ") + what);
}

}  // namespace

InstanceLane::InstanceLane(InstanceSource* source, std::span<const SlotSpec> slots,
                           std::uint64_t passes, std::function<bool()> rewind, std::stop_token stop)
    : source_(source),
      slots_(slots),
      passes_(passes),
      rewind_(std::move(rewind)),
      stop_(std::move(stop)) {}

bool InstanceLane::StartPass(Block* block) {
  pass_ended_ = false;
  ++pass_;
  if (passes_ != 0 && pass_ == passes_) {
    block->stream_ends = true;
    return false;
  }
  if (rewind_()) return true;
  block->status = Status(StatusCode::kUnsupported,
                         "the reader cannot start again for another pass: ReInit said no");
  return false;
}

ReadResult InstanceLane::Next(Instance* instance, Status* status) {
  ReadResult result = ReadResult::kFailed;
  try {
    result = source_->ReadNext(instance, stop_, status);
  } catch (const std::exception& error) {
    *status = StatusOfException(error.what());
  } catch (...) {
    *status = StatusOfException("something that is not a std::exception");
  }
  if (result == ReadResult::kTimeout) {
    *status = Status(StatusCode::kUserError, "the reader returned kTimeout: it has no deadline");
    result = ReadResult::kFailed;
  }
  if (result == ReadResult::kFailed && status->ok()) {
    *status = StatusOfException("kFailed without a status");
  }
  if (result == ReadResult::kRecord && !slots_.empty()) {
    *status = CheckInstance(slots_, *instance);
    if (!status->ok()) result = ReadResult::kFailed;
  }
  return result;
}

bool InstanceLane::Fill(Block* block) {
  if (pass_ended_ && !StartPass(block)) return true;
  // They stand still: records point at them.
  block->instances.reserve(kMostInstances);
  const Clock::time_point started = Clock::now();
  do {
    Instance instance;
    Status status;
    const ReadResult result = Next(&instance, &status);
    if (result == ReadResult::kFailed) {
      block->status = status;
    } else if (result == ReadResult::kEnd) {
      block->pass_ends = pass_ended_ = true;
    } else {
      block->instances.push_back(std::move(instance));
      const Instance& held = block->instances.back();
      block->frame.records.push_back({reinterpret_cast<const std::byte*>(&held), sizeof(Instance)});
    }
  } while (block->status.ok() && !block->pass_ends && !stop_.stop_requested() &&
           block->instances.size() < kMostInstances && source_->Ready() &&
           Clock::now() - started < kLongest);
  return true;
}

}  // namespace ringfeed
