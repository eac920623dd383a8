#include "live_queues.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "weak_list.h"

namespace ringfeed::python {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongest{1000};
constexpr milliseconds kStep{1};

std::atomic<int> calls{0};

WeakList<LoDTensorBlockingQueueHolder>& TheLive() {
  static auto* live = new WeakList<LoDTensorBlockingQueueHolder>;  // outlasts whatever ends at exit
  return *live;
}

}  // namespace

void NoteQueue(const std::shared_ptr<LoDTensorBlockingQueueHolder>& queue) {
  TheLive().Note(queue);
}

void CloseQueues() {
  // Not Close: who reads must not take this for the end of the data.
  const Status ends(StatusCode::kCancelled, "the program ends");
  TheLive().TakeEach([&](LoDTensorBlockingQueueHolder& queue) { queue.GetQueue()->Kill(ends); });
}

void AwaitQueueCalls() {
  const auto limit = steady_clock::now() + kLongest;
  // Order: acquire pairs with the release in ~QueueCall.
  while (calls.load(std::memory_order_acquire) > 0 && steady_clock::now() < limit) {
    std::this_thread::sleep_for(kStep);
  }
}

QueueCall::QueueCall() noexcept { calls.fetch_add(1, std::memory_order_relaxed); }
// Order: release pairs with the acquire in AwaitQueueCalls: who left is done with Python's objects.
QueueCall::~QueueCall() { calls.fetch_sub(1, std::memory_order_release); }

}  // namespace ringfeed::python
