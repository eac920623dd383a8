#include "metrics/own_descriptor.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

namespace ringfeed {
namespace {

std::mutex fork_mutex;            // held during a fork; guards what follows
std::array<int, 64> noted = [] {  // free places have -1
  std::array<int, 64> none{};
  none.fill(-1);
  return none;
}();
bool watches_forks = false;

void CloseInChild() {
  for (int& descriptor : noted) {
    if (descriptor >= 0) (void)close(std::exchange(descriptor, -1));
  }
  fork_mutex.unlock();
}

// Call with the mutex held.
void WatchForks() {
  if (watches_forks) return;
  watches_forks =
      pthread_atfork([] { fork_mutex.lock(); }, [] { fork_mutex.unlock(); }, CloseInChild) == 0;
}

}  // namespace

OwnDescriptor OwnDescriptor::Open(const std::function<int()>& make) {
  const std::lock_guard lock(fork_mutex);
  WatchForks();
  const auto free = std::ranges::find(noted, -1);
  if (free == noted.end()) {
    errno = EMFILE;
    return {};
  }
  *free = make();
  return OwnDescriptor(*free);
}

OwnDescriptor OwnDescriptor::Keep(int number) {
  if (number < 0) return {};
  OwnDescriptor kept = Open([number] { return number; });
  if (!kept) (void)close(number);
  return kept;
}

void OwnDescriptor::Close() noexcept {
  if (number_ < 0) return;
  const std::lock_guard lock(fork_mutex);
  // In a child of fork it is closed, and its number may belong to another file.
  const auto found = std::ranges::find(noted, number_);
  if (found != noted.end()) (void)close(std::exchange(*found, -1));
  number_ = -1;
}

}  // namespace ringfeed
