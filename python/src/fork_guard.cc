#include "fork_guard.h"

#include <pthread.h>

#include <atomic>
#include <stdexcept>

namespace ringfeed::python {
namespace {

std::atomic<int> fork_count{0};  // written by a child's only thread

}  // namespace

void WatchForks() {
  pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
}

int ForkCount() noexcept { return fork_count.load(std::memory_order_relaxed); }

void CheckNotForked(int count) {
  if (count == ForkCount()) return;
  throw std::runtime_error(
      "this process was forked, and ringfeed's threads are its parent's: open files again here, or "
      "start processes by the method \"spawn\"");
}

}  // namespace ringfeed::python
