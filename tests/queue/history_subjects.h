#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringfeed/queue/blocking_queue.h"
#include "ringfeed/queue/channel.h"
#include "ringfeed/queue/mpmc_ring.h"
#include "tests/queue/history_checker.h"
#include "tests/queue/numbered_instance.h"

namespace ringfeed::history {

// The queues whose histories are recorded, each with the calls that a history knows.

class RingSubject {
 public:
  static constexpr bool kHasTryForms = true;
  static constexpr bool kHasBulkForms = true;
  static constexpr bool kFailsWhenCancelled = false;

  explicit RingSubject(std::size_t capacity) : capacity_(capacity), ring_(capacity) {}

  std::size_t capacity() const { return capacity_; }
  QueueResult TryPush(std::uint64_t value) { return ring_.TryPush(std::uint64_t{value}); }
  QueueResult PushUntil(std::uint64_t value, Deadline deadline) {
    return ring_.PushUntil(std::uint64_t{value}, deadline);
  }
  QueueResult TryPop(std::uint64_t& value) { return ring_.TryPop(value); }
  QueueResult PopUntil(std::uint64_t& value, Deadline deadline) {
    return ring_.PopUntil(value, deadline);
  }
  BulkResult PushBulk(std::span<std::uint64_t> values, Deadline deadline) {
    return ring_.PushBulk(values, deadline);
  }
  BulkResult TryPushBulk(std::span<std::uint64_t> values) { return ring_.TryPushBulk(values); }
  BulkResult TryPopBulk(std::span<std::uint64_t> values) { return ring_.TryPopBulk(values); }
  void Close() { ring_.Close(); }
  void Cancel() { ring_.Cancel(); }

 private:
  const std::size_t capacity_;
  MpmcRing<std::uint64_t> ring_;
};

class ChannelSubject {
 public:
  static constexpr bool kHasTryForms = true;
  static constexpr bool kHasBulkForms = false;
  static constexpr bool kFailsWhenCancelled = true;

  explicit ChannelSubject(std::size_t capacity) : capacity_(capacity), channel_(capacity) {}

  std::size_t capacity() const { return capacity_; }
  QueueResult TryPush(std::uint64_t value) { return channel_.TryPush(std::uint64_t{value}); }
  QueueResult PushUntil(std::uint64_t value, Deadline deadline) {
    return channel_.PushUntil(std::uint64_t{value}, deadline);
  }
  QueueResult TryPop(std::uint64_t& value) { return channel_.TryPop(value); }
  QueueResult PopUntil(std::uint64_t& value, Deadline deadline) {
    return channel_.PopUntil(value, deadline);
  }
  void Close() { channel_.Close(); }
  void Cancel() { channel_.Kill(Status(StatusCode::kUserError, "ended by the test")); }

 private:
  const std::size_t capacity_;
  Channel<std::uint64_t> channel_;
};

class BlockingQueueSubject {
 public:
  static constexpr bool kHasTryForms = false;
  static constexpr bool kHasBulkForms = false;
  static constexpr bool kFailsWhenCancelled = true;

  explicit BlockingQueueSubject(std::size_t capacity)
      : capacity_(capacity), queue_(capacity, NumberSlots()) {}

  std::size_t capacity() const { return capacity_; }
  QueueResult PushUntil(std::uint64_t value, Deadline deadline) {
    return queue_.PushUntil(Numbered(static_cast<std::int64_t>(value)), deadline);
  }
  QueueResult PopUntil(std::uint64_t& value, Deadline deadline) {
    Instance instance;
    const QueueResult result = queue_.PopUntil(&instance, deadline);
    if (result == QueueResult::kOk) value = static_cast<std::uint64_t>(NumberOf(instance));
    return result;
  }
  void Close() { queue_.Close(); }
  void Cancel() { queue_.Kill(Status(StatusCode::kUserError, "ended by the test")); }

 private:
  const std::size_t capacity_;
  LoDTensorBlockingQueue queue_;
};

}  // namespace ringfeed::history
