#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <atomic>
#endif

#include "ringfeed/queue/queue_result.h"

namespace ringfeed::history {

// A point in time. One clock gives the stamps of all threads of a history.
using Stamp = std::int64_t;
inline constexpr Stamp kNever = std::numeric_limits<Stamp>::max();

enum class OperationKind : std::uint8_t {
  kPush,
  kPop,
  kClose,        // of a channel: without a failure
  kCloseFailed,  // a channel's Close with a failure
  kCancel,       // of a channel: Kill
};

// A call as its thread saw it. No two pushes of a history carry the same value.
struct Operation {
  OperationKind kind = OperationKind::kPush;
  QueueResult result = QueueResult::kOk;
  // The place among the items of a bulk call, which follow each other with the same two stamps.
  std::uint32_t rank = 0;
  std::uint64_t value = 0;
  Stamp invoked = 0;
  Stamp answered = 0;
};

using QueueHistory = std::vector<Operation>;

// Stamps in an order that holds between threads: one taken after another was seen is not smaller.
class HistoryClock {
 public:
  static Stamp Now() {
#if defined(__x86_64__)
    // No shared word, so the threads meet in the queue alone. The fences keep the call between its
    // stamps: neither side's loads pass them, and the read-modify-writes by which a queue changes
    // are visible before the stamp that follows.
    _mm_lfence();
    const auto stamp = static_cast<Stamp>(__rdtsc());
    _mm_lfence();
    return stamp;
#else
    // Sequentially consistent: nothing of a call moves past its stamps.
    static std::atomic<Stamp> clock{0};
    return clock.fetch_add(1, std::memory_order_seq_cst);
#endif
  }
};

// What one thread did. Only that thread writes it.
class HistoryLog {
 public:
  explicit HistoryLog(std::size_t expected) { operations_.reserve(expected); }

  // Makes the call between two stamps. `call` returns a QueueResult; a pop sets `value`.
  template <typename Call>
  QueueResult Record(OperationKind kind, std::uint64_t& value, Call&& call) {
    const Stamp invoked = HistoryClock::Now();
    const QueueResult result = call(value);
    operations_.push_back({kind, result, 0, value, invoked, HistoryClock::Now()});
    return result;
  }

  // The same for a bulk call. `call` returns a BulkResult about the first of `values`.
  template <typename Call>
  BulkResult RecordBulk(OperationKind kind, std::vector<std::uint64_t>& values, Call&& call) {
    const Stamp invoked = HistoryClock::Now();
    const BulkResult bulk = call(values);
    const Stamp answered = HistoryClock::Now();
    for (std::uint32_t i = 0; i < bulk.count; ++i) {
      operations_.push_back({kind, QueueResult::kOk, i, values[i], invoked, answered});
    }
    if (bulk.result != QueueResult::kOk) {
      operations_.push_back({kind, bulk.result, 0, 0, invoked, answered});
    }
    return bulk;
  }

  void AppendTo(QueueHistory& history) const {
    history.insert(history.end(), operations_.begin(), operations_.end());
  }

 private:
  QueueHistory operations_;
};

}  // namespace ringfeed::history
