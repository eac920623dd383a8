// The ring beside a mutex, a deque and two condition variables doing the same work in the same run,
// and beside moodycamel's and atomic_queue's queues, if their headers are there. A queue has Push,
// Pop and Close, all of which wait; Push and Pop are false after the end. Every loop sums what it
// pushed and what it popped.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/loops.h"
#include "bench/mutex_queue.h"
#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/blocking_queue.h"
#include "ringfeed/queue/mpmc_ring.h"

#ifdef RINGFEED_WITH_MOODYCAMEL
#include <concurrentqueue/blockingconcurrentqueue.h>
#include <concurrentqueue/concurrentqueue.h>
#endif
#ifdef RINGFEED_WITH_ATOMIC_QUEUE
#include <atomic_queue/atomic_queue.h>
#endif

namespace ringfeed::bench {
namespace {

constexpr std::size_t kCapacity = 1024;
constexpr std::size_t kInstances = 64;  // batches are large: what Paddle's users gave its py_reader

constexpr Measure kNs{
    "ns", [](const LoopResult& r) { return r.cpu_s * 1e9 / static_cast<double>(r.records); }};
constexpr Measure kCpuPerMillion{"CPU s per million", [](const LoopResult& r) {
                                   return r.cpu_s * 1e6 / static_cast<double>(r.records);
                                 }};
constexpr Measure kMPerS{
    "M/s", [](const LoopResult& r) { return static_cast<double>(r.records) / 1e6 / r.wall_s; }};

// The library's ring as such a queue.
template <typename Item>
class RingOf {
 public:
  explicit RingOf(std::size_t capacity) : ring_(capacity) {}
  bool Push(Item item) { return ring_.Push(std::move(item)) == QueueResult::kOk; }
  bool Pop(Item& item) { return ring_.Pop(item) == QueueResult::kOk; }
  void Close() { ring_.Close(); }

 private:
  MpmcRing<Item> ring_;
};

using Ring = RingOf<std::uint64_t>;
using MutexNumbers = MutexQueue<std::uint64_t>;

// What queues of others lack: an end, and, if they do not wait themselves, waiting. They are
// asked again then: after 64 pauses the core is left to other threads between two attempts.
template <typename Queue>
class EndedQueue {
 public:
  explicit EndedQueue(std::size_t capacity) : queue_(capacity) {}
  bool Push(std::uint64_t item) {
    for (int failed = 0; !queue_.TryPush(item); ++failed) Rest(failed);
    return true;
  }
  bool Pop(std::uint64_t& item) {
    for (int failed = 0; !queue_.TryPop(item); ++failed) {
      // In this order: the end is seen after what was pushed before it.
      if (closed_.stop_requested() && queue_.Empty()) return false;
      Rest(failed);
    }
    return true;
  }
  void Close() { closed_.request_stop(); }

 private:
  static void Rest(int failed) {
    constexpr int kPauses = 64;
    if (failed < kPauses) return NativeQueuePolicy::Pause();
    std::this_thread::yield();
  }

  Queue queue_;
  std::stop_source closed_;
};

#ifdef RINGFEED_WITH_MOODYCAMEL
// Unbounded: a push never waits. Items of several producers come in no order.
class MoodycamelQueue {
 public:
  explicit MoodycamelQueue(std::size_t capacity) : queue_(capacity) {}
  bool TryPush(std::uint64_t item) { return queue_.enqueue(item); }
  bool TryPop(std::uint64_t& item) { return queue_.try_dequeue(item); }
  bool Empty() const { return queue_.size_approx() == 0; }

 private:
  moodycamel::ConcurrentQueue<std::uint64_t> queue_;
};

// The same with a semaphore, on which consumers sleep.
class MoodycamelWaiting {
 public:
  explicit MoodycamelWaiting(std::size_t capacity) : queue_(capacity) {}
  bool TryPush(std::uint64_t item) { return queue_.enqueue(item); }
  bool TryPop(std::uint64_t& item) { return queue_.wait_dequeue_timed(item, kEndIsNoticed); }
  bool Empty() const { return queue_.size_approx() == 0; }

 private:
  static constexpr auto kEndIsNoticed = std::chrono::milliseconds(1);

  moodycamel::BlockingConcurrentQueue<std::uint64_t> queue_;
};
#endif

#ifdef RINGFEED_WITH_ATOMIC_QUEUE
// The form for atomic items, one value of which stands for an empty place. Nobody sleeps.
class AtomicQueue {
 public:
  explicit AtomicQueue(std::size_t) {}
  bool TryPush(std::uint64_t item) { return queue_.try_push(item); }
  bool TryPop(std::uint64_t& item) { return queue_.try_pop(item); }
  bool Empty() const { return queue_.was_empty(); }

 private:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};

  atomic_queue::AtomicQueue<std::uint64_t, kCapacity, kNothing> queue_;
};
#endif

std::vector<SlotSpec> InstanceSlots() {
  return {{"values", kFloat32, {-1, 2}, 0}, {"number", kUInt64, {1}, 0}};
}

// The library's queue of instances, and what a user would write in its place: both hold every
// instance against the slots before they take it.
class InstanceQueue {
 public:
  explicit InstanceQueue(std::size_t capacity) : queue_(capacity, InstanceSlots()) {}
  bool Push(Instance&& item) { return queue_.Push(std::move(item)); }
  bool Pop(Instance& item) { return queue_.Pop(&item) == QueueResult::kOk; }
  void Close() { queue_.Close(); }

 private:
  LoDTensorBlockingQueue queue_;
};

class MutexInstances {
 public:
  explicit MutexInstances(std::size_t capacity) : queue_(capacity) {}
  bool Push(Instance&& item) {
    return CheckInstance(slots_, item).ok() && queue_.Push(std::move(item));
  }
  bool Pop(Instance& item) { return queue_.Pop(item); }
  void Close() { queue_.Close(); }

 private:
  const std::vector<SlotSpec> slots_ = InstanceSlots();
  MutexQueue<Instance> queue_;
};

// Instances of two tensors, numbered from 0, in shares of the same size.
std::vector<std::vector<Instance>> MakeInstances(std::size_t shares, std::uint64_t each) {
  struct Content {
    float values[4] = {};
    std::uint64_t number = 0;
  };
  const auto contents = std::make_shared<std::vector<Content>>(shares * each);
  const auto bytes = [](const auto* at) { return reinterpret_cast<const std::byte*>(at); };
  std::vector<std::vector<Instance>> made(shares);
  for (std::uint64_t i = 0; i < contents->size(); ++i) {
    Content& content = (*contents)[i];
    content.number = i;
    Instance instance(2);
    instance[0] = {kFloat32, {2, 2}, bytes(content.values), 16, {}, contents};
    instance[1] = {kUInt64, {1}, bytes(&content.number), 8, {}, contents};
    made[i / each].push_back(std::move(instance));
  }
  return made;
}

// When it was pushed, if that counts. A thread that says so is stopped while it moves one into a
// queue, as a CPU quota stops it.
struct Stamped {
  static constexpr auto kStop = std::chrono::milliseconds(20);

  Stamped() = default;
  explicit Stamped(std::int64_t at) : pushed_ns(at) {}
  Stamped(Stamped&& other) noexcept : pushed_ns(other.pushed_ns) {
    if (stops) std::this_thread::sleep_for(kStop);
  }
  Stamped& operator=(Stamped&& other) noexcept = default;

  static inline thread_local bool stops = false;
  std::int64_t pushed_ns = 0;
};

// --- loops -------------------------------------------------------------------------------------

LoopResult Moved(std::uint64_t records, bool right, LoopResult result) {
  result.records = records;
  if (!right) result.failure = "the sums differ";
  return result;
}

// One push and one pop by one thread, again and again; it never waits.
template <typename Queue>
LoopResult Alone(std::uint64_t items) {
  Queue queue(kCapacity);
  std::uint64_t sum = 0;
  std::uint64_t item = 0;
  const Timer timer;
  for (std::uint64_t i = 0; i < items; ++i) {
    queue.Push(i);
    queue.Pop(item);
    sum += item;
  }
  LoopResult result;
  timer.Stop(&result);
  return Moved(items, sum == items * (items - 1) / 2, result);
}

// Threads that call pop(consumer) and push(producer), which end with the queue; its time.
template <typename Queue, typename Push, typename Pop>
LoopResult RunThreads(Queue* queue, std::size_t producers, std::size_t consumers, const Push& push,
                      const Pop& pop) {
  std::vector<std::thread> pushers;
  std::vector<std::thread> poppers;
  LoopResult result;
  const Timer timer(Timer::Of::kProcess);
  for (std::size_t c = 0; c < consumers; ++c) poppers.emplace_back([&, c] { pop(c); });
  for (std::size_t p = 0; p < producers; ++p) pushers.emplace_back([&, p] { push(p); });
  for (auto& thread : pushers) thread.join();
  queue->Close();
  for (auto& thread : poppers) thread.join();
  timer.Stop(&result);
  return result;
}

template <typename Queue>
LoopResult Numbers(std::size_t producers, std::size_t consumers, std::uint64_t items) {
  Queue queue(kCapacity);
  const std::uint64_t each = items / producers;
  std::vector<std::uint64_t> sums(consumers);
  const LoopResult result = RunThreads(
      &queue, producers, consumers,
      [&](std::size_t) {
        for (std::uint64_t i = 0; i < each; ++i) queue.Push(i);
      },
      [&](std::size_t consumer) {
        std::uint64_t item = 0;
        std::uint64_t local = 0;
        while (queue.Pop(item)) local += item;
        sums[consumer] = local;
      });
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return Moved(each * producers, sum == producers * (each * (each - 1) / 2), result);
}

// Instances are made before, kept until the clock has stopped, and looked at only then.
template <typename Queue>
LoopResult Instances(std::size_t threads, std::uint64_t items) {
  const std::uint64_t each = items / threads;
  const std::uint64_t all = each * threads;
  std::vector<std::vector<Instance>> made = MakeInstances(threads, each);
  std::vector<std::vector<Instance>> kept(threads);
  for (auto& mine : kept) mine.resize(all + 1);  // and a place for the pop that finds the end
  Queue queue(kInstances);
  const LoopResult result = RunThreads(
      &queue, threads, threads,
      [&](std::size_t producer) {
        for (Instance& instance : made[producer]) queue.Push(std::move(instance));
      },
      [&](std::size_t consumer) {
        for (auto next = kept[consumer].begin(); queue.Pop(*next); ++next) {
        }
      });
  std::uint64_t sum = 0;
  for (const auto& mine : kept) {
    for (const Instance& instance : mine) {
      if (!instance.empty()) sum += instance[1].Values<std::uint64_t>()[0];
    }
  }
  return Moved(all, sum == all * (all - 1) / 2, result);
}

// A consumer of 20,000 items per second: its CPU time.
template <typename Queue>
LoopResult IdleConsumer(std::uint64_t items) {
  constexpr auto kGap = std::chrono::microseconds(50);
  Queue queue(kCapacity);
  std::uint64_t sum = 0;
  LoopResult consumed;
  LoopResult all;
  const Timer timer;
  std::thread consumer([&] {
    const Timer own;
    std::uint64_t item = 0;
    while (queue.Pop(item)) sum += item;
    own.Stop(&consumed);
  });
  // The producer polls the clock: a sleep would overshoot the gap.
  auto due = QueueClock::now();
  for (std::uint64_t i = 0; i < items; ++i) {
    due += kGap;
    while (QueueClock::now() < due) NativeQueuePolicy::Pause();
    queue.Push(i);
  }
  queue.Close();
  consumer.join();
  timer.Stop(&all);
  all.cpu_s = consumed.cpu_s;
  return Moved(items, sum == items * (items - 1) / 2, all);
}

std::int64_t NowNanos() { return QueueClock::now().time_since_epoch().count(); }

// What 99 of 100 items of one producer, 10,000 a second, take at most to a consumer, while another
// producer is stopped in a push half of the time.
template <typename Queue>
LoopResult StoppedProducer(std::uint64_t items) {
  Queue queue(kInstances);
  std::vector<std::int64_t> waits_ns;
  std::thread consumer([&] {
    Stamped item;
    while (queue.Pop(item)) {
      if (item.pushed_ns != 0) waits_ns.push_back(NowNanos() - item.pushed_ns);
    }
  });
  std::atomic<bool> over{false};
  std::thread stopped([&] {
    Stamped::stops = true;
    while (!over.load(std::memory_order_relaxed)) {
      (void)queue.Push(Stamped(0));
      std::this_thread::sleep_for(Stamped::kStop);
    }
  });
  auto due = QueueClock::now();
  for (std::uint64_t i = 0; i < items; ++i) {
    due += std::chrono::microseconds(100);
    std::this_thread::sleep_until(due);
    (void)queue.Push(Stamped(NowNanos()));
  }
  over.store(true, std::memory_order_relaxed);
  stopped.join();
  queue.Close();
  consumer.join();
  std::sort(waits_ns.begin(), waits_ns.end());
  LoopResult result;
  if (waits_ns.size() != items) {
    result.failure = "items are missing";
  } else {
    result.wall_s = static_cast<double>(waits_ns[items * 99 / 100]) / 1e9;
  }
  return result;
}

// --- the declarations ----------------------------------------------------------------------------

using Side = std::function<LoopResult()>;

Work QueueWork(const std::string& name, const Measure& measure, Side ours, Side baseline) {
  return {{{"queue." + name, measure}}, [=]() -> Pair { return {ours, baseline, nullptr, false}; }};
}

// The ring beside another queue: by one thread, or by so many on each side.
template <typename Other>
Work NumbersWork(const std::string& name, std::size_t producers, std::size_t consumers) {
  const std::uint64_t items = Sized(2'000'000, 20'000);
  if (producers == 0) {
    return QueueWork(
        name, kNs, [=] { return Alone<Ring>(items); }, [=] { return Alone<Other>(items); });
  }
  return QueueWork(
      name, kCpuPerMillion, [=] { return Numbers<Ring>(producers, consumers, items); },
      [=] { return Numbers<Other>(producers, consumers, items); });
}

Work InstancesWork(const std::string& name, std::size_t threads) {
  const std::uint64_t items = Sized(1'000'000, 10'000);
  return QueueWork(
      name, kMPerS, [=] { return Instances<InstanceQueue>(threads, items); },
      [=] { return Instances<MutexInstances>(threads, items); });
}

// By one thread, by a few, and by twice as many as there are cores on each side.
template <typename Other>
void AddBeside(const std::string& other, std::vector<Work>* works) {
  const std::size_t crowd = std::size_t{2} * std::max(1u, std::thread::hardware_concurrency());
  works->push_back(NumbersWork<Other>(other + "_alone", 0, 0));
  works->push_back(NumbersWork<Other>(other + "_1p1c", 1, 1));
  works->push_back(NumbersWork<Other>(other + "_2p2c", 2, 2));
  works->push_back(NumbersWork<Other>(other + "_crowded", crowd, crowd));
}

[[maybe_unused]] void SkipBeside(const std::string& other, const std::string& header,
                                 std::vector<Work>* works) {
  const auto skip = [header] { return "skipped: built without " + header; };
  for (const char* what : {"_alone", "_1p1c", "_2p2c", "_crowded"}) {
    works->push_back({{{"queue." + other + what, kNs}}, [skip]() -> Pair {
                        return {nullptr, nullptr, skip};
                      }});
  }
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  const std::uint64_t idle = Sized(20'000, 200);
  const std::uint64_t stopped = Sized(10'000, 100);
  std::vector<Work> works = {
      NumbersWork<MutexNumbers>("uncontended_push_pop", 0, 0),
      NumbersWork<MutexNumbers>("1p1c", 1, 1),
      NumbersWork<MutexNumbers>("1p2c", 1, 2),
      NumbersWork<MutexNumbers>("2p1c", 2, 1),
      NumbersWork<MutexNumbers>("2p2c", 2, 2),
      InstancesWork("blocking_1_1", 1),
      InstancesWork("blocking_4_4", 4),
      QueueWork(
          "idle_consumer_20k", kPercentOfACore, [=] { return IdleConsumer<Ring>(idle); },
          [=] { return IdleConsumer<MutexNumbers>(idle); }),
      QueueWork(
          "stopped_producer_p99", kMs, [=] { return StoppedProducer<RingOf<Stamped>>(stopped); },
          [=] { return StoppedProducer<MutexQueue<Stamped>>(stopped); })};
#ifdef RINGFEED_WITH_MOODYCAMEL
  AddBeside<EndedQueue<MoodycamelQueue>>("moodycamel", &works);
  AddBeside<EndedQueue<MoodycamelWaiting>>("moodycamel_waiting", &works);
#else
  SkipBeside("moodycamel", "concurrentqueue/concurrentqueue.h", &works);
  SkipBeside("moodycamel_waiting", "concurrentqueue/concurrentqueue.h", &works);
#endif
#ifdef RINGFEED_WITH_ATOMIC_QUEUE
  AddBeside<EndedQueue<AtomicQueue>>("atomic_queue", &works);
#else
  SkipBeside("atomic_queue", "atomic_queue/atomic_queue.h", &works);
#endif
  return works;
}

}  // namespace ringfeed::bench
