// The two rings between any threads beside each other, in turn in one process: how fast, at how
// much CPU, and what everybody else notices while one thread is stopped in the middle of a push.
//
//   rings_bench [repetitions]   the medians as a table; RINGFEED_BENCH_SMOKE=1 for a short run

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "bench/queue_loops.h"
#include "ringfeed/lock_free_ring.h"
#include "ringfeed/mpmc_ring.h"

namespace ringfeed {
namespace {

using SlotRing = BlockingRing<MpmcRing<std::uint64_t>>;
using StrictRing = BlockingRing<LockFreeRing<std::uint64_t>>;

constexpr auto kStop = std::chrono::milliseconds(20);  // what a CPU quota takes at a time

// When it was pushed; a thread that says so is stopped while it moves one, which is between the
// claim and the publication of both rings.
struct Stamped {
  Stamped() = default;
  explicit Stamped(std::int64_t at) : pushed_ns(at) {}
  Stamped(Stamped&& other) noexcept : pushed_ns(other.pushed_ns) {
    if (stops) std::this_thread::sleep_for(kStop);
  }
  Stamped& operator=(Stamped&& other) noexcept = default;

  static inline thread_local bool stops = false;
  std::int64_t pushed_ns = 0;
};

std::int64_t NowNanos() { return QueueClock::now().time_since_epoch().count(); }

struct Waits {
  double p50_us = 0;
  double p99_us = 0;
  double most_us = 0;
};

// How long items of one producer, 10,000 a second, take to a consumer, while another producer is
// stopped in a push half of the time.
template <typename Ring>
Waits WaitsBesideAStoppedThread(std::size_t items) {
  Ring ring(64);
  std::vector<double> waits;
  std::thread consumer([&] {
    Stamped item;
    while (ring.Pop(item) == QueueResult::kOk) {
      if (item.pushed_ns != 0) {
        waits.push_back(static_cast<double>(NowNanos() - item.pushed_ns) / 1e3);
      }
    }
  });
  std::atomic<bool> over{false};
  std::thread stopped([&] {
    Stamped::stops = true;
    while (!over.load(std::memory_order_relaxed)) {
      (void)ring.Push(Stamped(0));
      std::this_thread::sleep_for(kStop);
    }
  });
  auto due = QueueClock::now();
  for (std::size_t i = 0; i < items; ++i) {
    due += std::chrono::microseconds(100);
    std::this_thread::sleep_until(due);
    (void)ring.Push(Stamped(NowNanos()));
  }
  over.store(true, std::memory_order_relaxed);
  stopped.join();
  ring.Close();
  consumer.join();
  std::sort(waits.begin(), waits.end());
  if (waits.empty()) return {};
  return {waits[waits.size() / 2], waits[waits.size() * 99 / 100], waits.back()};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(const char* name, const char* unit, const std::vector<double>& slots,
           const std::vector<double>& strict) {
  const auto spread = [](const std::vector<double>& values) {
    return std::pair(*std::min_element(values.begin(), values.end()),
                     *std::max_element(values.begin(), values.end()));
  };
  const auto [slots_least, slots_most] = spread(slots);
  const auto [strict_least, strict_most] = spread(strict);
  std::printf("%-22s %-8s %10.4g (%.4g-%.4g) %10.4g (%.4g-%.4g) %6.2f\n", name, unit, Median(slots),
              slots_least, slots_most, Median(strict), strict_least, strict_most,
              Median(strict) / Median(slots));
  std::fflush(stdout);
}

// The values of both rings, taken in turn.
template <typename Slots, typename Strict>
void Compare(const char* name, const char* unit, int repetitions, Slots&& slots, Strict&& strict) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < repetitions; ++i) {
    a.push_back(slots());
    b.push_back(strict());
  }
  Print(name, unit, a, b);
}

void CompareShape(int producers, int consumers, int repetitions, std::uint64_t items) {
  std::vector<double> speed[2];
  std::vector<double> cpu[2];
  for (int i = 0; i < repetitions; ++i) {
    const auto note = [&](int ring, const Figure& figure) {
      if (!figure.verified) std::exit(1);
      speed[ring].push_back(static_cast<double>(items) / figure.wall_s / 1e6);
      cpu[ring].push_back(figure.value);
    };
    note(0, Throughput<SlotRing>(producers, consumers, items));
    note(1, Throughput<StrictRing>(producers, consumers, items));
  }
  char name[32];
  std::snprintf(name, sizeof(name), "%d:%d", producers, consumers);
  Print(name, "M/s", speed[0], speed[1]);
  Print(name, "CPU s/M", cpu[0], cpu[1]);
}

void CompareWaits(int repetitions, std::size_t items) {
  std::vector<double> rows[3][2];
  for (int i = 0; i < repetitions; ++i) {
    const auto note = [&](std::size_t ring, const Waits& waits) {
      rows[0][ring].push_back(waits.p50_us);
      rows[1][ring].push_back(waits.p99_us);
      rows[2][ring].push_back(waits.most_us);
    };
    note(0, WaitsBesideAStoppedThread<MpmcRing<Stamped>>(items));
    note(1, WaitsBesideAStoppedThread<LockFreeRing<Stamped>>(items));
  }
  const char* const names[] = {"one stopped, p50", "one stopped, p99", "one stopped, most"};
  for (std::size_t i = 0; i < 3; ++i) Print(names[i], "us", rows[i][0], rows[i][1]);
}

void Run(int repetitions) {
  const bool smoke = std::getenv("RINGFEED_BENCH_SMOKE") != nullptr;
  const std::uint64_t items = smoke ? 16'000 : 1'600'000;
  std::printf("%-22s %-8s %10s (least-most) %10s (least-most) %6s\n", "", "", "slots", "strict",
              "ratio");
  Compare(
      "alone, push and pop", "ns", repetitions, [&] { return Uncontended<SlotRing>(items).value; },
      [&] { return Uncontended<StrictRing>(items).value; });
  for (const auto& [producers, consumers] :
       {std::pair{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 4}, {4, 1}, {4, 4}, {8, 8}}) {
    CompareShape(producers, consumers, repetitions, items);
  }
  Compare(
      "idle, 20,000 a second", "% core", repetitions,
      [&] { return IdleConsumer<SlotRing>(smoke ? 200 : 20'000).value; },
      [&] { return IdleConsumer<StrictRing>(smoke ? 200 : 20'000).value; });
  CompareWaits(repetitions, smoke ? 100 : 10'000);
}

}  // namespace
}  // namespace ringfeed

int main(int argc, char** argv) {
  ringfeed::Run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
  return 0;
}
