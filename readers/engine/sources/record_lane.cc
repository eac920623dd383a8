#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "readers/engine/sources/lane.h"

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

// What is handed on together, where nothing is waited for in between.
constexpr std::size_t kMostRecords = 4096;
constexpr std::size_t kMostBytes = 256 * 1024;
constexpr std::chrono::milliseconds kLongest{1};
// The clock is looked at so often.
constexpr std::size_t kRecordsPerLook = 16;

Status StatusOfException(const std::string& name, const char* what) {
  return Status(StatusCode::kUserError, name + " threw: " + what);
}

}  // namespace

RecordLane::RecordLane(RecordProvider* provider, std::uint64_t passes, LaneContext* context,
                       std::stop_token stop)
    : provider_(provider), passes_(passes), context_(context), stop_(std::move(stop)) {}

ReadResult RecordLane::Next(std::span<const std::byte>* record, Status* status) {
  ReadResult result = ReadResult::kFailed;
  try {
    result = provider_->Next(record, stop_, status);
  } catch (const Error& error) {
    *status = error.status();
  } catch (const std::exception& error) {
    *status = StatusOfException(provider_->name(), error.what());
  } catch (...) {
    *status = StatusOfException(provider_->name(), "something that is not a std::exception");
  }
  if (result == ReadResult::kFailed && status->ok()) {
    *status = Status(StatusCode::kCancelled, provider_->name() + " was stopped");
  }
  if (result == ReadResult::kRecord && record->size() > context_->options->max_record_bytes) {
    *status = Status(StatusCode::kResourceExhausted,
                     "a record of " + std::to_string(record->size()) +
                         " bytes is longer than max_record_bytes (" +
                         std::to_string(context_->options->max_record_bytes) + ")");
    result = ReadResult::kFailed;
  }
  return result;
}

bool RecordLane::Append(std::span<const std::byte> record, BlockMemory* memory, Block* block) {
  // An empty record has a place too.
  std::byte* const to = memory->Allocate(std::max<std::size_t>(1, record.size()));
  if (to == nullptr) {
    block->Deny(Status(StatusCode::kResourceExhausted,
                       "no memory for a record of " + std::to_string(record.size()) +
                           " bytes; raise the arena (RINGFEED_ARENA_BYTES)"));
    return false;
  }
  std::copy(record.begin(), record.end(), to);
  block->frame.records.push_back({to, record.size()});
  return true;
}

bool RecordLane::StartPass(Block* block) {
  pass_ended_ = false;
  ++pass_;
  if (passes_ != 0 && pass_ == passes_) {
    block->stream_ends = true;
    return false;
  }
  records_ = 0;
  if (provider_->ReInit()) return true;
  block->status = Status(StatusCode::kUnsupported, provider_->name() +
                                                       " cannot start again for another pass: "
                                                       "ReInit said no");
  return false;
}

bool RecordLane::Fill(Block* block) {
  if (pass_ended_ && !StartPass(block)) return true;
  const Clock::time_point started = Clock::now();
  BlockMemory memory(context_->arena);
  std::vector<RecordSpan>& records = block->frame.records;
  std::size_t bytes = 0;
  block->file_name = provider_->name();
  block->first_record = records_;
  do {
    if (records.size() % kRecordsPerLook == 1 && Clock::now() - started > kLongest) break;
    std::span<const std::byte> record;
    Status status;
    const ReadResult result = Next(&record, &status);
    if (result == ReadResult::kEnd) {
      block->pass_ends = pass_ended_ = true;
    } else if (result == ReadResult::kFailed) {
      const std::uint64_t number = records_ + records.size();
      // One that names a file counts from its start, not from the data set's.
      block->status =
          status.place().file.empty()
              ? status.WithPlace({block->file_name, -1, static_cast<std::int64_t>(number)})
              : status;
    } else if (Append(record, &memory, block)) {
      bytes += record.size();
    }
  } while (!block->pass_ends && block->status.ok() && records.size() < kMostRecords &&
           bytes < kMostBytes && provider_->Ready() && !stop_.stop_requested());
  records_ += records.size();
  memory.GiveTo(block);
  return true;
}

}  // namespace ringfeed
