#include "readers/engine/sources/reopened_stream.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "ringfeed/open_options.h"

namespace ringfeed {

namespace {

// Waits before the next try: the peer may take connections and close them.
void Pause(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kBetweenTries{20};
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  (void)stopped.wait_for(lock, stop, kBetweenTries, [] { return false; });
}

}  // namespace

ReopenedStream::ReopenedStream(const StreamInput& input, std::stop_token stop)
    : stream_(input.stream.get()),
      name_(input.stream->name()),
      reopens_(input.reopens()),
      limit_(input.reopen_limit),
      until_(input.reopen_until),
      stop_(std::move(stop)) {}

Status ReopenedStream::Read(std::span<std::byte> buffer, std::size_t* got) {
  const Status status = stream_->Read(buffer, got, silence_ != nullptr ? silence_->token() : stop_);
  if (*got > 0) {
    silence_.reset();
    is_silent_ = false;
  }
  return !status.ok() && silence_ != nullptr && silence_->expired() ? Status() : status;
}

bool ReopenedStream::Reopen(Status* status) {
  const bool timed = until_ > 0 && until_ < OpenOptions::kUntilClose;
  if (until_ == 0 && reopened_ == limit_) return false;
  const bool again = std::exchange(is_silent_, true);  // the last one sent nothing
  if (timed && silence_ == nullptr) {
    silence_ = std::make_unique<TimedStop>(stop_, std::chrono::duration<double>(until_));
  }
  const std::stop_token stop = timed ? silence_->token() : stop_;
  if (again) Pause(stop);
  *status = again && stop.stop_requested()
                ? Status(StatusCode::kCancelled, "stopped while nobody sent")
                : stream_->Reopen(stop);
  if (status->ok()) {
    ++reopened_;
    return true;
  }
  if (timed && silence_->expired()) *status = Status();
  return false;
}

}  // namespace ringfeed
