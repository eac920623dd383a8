#include "io/read_progress.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

namespace ringfeed {

namespace {

constexpr std::chrono::microseconds kFirstBackOff{50};
constexpr std::chrono::microseconds kLongestBackOff{10000};
/// For EAGAIN and its kin: some seconds, at the longest back-off.
constexpr int kTransientTries = 500;

constinit std::atomic<ReadFaultHook*> fault_hook{nullptr};

}  // namespace

void SetReadFaultHook(ReadFaultHook* hook) {
  // Release: pairs with the acquire in GetReadFaultHook, for the hook's own members.
  fault_hook.store(hook, std::memory_order_release);
}

ReadFaultHook* GetReadFaultHook() {
  // Acquire: pairs with the release in SetReadFaultHook.
  return fault_hook.load(std::memory_order_acquire);
}

ReadProgress::ReadProgress(ReadRequest* request, int retries)
    : request_(request), retry_limit_(retries) {
  request->got = 0;
  request->status = Status();
  const std::uint64_t size = request->file->size();
  const std::uint64_t left = size - std::min(size, request->offset);
  expected_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(request->bytes, left));
}

ReadProgress::Next ReadProgress::OnResult(std::int64_t result) {
  if (ReadFaultHook* const hook = GetReadFaultHook(); hook != nullptr) {
    result = hook->OnResult(*request_->file, offset(), bytes(), result);
  }
  if (result < 0) return OnError(static_cast<int>(-result));
  if (result == 0) return Truncated();
  return OnBytes(static_cast<std::uint32_t>(result));
}

ReadProgress::Next ReadProgress::OnBytes(std::uint32_t bytes) {
  request_->got += bytes;
  if (request_->got >= expected_) {
    request_->got = expected_;  // even if the file has grown since
    return Next::kDone;
  }
  ++short_reads_;
  const std::uint32_t beyond = request_->got % request_->file->alignment();
  if (beyond == 0) {
    medium_tries_ = transient_tries_ = 0;
    return Next::kReadOn;
  }
  // A direct read ends off the grid only at the file's end, unless something cut it short: then the
  // read goes on from the last aligned place.
  struct stat stat {};
  if (fstat(request_->file->descriptor(), &stat) == 0 &&
      static_cast<std::uint64_t>(stat.st_size) <= offset()) {
    return Truncated();
  }
  const bool moved = bytes > beyond;
  request_->got -= beyond;
  if (!moved) return TryAgain(EIO, retry_limit_, &medium_tries_);
  medium_tries_ = transient_tries_ = 0;
  return Next::kReadOn;
}

ReadProgress::Next ReadProgress::OnError(int error_number) {
  switch (error_number) {
    case EINTR:
      ++retried_;
      return Next::kReadOn;
    case EAGAIN:
    case EBUSY:
    case ENOMEM:
    case ENOBUFS:
      return TryAgain(error_number, kTransientTries, &transient_tries_);
    case EIO:
    case ENODATA:
    case EREMOTEIO:
    case ETIMEDOUT:
      return TryAgain(error_number, retry_limit_, &medium_tries_);
    case EINVAL:
      // The file system refuses this direct read; another read of the file may have met the refusal
      // first.
      if (!request_->file->choice().direct || tried_buffered_) return Failed(error_number);
      request_->file->LeaveDirect();
      tried_buffered_ = true;
      ++retried_;
      return Next::kReadOn;
    default:
      return Failed(error_number);
  }
}

void ReadProgress::Refuse(int error_number) {
  request_->status = Status(StatusCode::kResourceExhausted,
                            "the kernel takes no more reads: " +
                                StatusFromErrno(error_number, "io_uring_enter").message(),
                            {request_->file->name(), static_cast<std::int64_t>(offset()), -1});
}

ReadProgress::Next ReadProgress::TryAgain(int error_number, int limit, int* tries) {
  if (*tries >= limit) return Failed(error_number);
  ++*tries;
  ++retried_;
  return Next::kBackOff;
}

ReadProgress::Next ReadProgress::Truncated() {
  request_->status = Status(StatusCode::kTruncated,
                            "the file had " + std::to_string(request_->file->size()) +
                                " bytes when it was opened and has ended here since",
                            {request_->file->name(), static_cast<std::int64_t>(offset()), -1});
  return Next::kDone;
}

ReadProgress::Next ReadProgress::Failed(int error_number) {
  request_->status =
      StatusFromErrno(error_number, "reading " + std::to_string(bytes()) + " bytes")
          .WithPlace({request_->file->name(), static_cast<std::int64_t>(offset()), -1});
  return Next::kDone;
}

std::chrono::microseconds BackOff(int tries) {
  const int doublings = std::clamp(tries - 1, 0, 16);
  return std::min(kFirstBackOff * (1 << doublings), kLongestBackOff);
}

void ReadBlocking(ReadProgress* progress) {
  ReadProgress::Next next = progress->Begin();
  while (next != ReadProgress::Next::kDone) {
    if (next == ReadProgress::Next::kBackOff) std::this_thread::sleep_for(progress->back_off());
    const ssize_t result = pread(progress->request()->file->descriptor(), progress->buffer(),
                                 progress->bytes(), static_cast<off_t>(progress->offset()));
    next = progress->OnResult(result < 0 ? -errno : result);
  }
}

void ReadProgress::AddTo(ReadEngineStats* stats) const {
  ++stats->reads;
  stats->bytes += request_->got;
  stats->short_reads += short_reads_;
  stats->retries += retried_;
  if (!request_->status.ok()) ++stats->failures;
}

void ReadRequestBlocking(ReadRequest* request, int retries, ReadEngineStats* stats) {
  ReadProgress progress(request, retries);
  if (request->file->descriptor() >= 0) {
    ReadBlocking(&progress);
    stats->enters += progress.calls();
  } else {
    std::size_t bytes = 0;
    request->status =
        request->file->ReadAt(request->offset, {request->buffer, request->bytes}, &bytes);
    request->got = static_cast<std::uint32_t>(bytes);
  }
  progress.AddTo(stats);
}

}  // namespace ringfeed
