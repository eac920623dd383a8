#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "ringfeed/detail/index_ring.h"
#include "ringfeed/detail/paced_wait.h"
#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/event_count.h"
#include "ringfeed/queue/queue_result.h"
#include "ringfeed/queue/ring_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A bounded queue between any number of producers and consumers, lock-free in the strict sense.
/// First in, first out. Linearizable, closing included: every call takes effect at one moment while
/// it runs. A push is accepted if and only if that moment comes before Close, and all that was
/// accepted is popped before kClosed. kEmpty was true at that moment. kFull says less: each cell
/// holds an item, or is in the hands of another thread's push or pop. A bulk call takes effect item
/// by item, and Cancel in two steps: first no more pops, then no more pushes.
///
/// Items stand in an array. Two rings of numbers say which of its cells are free and which are
/// filled, in which order. A push takes a free cell, moves the item there and puts the cell into
/// the ring of filled ones; a pop goes the other way. A push is accepted when its cell is in the
/// ring of filled ones, so a thread that is stopped before has no place in the order yet.
///
/// T is nothrow move-constructible, of any size, need not be copyable or default-constructible. A
/// push that does not return kOk leaves its argument as it was: one that meets Close on its way
/// moves the item into the cell and back. Out may be T, or anything that a T&& can be assigned to
/// without throwing, such as std::optional<T>.
///
/// Progress: try forms never block and make no system call but a wake-up. If a thread is stopped or
/// killed at any point, the others go on. It keeps at most one cell from them, so in a ring of
/// capacity 1 a thread that is stopped inside has an effect. Blocking forms poll for spin_ns, then
/// sleep on a futex; they end by item, close, cancel, deadline or stop token. A thread that is
/// stopped between choosing a sleeper and waking it delays only that sleeper.
/// Thread safety: every method may be called by any thread at any time; fewer than
/// Policy::kMostTakers at once.
/// A child of fork has a copy as it stood, and none of the threads: there a blocking form waits for
/// what threads of the child put in or take, and a cell that a thread of the parent had in hand is
/// lost. Make it after the fork.
/// Lifetime: must outlive every call; destroys the items that are left. Allocates in the
/// constructor only: 32 bytes per item beside the item, up to 64 for no power of two.
///
/// Names: TryX never blocks; X blocks, with an optional stop token; XUntil has a deadline too.
template <typename T, typename Policy = NativeQueuePolicy>
class MpmcRing {
  static_assert(std::is_nothrow_move_constructible_v<T>,
                "an item is moved while its cell is in nobody's ring, where nothing may throw");
  static_assert(std::is_nothrow_destructible_v<T>);

 public:
  using StopToken = typename Policy::StopToken;

  /// Capacity from 1. Throws Error(kInvalidArgument) for 0 and std::bad_alloc.
  explicit MpmcRing(std::size_t capacity, const BasicRingOptions<Policy>& options = {})
      : capacity_(Checked(capacity)),
        spin_ns_(options.spin_ns < 0 ? Policy::DefaultSpin() : options.spin_ns),
        not_empty_watcher_(options.not_empty_watcher),
        not_full_watcher_(options.not_full_watcher),
        cells_(std::make_unique<Cell[]>(capacity)),
        free_(capacity),
        filled_(capacity),
        paced_(options.NapItems(capacity)) {
    for (std::size_t i = 0; i < capacity; ++i) (void)free_.Put(i);
  }
  ~MpmcRing() {
    filled_.ForEachLeft([this](std::uint64_t index) { std::destroy_at(&ItemIn(index)); });
  }
  MpmcRing(const MpmcRing&) = delete;
  MpmcRing& operator=(const MpmcRing&) = delete;

  /// kOk, kFull, kClosed. Never blocks.
  QueueResult TryPush(T&& item) noexcept {
    std::size_t count = 0;
    return PushSome(std::span(&item, 1), count);
  }

  /// Waits for a free cell. kOk, kClosed, kStopped.
  QueueResult Push(T&& item, const StopToken& stop = {}) {
    return PushUntil(std::move(item), kNoDeadline, stop);
  }

  /// Waits for a free cell until the deadline. kOk, kClosed, kTimeout, kStopped.
  QueueResult PushUntil(T&& item, Deadline deadline, const StopToken& stop = {}) {
    return PushBulk(std::span(&item, 1), deadline, stop).result;
  }

  /// Pushes a leading part of `items`, in order; items of other producers may come between them.
  /// Count 0 comes with kFull or kClosed; the items beyond `count` are as they were. Never blocks.
  BulkResult TryPushBulk(std::span<T> items) noexcept {
    BulkResult bulk;
    const QueueResult result = PushSome(items, bulk.count);
    if (bulk.count == 0) bulk.result = result;
    return bulk;
  }

  /// Pushes all of `items` in order, waiting for cells; items of other producers may come between
  /// them. Not kOk: the first `count` went in.
  BulkResult PushBulk(std::span<T> items, Deadline deadline = kNoDeadline,
                      const StopToken& stop = {}) {
    BulkResult bulk;
    bulk.result = PushSome(items, bulk.count);
    if (bulk.result == QueueResult::kOk || bulk.result == QueueResult::kClosed) return bulk;
    bulk.result = not_full_.Await(spin_ns_, {deadline, &stop}, [&](LookMode mode) {
      if (mode == LookMode::kSpin && free_.Look() != QueueResult::kOk) return QueueResult::kFull;
      return PushSome(items, bulk.count);
    });
    return bulk;
  }

  /// Takes an item if one is there. kOk, kEmpty, kClosed. Never blocks.
  template <typename Out>
  QueueResult TryPop(Out& out) noexcept {
    return PopOne(out);
  }

  /// Waits for an item; none after Cancel, and after Close once all were taken: for a
  /// loop `while (auto item = ring.Pop())`.
  std::optional<T> Pop() {
    std::optional<T> item;
    (void)Pop(item);
    return item;
  }
  /// Waits for an item. kOk, kClosed, kStopped.
  template <typename Out>
  QueueResult Pop(Out& out, const StopToken& stop = {}) {
    return PopUntil(out, kNoDeadline, stop);
  }

  /// Waits for an item until the deadline. kOk, kClosed, kTimeout, kStopped. An available item is
  /// taken even after the deadline.
  template <typename Out>
  QueueResult PopUntil(Out& out, Deadline deadline, const StopToken& stop = {}) {
    const QueueResult result = PopOne(out);
    if (result == QueueResult::kOk || result == QueueResult::kClosed) return result;
    return AwaitItems({deadline, &stop}, [&] { return PopOne(out); });
  }

  /// Takes up to out.size() items; order is kept, other consumers may take some between them.
  /// Count 0 comes with kEmpty or kClosed. Never blocks.
  BulkResult TryPopBulk(std::span<T> out) noexcept {
    BulkResult bulk;
    bulk.result = PopSome(out, out.empty() ? 0 : 1, bulk.count);
    return bulk;
  }

  /// Takes the available items, at most out.size(), and waits while they are fewer than `min`. kOk:
  /// at least `min`. kClosed, kTimeout, kStopped: fewer, `count` of them are in `out`.
  BulkResult PopBulk(std::span<T> out, std::size_t min, Deadline deadline = kNoDeadline,
                     const StopToken& stop = {}) {
    BulkResult bulk;
    min = std::min(min, out.size());
    bulk.result = PopSome(out, min, bulk.count);
    if (bulk.result == QueueResult::kOk || bulk.result == QueueResult::kClosed) return bulk;
    bulk.result = AwaitItems({deadline, &stop}, [&] { return PopSome(out, min, bulk.count); });
    return bulk;
  }

  /// No more pushes; accepted items can still be popped. Idempotent, never blocks. What the caller
  /// did before is visible to a thread that then gets kClosed.
  void Close() noexcept {
    filled_.Close();
    not_empty_.NotifyAll();
    if (not_empty_watcher_ != nullptr) not_empty_watcher_->NotifyAll();
    not_full_.NotifyAll();
    if (not_full_watcher_ != nullptr) not_full_watcher_->NotifyAll();
  }

  /// Close, and no more pops either: the items left are destroyed with the ring. Idempotent, never
  /// blocks.
  void Cancel() noexcept {
    filled_.Cancel();
    Close();
  }

  /// Whether Close or Cancel was called. True is final.
  bool IsClosed() const noexcept { return filled_.IsClosed(); }
  bool IsCancelled() const noexcept { return filled_.IsCancelled(); }

  /// Whether no pop can succeed any more. True is final.
  bool IsDrained() const noexcept { return filled_.IsDrained(); }

  /// Items that are in and not taken: exact if no other thread uses the ring or was stopped inside;
  /// else a snapshot that may never have been true, between 0 and Capacity().
  std::size_t SizeApprox() const noexcept { return std::min(filled_.SizeApprox(), capacity_); }

  std::size_t Capacity() const noexcept { return capacity_; }
  RingStats Stats() const noexcept { return {not_full_.Stats(), not_empty_.Stats()}; }

 private:
  struct Cell {
    alignas(T) std::byte storage[sizeof(T)];
  };

  static std::size_t Checked(std::size_t capacity) {
    if (capacity == 0) throw Error(Status(StatusCode::kInvalidArgument, "ring: capacity is 0"));
    return capacity;
  }

  T& ItemIn(std::uint64_t index) noexcept {
    return *std::launder(reinterpret_cast<T*>(cells_[index].storage));
  }

  // kOk when all went in, else why the next one did not.
  QueueResult PushSome(std::span<T> items, std::size_t& count) noexcept {
    const std::size_t before = count;
    QueueResult result = QueueResult::kOk;
    while (count < items.size() && result == QueueResult::kOk) {
      result = PushOne(items[count]);
      if (result == QueueResult::kOk) ++count;
    }
    if (count != before) ItemsArrived(static_cast<std::uint32_t>(count - before));
    return result;
  }

  QueueResult PushOne(T& item) noexcept {
    if (filled_.IsClosed()) return QueueResult::kClosed;
    const auto cell = free_.Take();
    if (cell.result != QueueResult::kOk) return QueueResult::kFull;
    ::new (static_cast<void*>(cells_[cell.index].storage)) T(std::move(item));
    if (filled_.Put(cell.index)) return QueueResult::kOk;
    std::destroy_at(&item);
    std::construct_at(&item, std::move(ItemIn(cell.index)));
    std::destroy_at(&ItemIn(cell.index));
    (void)free_.Put(cell.index);
    return QueueResult::kClosed;
  }

  template <typename PopItems>
  QueueResult AwaitItems(const WaitLimit<Policy>& limit, PopItems&& pop) {
    return paced_.Await(
        &not_empty_, spin_ns_, limit, [&](LookMode) { return pop(); },
        [this] { return SizeApprox(); });
  }

  template <typename Out>
  QueueResult PopOne(Out& out) noexcept {
    const QueueResult result = TakeOne(out);
    if (result == QueueResult::kOk) RoomMade(1);
    return result;
  }

  template <typename Out>
  QueueResult TakeOne(Out& out) noexcept {
    static_assert(std::is_nothrow_assignable_v<Out&, T&&>);
    const auto cell = filled_.Take();
    if (cell.result != QueueResult::kOk) return cell.result;
    out = std::move(ItemIn(cell.index));
    std::destroy_at(&ItemIn(cell.index));
    (void)free_.Put(cell.index);
    return QueueResult::kOk;
  }

  // kOk when `count` has reached `min`; else why not.
  QueueResult PopSome(std::span<T> out, std::size_t min, std::size_t& count) noexcept {
    const std::size_t before = count;
    QueueResult result = QueueResult::kOk;
    while (count < out.size() && result == QueueResult::kOk) {
      result = TakeOne(out[count]);
      if (result == QueueResult::kOk) ++count;
    }
    if (count != before) RoomMade(static_cast<std::uint32_t>(count - before));
    if (count >= min && (count > 0 || result != QueueResult::kClosed)) return QueueResult::kOk;
    return result;
  }

  // Both follow a sequentially consistent write of what the waiter looks at. No thread has to pass
  // a wake on: a thread that was woken for an item finds it or finds that another took it, because
  // no unfinished push stands before it.
  void ItemsArrived(std::uint32_t count) noexcept {
    not_empty_.NotifyAfterSeqCst(count);
    if (not_empty_watcher_ != nullptr) [[unlikely]] {
      not_empty_watcher_->NotifyAll();
    }
  }
  void RoomMade(std::uint32_t count) noexcept {
    not_full_.NotifyAfterSeqCst(count);
    if (not_full_watcher_ != nullptr) [[unlikely]] {
      not_full_watcher_->NotifyAll();
    }
  }

  const std::size_t capacity_;
  const std::int64_t spin_ns_;
  BasicEventCount<Policy>* const not_empty_watcher_;
  BasicEventCount<Policy>* const not_full_watcher_;
  const std::unique_ptr<Cell[]> cells_;
  IndexRing<Policy> free_;
  IndexRing<Policy> filled_;
  BasicEventCount<Policy> not_empty_;
  BasicEventCount<Policy> not_full_;
  PacedWait<Policy> paced_;
};

}  // namespace ringfeed
