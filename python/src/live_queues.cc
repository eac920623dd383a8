#include "live_queues.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "fork_guard.h"
#include "weak_list.h"

namespace ringfeed::python {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongest{1000};
constexpr milliseconds kStep{1};

// Waiting calls of this process: a forked child has none of its parent's.
std::atomic<int>& Calls() {
  static constinit OneInProcess<std::atomic<int>> calls;
  return calls.Get();
}

WeakList<LoDTensorBlockingQueueHolder>& TheLive() {
  static constinit OneInProcess<WeakList<LoDTensorBlockingQueueHolder>> live;
  return live.Get();
}

}  // namespace

void NoteQueue(const std::shared_ptr<LoDTensorBlockingQueueHolder>& queue) {
  TheLive().Note(queue);
}

void CloseQueues() {
  // Kill, not Close: a reader must not take this for the end of the data.
  const Status ends(StatusCode::kCancelled, "the program ends");
  TheLive().TakeEach([&](LoDTensorBlockingQueueHolder& queue) { queue.GetQueue()->Kill(ends); });
}

void AwaitQueueCalls() {
  const auto limit = steady_clock::now() + kLongest;
  // Order: acquire pairs with the release in ~QueueCall.
  while (Calls().load(std::memory_order_acquire) > 0 && steady_clock::now() < limit) {
    std::this_thread::sleep_for(kStep);
  }
}

QueueCall::QueueCall() : calls_(&Calls()) { calls_->fetch_add(1, std::memory_order_relaxed); }
// Order: release pairs with the acquire in AwaitQueueCalls: a thread that left no longer uses
// Python's objects.
QueueCall::~QueueCall() { calls_->fetch_sub(1, std::memory_order_release); }

}  // namespace ringfeed::python
