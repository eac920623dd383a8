// The rings under the channels, call by call: what each gives when it is full, empty or at its end.
//
// Prints:
//   ring of 4: ok ok, 2 in it
//   popped a, b, then empty
//   in bulk: 3 in, 1 and 2 out
//   full: timeout, then closed
//   drained: 1, cancelled: 1
//   numbers 0 to 1 have room, 2 does not: full
//   in order: a b, at number 2
//   the end is 3: c, then closed
//   a nap is for 2 items, by itself for 8
//   woken one by one and together: 4
#include <atomic>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "ringfeed/queue/event_count.h"
#include "ringfeed/queue/mpmc_ring.h"
#include "ringfeed/queue/sequenced_ring.h"

namespace rf = ringfeed;
using std::chrono::milliseconds;

std::string_view Name(rf::QueueResult result) { return rf::QueueResultName(result); }

void Items() {
  rf::MpmcRing<std::string> ring(4);
  const rf::QueueResult first = ring.Push("a");
  const rf::QueueResult second = ring.PushUntil("b", rf::DeadlineAfter(milliseconds(1)));
  std::cout << "ring of " << ring.Capacity() << ": " << Name(first) << " " << Name(second) << ", "
            << ring.SizeApprox() << " in it\n";
  std::string one, other;
  if (ring.TryPop(one) != rf::QueueResult::kOk || ring.Pop(other) != rf::QueueResult::kOk)
    throw std::runtime_error("an item is missing");
  std::cout << "popped " << one << ", " << other << ", then " << Name(ring.TryPop(one)) << "\n";
}

void Bulk() {
  rf::MpmcRing<int> ring(3);
  std::vector<int> in = {1, 2, 3}, out(4);
  const rf::BulkResult pushed = ring.PushBulk(in);
  const rf::BulkResult one = ring.TryPopBulk(std::span(out).first(1));
  const rf::BulkResult rest = ring.PopBulk(out, 2);  // waits while there are fewer than two
  std::cout << "in bulk: " << pushed.count << " in, " << one.count << " and " << rest.count
            << " out\n";
  while (ring.TryPush(0) == rf::QueueResult::kOk) {
  }
  std::cout << "full: " << Name(ring.PushUntil(0, rf::DeadlineAfter(milliseconds(1))));
  ring.Close();
  std::cout << ", then " << Name(ring.Push(0)) << "\n";
  while (ring.Pop()) {
  }
  const bool drained = ring.IsDrained() && ring.IsClosed();
  ring.Cancel();  // drops what is left, too
  std::cout << "drained: " << drained << ", cancelled: " << ring.IsCancelled() << "\n";
}

/// Numbers have room while they are less than Head() + Capacity().
void Numbers() {
  rf::SequencedRing<char> ring(2);
  if (ring.HasRoom(1) != rf::QueueResult::kOk) throw std::runtime_error("1 has no room");
  (void)ring.TryPut(1, 'b');
  (void)ring.PutUntil(0, 'a', rf::DeadlineAfter(milliseconds(1)));
  std::cout << "numbers 0 to " << ring.Capacity() - 1
            << " have room, 2 does not: " << Name(ring.TryPut(2, 'c')) << "\n";
  std::vector<char> out(2);
  const rf::BulkResult both = ring.TryPopBulk(out);
  if (both.count != 2) throw std::runtime_error("an item is missing");
  std::cout << "in order: " << out[0] << " " << out[1] << ", at number " << ring.Head() << "\n";

  if (ring.WaitForRoom(2) != rf::QueueResult::kOk) throw std::runtime_error("2 has no room");
  (void)ring.Put(2, 'c');
  ring.Close(3);
  char item = 0;
  if (ring.PopUntil(item, rf::kNoDeadline) != rf::QueueResult::kOk || !ring.IsClosed())
    throw std::runtime_error("the last item is missing");
  std::cout << "the end is " << ring.End() << ": " << item << ", then " << Name(ring.TryPop(item));
  if (!ring.IsDrained() || ring.PopBulk(out, 1).result != rf::QueueResult::kClosed)
    throw std::runtime_error("there is more");
  ring.Cancel();  // what a producer does that cannot say its number
  std::cout << "\n";
  const rf::RingOptions paced = {.nap_items = 2}, plain = {.nap_items = rf::kAdaptiveNap};
  if (ring.Stats().push.parks != 0) throw std::runtime_error("nobody had to sleep for room");
  std::cout << "a nap is for " << paced.NapItems(64) << " items, by itself for "
            << plain.NapItems(64) << "\n";
}

/// Threads that wait, and the ways to wake them.
void Events() {
  rf::EventCount events;
  std::atomic<int> tickets = 0, taken = 0;  // sequentially consistent, so AfterSeqCst will do
  std::stop_source never;
  const std::stop_token token = never.get_token();
  const auto wait = [&] {
    const rf::WaitLimit<rf::NativeQueuePolicy> limit = {.stop = &token};
    const auto take = [&](rf::LookMode) {
      int left = tickets;
      while (left > 0 && !tickets.compare_exchange_weak(left, left - 1)) {
      }
      return left > 0 ? rf::QueueResult::kOk : rf::QueueResult::kEmpty;
    };
    if (!limit.Stopped() && events.Await(0, limit, take) == rf::QueueResult::kOk) ++taken;
  };
  std::vector<std::jthread> waiters;
  for (int i = 0; i < 4; ++i) waiters.emplace_back(wait);
  while (!events.HasWaiters()) events.Nap(rf::DeadlineAfter(milliseconds(1)));
  ++tickets, events.NotifyAfterSeqCst();
  ++tickets, events.NotifyAllAfterSeqCst();
  tickets += 2, events.NotifyAll();
  waiters.clear();  // joins them
  if (events.Stats().waits > 4) throw std::runtime_error("more waits than waiters");
  std::cout << "woken one by one and together: " << taken << "\n";
}

int main() try {
  Items();
  Bulk();
  Numbers();
  Events();
} catch (const std::exception& error) {
  std::cerr << "rings: " << error.what() << "\n";
  return 1;
}
