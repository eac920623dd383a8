// The queues between threads: a channel, the rings under it, a condition without a mutex.
//
// Prints:
//   channel: 1 2 3, then closed
//   of 2 places 2 are taken, then full, 1 comes out
//   killed: cancelled: nobody trains any more
//   nothing within a millisecond: timeout
//   several at once: 2 pushed, full after that
//   by number: a b c
//   woken
#include <atomic>
#include <iostream>
#include <string>
#include <thread>

#include "ringfeed/queue/channel.h"
#include "ringfeed/queue/event_count.h"
#include "ringfeed/queue/mpmc_ring.h"
#include "ringfeed/queue/sequenced_ring.h"

namespace rf = ringfeed;
using std::chrono::milliseconds;

void Channels() {
  rf::Channel<int> channel(2);
  std::jthread producer([&] {
    for (int item = 1; item <= 3; ++item) channel.Push(std::move(item));
    channel.Close();  // or Close(status), where the producer failed
  });
  std::cout << "channel:";
  while (const auto item = channel.Pop()) std::cout << " " << *item << (*item < 3 ? "" : ",");
  int none = 0;
  std::cout << " then " << rf::QueueResultName(channel.Pop(none)) << "\n";
}

/// Calls that do not wait, or not for ever, and an end that keeps nothing.
void Ends() {
  rf::Channel<int> channel(2);
  (void)channel.TryPush(1);
  (void)channel.PushUntil(2, rf::DeadlineAfter(milliseconds(1)));
  std::cout << "of " << channel.Cap() << " places " << channel.Size() << " are taken, then "
            << rf::QueueResultName(channel.TryPush(3));
  int item = 0;
  if (channel.TryPop(item) != rf::QueueResult::kOk) throw std::runtime_error("there is an item");
  std::cout << ", " << item << " comes out\n";
  channel.Kill(rf::Status(rf::StatusCode::kCancelled, "nobody trains any more"));
  const rf::QueueResult failed = channel.PopUntil(item, rf::DeadlineAfter(milliseconds(1)));
  if (failed != rf::QueueResult::kFailed || !channel.IsKilled() || !channel.IsClosed())
    throw std::runtime_error("it goes on");
  if (channel.Stats().push.waits != 0) throw std::runtime_error("a push has waited");
  std::cout << "killed: " << channel.status().ToString() << "\n";
}

void Rings() {
  // `arrivals` is for a thread that waits on several rings.
  rf::EventCount arrivals;
  const rf::RingOptions options = {.spin_ns = 0, .not_empty_watcher = &arrivals};
  rf::MpmcRing<std::string> ring(2, options);
  std::string item;
  const rf::QueueResult waited = ring.PopUntil(item, rf::DeadlineAfter(milliseconds(1)));
  std::cout << "nothing within a millisecond: " << rf::QueueResultName(waited) << "\n";
  std::string items[] = {"a", "b", "c"};
  const rf::BulkResult pushed = ring.TryPushBulk(items);
  std::cout << "several at once: " << pushed.count << " pushed, "
            << rf::QueueResultName(ring.TryPush("d")) << " after that\n";
  const rf::RingStats stats = ring.Stats();
  const rf::WaitStats& consumers = stats.pop;
  if (consumers.waits != 1) throw std::runtime_error("the wait was not counted");
}

/// Results of several threads, in the order of their numbers.
void Numbers() {
  rf::SequencedRing<char> ring(4);
  std::jthread late([&] { ring.Put(0, 'a'); });
  ring.Put(2, 'c');
  ring.Put(1, 'b');
  ring.Close(3);  // 3 will not come
  std::cout << "by number:";
  while (const auto item = ring.Pop()) std::cout << " " << *item;
  std::cout << "\n";
}

void Events() {
  std::atomic<bool> ready = false;
  rf::EventCount events;
  std::jthread other([&] {
    ready = true;
    events.Notify();
  });
  while (!ready) {
    const rf::EventCount::Key key = events.PrepareWait();
    if (ready) {
      events.CancelWait(key);
    } else {
      events.CommitWait(key);
    }
  }
  // The same, with a deadline, in one call.
  const auto look = [&](rf::LookMode) {
    return ready ? rf::QueueResult::kOk : rf::QueueResult::kEmpty;
  };
  if (events.Await(0, {rf::DeadlineAfter(milliseconds(1))}, look) == rf::QueueResult::kOk) {
    std::cout << "woken\n";
  }
}

int main() try {
  Channels();
  Ends();
  Rings();
  Numbers();
  Events();
} catch (const std::exception& error) {
  std::cerr << "queues: " << error.what() << "\n";
  return 1;
}
