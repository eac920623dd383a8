#include "io/descriptor_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace ringfeed {

namespace {

void Signal(int descriptor) {
  const std::uint64_t one = 1;
  while (write(descriptor, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

// A pipe takes 64 KiB at a time: writer and reader wake each other for each. Where it is none, or
// may not grow, nothing happens.
void WidenPipe(int descriptor) {
  constexpr int kPipeBytes = 1 << 20;
  (void)fcntl(descriptor, F_SETPIPE_SZ, kPipeBytes);
}

}  // namespace

DescriptorStream::DescriptorStream(int descriptor, std::string name, bool owns,
                                   OpenAgain open_again)
    : descriptor_(descriptor),
      name_(std::move(name)),
      owns_(owns),
      open_again_(std::move(open_again)) {
  WidenPipe(descriptor_);
}

DescriptorStream::~DescriptorStream() { Close(); }

void DescriptorStream::Close() {
  if (stop_descriptor_ >= 0) close(std::exchange(stop_descriptor_, -1));
  if (owns_ && descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

Status DescriptorStream::Read(std::span<std::byte> buffer, std::size_t* bytes_read,
                              std::stop_token stop) {
  *bytes_read = 0;
  if (buffer.empty()) {
    return Status(StatusCode::kInvalidArgument, "reading a stream into an empty buffer",
                  {name_, -1, -1});
  }
  while (true) {
    // Always a poll first: a FIFO that has had no writer yet reads as ended, but polls as not
    // ready.
    const Status status = WaitForBytes(stop);
    if (!status.ok()) return status.WithPlace({name_, -1, -1});
    const ssize_t result = read(descriptor_, buffer.data(), buffer.size());
    if (result >= 0) {
      *bytes_read = static_cast<std::size_t>(result);
      return {};
    }
    if (errno != EINTR && errno != EAGAIN) {
      return StatusFromErrno(errno, "read").WithPlace({name_, -1, -1});
    }
  }
}

Status StreamSource::Reopen(std::stop_token /*stop*/) {
  return Status(StatusCode::kUnsupported, "this stream cannot be opened again: it comes just once");
}

Status DescriptorStream::Reopen(std::stop_token stop) {
  if (!open_again_) return StreamSource::Reopen(std::move(stop));
  constexpr std::chrono::milliseconds kBetweenTries{20};
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  int descriptor = open_again_();
  while (descriptor < 0) {
    stopped.wait_for(lock, stop, kBetweenTries, [] { return false; });
    if (stop.stop_requested()) return Status(StatusCode::kCancelled, "stopped");
    descriptor = open_again_();
  }
  // Only now: what a writer sends meanwhile has a reader all the time.
  if (owns_) close(descriptor_);
  descriptor_ = descriptor;
  WidenPipe(descriptor_);
  return {};
}

Status DescriptorStream::WaitForBytes(const std::stop_token& stop) {
  std::array<pollfd, 2> waits{{{descriptor_, POLLIN, 0}, {-1, POLLIN, 0}}};
  if (stop.stop_possible()) {
    if (stop_descriptor_ < 0) stop_descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_descriptor_ < 0) return StatusFromErrno(errno, "eventfd");
    waits[1].fd = stop_descriptor_;
  }
  const std::stop_callback on_stop(stop, [this] {
    if (stop_descriptor_ >= 0) Signal(stop_descriptor_);
  });
  while (true) {
    // Before each poll: what is drained below may have been this stop's signal as well.
    if (stop.stop_requested()) return Status(StatusCode::kCancelled, "stopped");
    const int ready = poll(waits.data(), waits.size(), -1);
    if (ready < 0 && errno != EINTR) return StatusFromErrno(errno, "poll");
    if (ready > 0 && waits[0].revents != 0) return {};
    if (ready <= 0 || waits[1].revents == 0) continue;
    // Left from the token of a call before this one, unless it is this one's.
    std::uint64_t stops = 0;
    if (read(stop_descriptor_, &stops, sizeof(stops)) < 0 && errno != EAGAIN && errno != EINTR) {
      return StatusFromErrno(errno, "eventfd");
    }
  }
}

}  // namespace ringfeed
