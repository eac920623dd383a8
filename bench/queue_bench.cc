// The ring beside a mutex, a deque and two condition variables doing the same work in the same run,
// and beside moodycamel's and atomic_queue's queues, if their headers are there.
// Every case sums what it pushed and what it popped and fails if they differ.
//
//   queue_bench                  the cases, as Google Benchmark runs them
//   queue_bench --rows-json=N    the gated figures, a line of JSON for each of N repetitions, ours
//                                and the baseline in turn; {"name":…,"skipped":"why"} without one

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/queue_loops.h"
#include "ringfeed/queue/blocking_queue.h"
#include "ringfeed/queue/mpmc_ring.h"

#ifdef RINGFEED_WITH_MOODYCAMEL
#include <concurrentqueue/blockingconcurrentqueue.h>
#include <concurrentqueue/concurrentqueue.h>
#endif
#ifdef RINGFEED_WITH_ATOMIC_QUEUE
#include <atomic_queue/atomic_queue.h>
#endif

namespace ringfeed {
namespace {

constexpr std::size_t kInstances = 64;  // batches are large: what Paddle's users gave its py_reader

// What everyone writes first.
template <typename Item>
class MutexQueue {
 public:
  explicit MutexQueue(std::size_t capacity) : capacity_(capacity) {}

  template <typename From>
  bool Push(From&& item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [this] { return items_.size() < capacity_ || closed_; });
    if (closed_) return false;
    items_.push_back(std::forward<From>(item));
    lock.unlock();
    not_empty_.notify_one();
    return true;
  }
  bool Pop(Item& item) {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return !items_.empty() || closed_; });
    if (items_.empty()) return false;
    item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    not_full_.notify_one();
    return true;
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    not_full_.notify_all();
    not_empty_.notify_all();
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable not_empty_;
  std::deque<Item> items_;
  bool closed_ = false;
};

using Ring = BlockingRing;
using MutexNumbers = MutexQueue<std::uint64_t>;

// What queues of others lack: an end, and, where they do not wait themselves, waiting. They are
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
      // In this order: what was pushed before the end is seen by who sees the end.
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
// Unbounded: who pushes never waits. Items of several producers come in no order.
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

// Millions of instances per second, each moved into the queue and out of it: they are made before,
// kept until the clock has stopped, and looked at only then.
template <typename Queue>
Figure InstanceThroughput(std::size_t producers, std::size_t consumers, std::uint64_t items) {
  const std::uint64_t each = items / producers;
  const std::uint64_t all = each * producers;
  std::vector<std::vector<Instance>> made = MakeInstances(producers, each);
  std::vector<std::vector<Instance>> kept(consumers);
  for (auto& mine : kept) mine.resize(all + 1);  // and a place for the pop that finds the end
  Queue queue(kInstances);
  std::vector<std::thread> pushers;
  std::vector<std::thread> poppers;
  const double start = Now();
  for (auto& mine : kept) {
    poppers.emplace_back([&queue, &mine] {
      for (auto next = mine.begin(); queue.Pop(*next); ++next) {
      }
    });
  }
  for (auto& mine : made) {
    pushers.emplace_back([&queue, &mine] {
      for (Instance& instance : mine) queue.Push(std::move(instance));
    });
  }
  for (auto& thread : pushers) thread.join();
  queue.Close();
  for (auto& thread : poppers) thread.join();
  const double wall = Now() - start;
  std::uint64_t sum = 0;
  for (const auto& mine : kept) {
    for (const Instance& instance : mine) {
      if (!instance.empty()) sum += instance[1].Values<std::uint64_t>()[0];
    }
  }
  return {static_cast<double>(all) / wall / 1e6, wall, sum == all * (all - 1) / 2};
}

// When it was pushed, where that counts. A thread that says so is stopped while it moves one into a
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

bool Took(bool popped) { return popped; }
bool Took(QueueResult result) { return result == QueueResult::kOk; }

std::int64_t NowNanos() { return QueueClock::now().time_since_epoch().count(); }

// How many microseconds the items of one producer, 10,000 a second, take to a consumer, in
// ascending order, while another producer is stopped in a push half of the time.
template <typename Queue>
std::vector<double> WaitsBesideAStoppedThread(std::uint64_t items) {
  Queue queue(kInstances);
  std::vector<double> waits;
  std::thread consumer([&] {
    Stamped item;
    while (Took(queue.Pop(item))) {
      if (item.pushed_ns == 0) continue;
      waits.push_back(static_cast<double>(NowNanos() - item.pushed_ns) / 1e3);
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
  std::sort(waits.begin(), waits.end());
  return waits;
}

bool Smoke() { return std::getenv("RINGFEED_BENCH_SMOKE") != nullptr; }

std::uint64_t Items(std::uint64_t full) { return Smoke() ? full / 100 : full; }

template <typename Queue>
void UncontendedCase(benchmark::State& state) {
  const std::uint64_t items = Items(1'000'000);
  for (auto _ : state) {
    const Figure figure = Uncontended<Queue>(items);
    if (!figure.verified) state.SkipWithError("the sums differ");
    state.SetIterationTime(figure.wall_s);
    state.counters["ns_per_pair"] = figure.value;
  }
}

template <typename Queue>
void ThroughputCase(benchmark::State& state) {
  const std::uint64_t items = Items(1'000'000);
  for (auto _ : state) {
    const Figure figure = Throughput<Queue>(static_cast<int>(state.range(0)),
                                            static_cast<int>(state.range(1)), items);
    if (!figure.verified) state.SkipWithError("the sums differ");
    state.SetIterationTime(figure.wall_s);
    state.counters["cpu_s_per_M"] = figure.value;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(items));
}

template <typename Queue>
void InstanceThroughputCase(benchmark::State& state) {
  const std::uint64_t items = Items(400'000);
  for (auto _ : state) {
    const Figure figure = InstanceThroughput<Queue>(
        static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)), items);
    if (!figure.verified) state.SkipWithError("the sums differ");
    state.SetIterationTime(figure.wall_s);
    state.counters["M_per_s"] = figure.value;
  }
}

template <typename Queue>
void IdleConsumerCase(benchmark::State& state) {
  for (auto _ : state) {
    const Figure figure = IdleConsumer<Queue>(Items(20'000));
    if (!figure.verified) state.SkipWithError("the sums differ");
    state.SetIterationTime(figure.wall_s);
    state.counters["percent_of_core"] = figure.value;
  }
}

template <typename Queue>
void StoppedProducerCase(benchmark::State& state) {
  const std::uint64_t items = Items(10'000);
  for (auto _ : state) {
    const std::vector<double> waits = WaitsBesideAStoppedThread<Queue>(items);
    if (waits.size() != items) return state.SkipWithError("items are missing");
    state.counters["p50_us"] = waits[items / 2];
    state.counters["p99_us"] = waits[items * 99 / 100];
    state.counters["most_us"] = waits.back();
  }
}

void Shapes(benchmark::internal::Benchmark* cases) {
  cases->ArgNames({"producers", "consumers"});
  for (const int producers : {1, 2}) {
    for (const int consumers : {1, 2}) cases->Args({producers, consumers});
  }
  for (const int threads : {4, 8}) cases->Args({threads, threads});
  cases->UseManualTime();
}

BENCHMARK(UncontendedCase<Ring>)->UseManualTime();
BENCHMARK(UncontendedCase<MutexNumbers>)->UseManualTime();
BENCHMARK(ThroughputCase<Ring>)->Apply(Shapes);
BENCHMARK(ThroughputCase<MutexNumbers>)->Apply(Shapes);
#ifdef RINGFEED_WITH_MOODYCAMEL
BENCHMARK(UncontendedCase<EndedQueue<MoodycamelQueue>>)->UseManualTime();
BENCHMARK(UncontendedCase<EndedQueue<MoodycamelWaiting>>)->UseManualTime();
BENCHMARK(ThroughputCase<EndedQueue<MoodycamelQueue>>)->Apply(Shapes);
BENCHMARK(ThroughputCase<EndedQueue<MoodycamelWaiting>>)->Apply(Shapes);
#endif
#ifdef RINGFEED_WITH_ATOMIC_QUEUE
BENCHMARK(UncontendedCase<EndedQueue<AtomicQueue>>)->UseManualTime();
BENCHMARK(ThroughputCase<EndedQueue<AtomicQueue>>)->Apply(Shapes);
#endif
BENCHMARK(InstanceThroughputCase<InstanceQueue>)->Args({1, 1})->Args({4, 4})->UseManualTime();
BENCHMARK(InstanceThroughputCase<MutexInstances>)->Args({1, 1})->Args({4, 4})->UseManualTime();
BENCHMARK(IdleConsumerCase<Ring>)->UseManualTime();
BENCHMARK(IdleConsumerCase<MutexNumbers>)->UseManualTime();
BENCHMARK(StoppedProducerCase<MpmcRing<Stamped>>)->Iterations(1);
BENCHMARK(StoppedProducerCase<MutexQueue<Stamped>>)->Iterations(1);

// The gated rows.

// A line for each repetition.
template <typename Ours, typename Baseline>
bool Row(const char* name, const char* unit, int repetitions, Ours&& ours, Baseline&& baseline) {
  bool verified = true;
  for (int i = 0; i < repetitions; ++i) {
    const Figure a = ours();
    const Figure b = baseline();
    std::printf(
        "{\"name\":\"%s\",\"ours\":%.6g,\"baseline\":%.6g,\"unit\":\"%s\",\"verified\":%s}\n", name,
        a.value, b.value, unit, a.verified && b.verified ? "true" : "false");
    std::fflush(stdout);
    verified = verified && a.verified && b.verified;
  }
  return verified;
}

// The ring beside a queue of others: by one thread, by a few, and by twice as many as there are
// cores on each side.
constexpr const char* kBeside[] = {"alone", "1p1c", "2p2c", "crowded"};

std::string NameBeside(const char* other, const char* what) {
  return std::string("queue.") + other + "_" + what;
}

template <typename Other>
bool RowsBeside(const char* other, int repetitions) {
  const std::uint64_t items = Items(2'000'000);
  const int crowd = 2 * static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool verified = true;
  for (const auto& [what, threads] :
       {std::pair{kBeside[0], 0}, {kBeside[1], 1}, {kBeside[2], 2}, {kBeside[3], crowd}}) {
    const auto measure = [items, count = threads]<typename Queue>(std::type_identity<Queue>) {
      return count == 0 ? Uncontended<Queue>(items) : Throughput<Queue>(count, count, items);
    };
    verified = Row(
                   NameBeside(other, what).c_str(), threads == 0 ? "ns" : "CPU s per million",
                   repetitions, [&] { return measure(std::type_identity<Ring>()); },
                   [&] { return measure(std::type_identity<EndedQueue<Other>>()); }) &&
               verified;
  }
  return verified;
}

[[maybe_unused]] void SkipRowsBeside(const char* other, const char* header) {
  for (const char* what : kBeside) {
    std::printf("{\"name\":\"%s\",\"skipped\":\"built without %s\"}\n",
                NameBeside(other, what).c_str(), header);
  }
}

bool RowsBesideOthers([[maybe_unused]] int repetitions) {
  bool verified = true;
#ifdef RINGFEED_WITH_MOODYCAMEL
  verified = RowsBeside<MoodycamelQueue>("moodycamel", repetitions) && verified;
  verified = RowsBeside<MoodycamelWaiting>("moodycamel_waiting", repetitions) && verified;
#else
  SkipRowsBeside("moodycamel", "concurrentqueue/concurrentqueue.h");
  SkipRowsBeside("moodycamel_waiting", "concurrentqueue/concurrentqueue.h");
#endif
#ifdef RINGFEED_WITH_ATOMIC_QUEUE
  verified = RowsBeside<AtomicQueue>("atomic_queue", repetitions) && verified;
#else
  SkipRowsBeside("atomic_queue", "atomic_queue/atomic_queue.h");
#endif
  return verified;
}

bool Rows(int repetitions) {
  const std::uint64_t items = Items(2'000'000);
  bool verified = Row(
      "queue.uncontended_push_pop", "ns", repetitions, [&] { return Uncontended<Ring>(items); },
      [&] { return Uncontended<MutexNumbers>(items); });
  for (const auto& [producers, consumers] : {std::pair{1, 1}, {1, 2}, {2, 1}, {2, 2}}) {
    char name[48];
    std::snprintf(name, sizeof(name), "queue.%dp%dc", producers, consumers);
    const auto measure = [&, p = producers, c = consumers](auto* queue) {
      using Queue = std::remove_pointer_t<decltype(queue)>;
      return Throughput<Queue>(p, c, items);
    };
    verified = Row(
                   name, "CPU s per million", repetitions,
                   [&] { return measure(static_cast<Ring*>(nullptr)); },
                   [&] { return measure(static_cast<MutexNumbers*>(nullptr)); }) &&
               verified;
  }
  for (const std::size_t threads : {1u, 4u}) {
    char name[48];
    std::snprintf(name, sizeof(name), "queue.blocking_%zu_%zu", threads, threads);
    const std::uint64_t instances = Items(1'000'000);
    verified =
        Row(
            name, "M/s", repetitions,
            [&] { return InstanceThroughput<InstanceQueue>(threads, threads, instances); },
            [&] { return InstanceThroughput<MutexInstances>(threads, threads, instances); }) &&
        verified;
  }
  return Row(
             "queue.idle_consumer_20k", "% of a core", repetitions,
             [&] { return IdleConsumer<Ring>(Items(20'000)); },
             [&] { return IdleConsumer<MutexNumbers>(Items(20'000)); }) &&
         RowsBesideOthers(repetitions) && verified;
}

}  // namespace
}  // namespace ringfeed

int main(int argc, char** argv) {
  constexpr std::string_view kRowsJson = "--rows-json=";
  if (argc == 2 && std::string_view(argv[1]).starts_with(kRowsJson)) {
    const int repetitions = std::atoi(argv[1] + kRowsJson.size());
    return ringfeed::Rows(repetitions) ? 0 : 1;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
