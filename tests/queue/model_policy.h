#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/event_count.h"
#include "tests/queue/schedule_explorer.h"

namespace ringfeed::checker {

// A stop source whose flag the explorer sees.
class ModelStopSource {
 public:
  void RequestStop() {
    requested_.fetch_or(1, std::memory_order_acq_rel);
    const auto callbacks = callbacks_;
    for (const auto& [self, call] : callbacks) call(self);
  }

 private:
  friend class ModelStopToken;
  template <typename Callback>
  friend class ModelStopCallback;

  ModelAtomic<std::uint64_t> requested_{0};  // bit 0: requested; above: callbacks
  std::vector<std::pair<void*, void (*)(void*)>> callbacks_;
};

class ModelStopToken {
 public:
  ModelStopToken() = default;
  explicit ModelStopToken(ModelStopSource& source) : source_(&source) {}
  bool stop_possible() const { return source_ != nullptr; }
  bool stop_requested() const {
    return source_ != nullptr && (source_->requested_.load(std::memory_order_acquire) & 1) != 0;
  }

 private:
  template <typename Callback>
  friend class ModelStopCallback;
  ModelStopSource* source_ = nullptr;
};

template <typename Callback>
class ModelStopCallback {
 public:
  ModelStopCallback(const ModelStopToken& token, Callback callback)
      : source_(*token.source_), callback_(std::move(callback)) {
    // The real one takes a lock, which a read-modify-write stands for.
    if ((source_.requested_.fetch_add(2, std::memory_order_acq_rel) & 1) != 0) {
      callback_();
    } else {
      source_.callbacks_.emplace_back(
          this, [](void* self) { static_cast<ModelStopCallback*>(self)->callback_(); });
    }
  }
  ~ModelStopCallback() {
    source_.requested_.fetch_add(~std::uint64_t{1}, std::memory_order_acq_rel);
    std::erase_if(source_.callbacks_, [this](const auto& entry) { return entry.first == this; });
  }
  ModelStopCallback(const ModelStopCallback&) = delete;
  ModelStopCallback& operator=(const ModelStopCallback&) = delete;

 private:
  ModelStopSource& source_;
  Callback callback_;
};

// The policy that puts the shipped rings into the explorer, with orders to weaken.
template <typename ModelOrders = QueueOrders>
struct ModelPolicy {
  template <typename U>
  using Atomic = ModelAtomic<U>;
  struct Counter {};
  using Orders = ModelOrders;
  using StopToken = ModelStopToken;
  template <typename Callback>
  using StopCallback = ModelStopCallback<Callback>;

  static constexpr std::size_t kCellAlign = 1;
  static constexpr std::size_t kRooms = 1;
  static constexpr std::int64_t kMostTakers = kMaxThreads;

  static void Count(Counter&, std::uint64_t) {}
  static std::uint64_t Read(const Counter&) { return 0; }
  static Deadline Now() { return Deadline{}; }
  static bool Expired(Deadline deadline) {
    return deadline != kNoDeadline && Explorer::Get().Choose(2, "clock") == 1;
  }
  static void Pause() {}
  static std::int64_t DefaultSpin() { return 0; }
  static FutexResult FutexWait(const Atomic<std::uint64_t>& word, std::uint32_t epoch,
                               Deadline deadline) {
    const bool woken = Explorer::Get().FutexWait(word.location(), epoch, deadline != kNoDeadline);
    return woken ? FutexResult::kWoken : FutexResult::kTimedOut;
  }
  static void SleepUntil(Deadline) {}  // time does not pass
  static void FutexWake(const Atomic<std::uint64_t>& word, int count) {
    Explorer::Get().FutexWake(word.location(), count);
  }
};

// A lock. It counts how often it was taken, and whoever takes it observes that. So what plain
// variables it guards are the same in states that the explorer holds for the same.
class ModelMutex {
 public:
  void lock() {
    while (true) {
      const std::uint64_t word = Explorer::Get().ReadModifyWrite(
          word_.location(), std::memory_order_acquire,
          [](std::uint64_t old) { return IsLocked(old) ? old : old + kOneChange; });
      if (!IsLocked(word)) return;
      (void)Explorer::Get().FutexWait(word_.location(), static_cast<std::uint32_t>(word >> 32),
                                      false);
    }
  }
  void unlock() {
    (void)Explorer::Get().ReadModifyWrite(word_.location(), std::memory_order_release,
                                          [](std::uint64_t old) { return old + kOneChange; });
    Explorer::Get().FutexWake(word_.location(), kWakeEveryone);
  }

 private:
  static constexpr std::uint64_t kOneChange = std::uint64_t{1} << 32;
  static bool IsLocked(std::uint64_t word) { return (word / kOneChange & 1) != 0; }

  ModelAtomic<std::uint64_t> word_{0};  // changes, in the half that a futex compares
};

// An item whose every move into, out of and inside a slot is checked for data races.
class TrackedItem {
 public:
  TrackedItem() = default;
  explicit TrackedItem(int value) : value_(value) {}
  TrackedItem(TrackedItem&& other) noexcept : value_(other.value_) {
    Touch(&other, 0, false);
    Touch(this, static_cast<std::uint64_t>(value_), true);
  }
  TrackedItem& operator=(TrackedItem&& other) noexcept {
    value_ = other.value_;
    Touch(&other, 0, false);
    return *this;
  }
  ~TrackedItem() { Touch(this, 0, false); }

  int value() const { return value_; }

 private:
  static void Touch(const void* address, std::uint64_t value, bool enter) {
    const int location = Explorer::Get().PlainAt(address, enter);
    if (location >= 0) Explorer::Get().TouchPlain(location, value);
  }

  int value_ = -1;
};

}  // namespace ringfeed::checker
