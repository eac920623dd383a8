#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "gpu/feed/lane_sleep.h"
#include "readers/chain/unsettled_batch.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A batch that came unsettled, until it is known what becomes of it. The items that are made of it
/// share it. Thread safe.
class SettlingBatch {
 public:
  /// Makes even what is left of a batch: drops it, or fills it up by rows that it returns the
  /// number of. Called while the batch is settled, unless nothing of it is left.
  using MakeEven = std::function<std::int64_t(SettledBatch*)>;

  /// Of `items` items, from `number` on.
  SettlingBatch(std::shared_ptr<UnsettledBatch> unsettled, std::uint64_t number, std::size_t items,
                MakeEven make_even = {});

  /// Valid until it is settled.
  std::span<const PendingSum> sums() const { return unsettled_->sums(); }
  bool is_settled() const {
    // Order: partner of the store in SettlingOrder::SettleReady, for what stands here.
    return is_settled_.load(std::memory_order_acquire);
  }
  /// Once it is settled.
  const SettledBatch& settled() const { return settled_; }
  /// The same: how many of its last rows repeat others.
  std::int64_t repeated_rows() const { return repeated_rows_; }
  /// The same: how many items in front of it came to nothing.
  std::uint64_t nothing_before() const { return nothing_before_; }

 private:
  friend class SettlingOrder;

  /// Numbers of the sums that do not match.
  std::vector<std::uint32_t> BadSums() const;

  const std::shared_ptr<UnsettledBatch> unsettled_;
  const std::uint64_t number_;
  const std::size_t items_;
  const MakeEven make_even_;
  // The order's mutex guards these until it is settled.
  std::size_t to_see_;                  ///< items whose copies were not seen done
  Status lost_;                         ///< of a device that failed with an item of it
  std::vector<std::uint32_t> missing_;  ///< the part of each stored sum that no device took yet
  bool by_cpu_ = false;                 ///< a device did not take its part
  SettledBatch settled_;
  std::int64_t repeated_rows_ = 0;
  std::uint64_t nothing_before_ = 0;
  std::atomic<bool> is_settled_{false};
};

/// Settles a feed's batches in the order that they were read in, whichever devices take their sums.
/// A lane that sees the last item of a batch settles it, and all after it that waited for it alone.
/// Then it wakes the lanes of their items. A batch without sums waits for the batches before it,
/// and for no device. Thread safe.
class SettlingOrder {
 public:
  /// The number of the next lane, which `sleep` is of: item number k goes to lane k mod lanes.
  /// Before any batch.
  std::size_t AddLane(LaneSleep* sleep) {
    lanes_.push_back(sleep);
    return lanes_.size() - 1;
  }

  // The giving thread.

  /// A batch was read, and so many items are made of it: none if it is dropped in any case. May
  /// settle batches.
  std::shared_ptr<SettlingBatch> Add(std::shared_ptr<UnsettledBatch> unsettled,
                                     std::uint64_t number, std::size_t items,
                                     SettlingBatch::MakeEven make_even = {});
  /// Waits until all that was added is settled; false if `stop` was requested before.
  bool AwaitEmpty(const std::stop_token& stop);
  /// Settles a batch that is added to no order, by the CPU. With is_empty().
  static SettledBatch SettleByCpu(std::shared_ptr<UnsettledBatch> unsettled);
  /// No more are added.
  void End();

  // Feeding threads.

  /// An item's copy was seen done. `taken`: the device's share of each of the batch's sums, one u32
  /// after the other; null if it took none.
  void NoteSeen(SettlingBatch* batch, const std::byte* taken);
  /// The same; the device took no sum of it.
  void NoteSeenByCpu(SettlingBatch* batch);
  /// That lane's device failed. What it has not seen of items from number `from` on, and all after
  /// that, comes to nothing.
  void Lose(std::size_t lane, std::uint64_t from, const Status& status);

  // Any thread.

  /// Whether all that was added is settled.
  bool is_empty() const {
    // Order: partner of the store in SettleReady: what a failure wrote is seen.
    return unsettled_.load(std::memory_order_acquire) == 0;
  }
  /// Whether nothing comes after the batches that are settled, because one of them failed.
  bool has_failed() const {
    // Order: partner of the store in SettleReady, for failure().
    return has_failed_.load(std::memory_order_acquire);
  }
  Status failure() const;
  /// The lanes of the first batch that is not settled; none if there is no such batch.
  std::vector<std::size_t> LanesOfFirst() const;
  /// Items since Reset that came to nothing: they are not handed out.
  std::uint64_t came_to_nothing() const { return nothing_.load(std::memory_order_relaxed); }

  // Call these while no thread feeds or gives.

  /// Drops what is not settled: it counts as not read.
  void LetGo();
  /// As new.
  void Reset();

 private:
  std::size_t LaneOf(const SettlingBatch& batch, std::size_t item) const {
    return (batch.number_ + item) % lanes_.size();
  }
  void Seen(SettlingBatch* batch);
  void SettleReady();
  void Settle(SettlingBatch* batch);

  std::vector<LaneSleep*> lanes_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable_any emptied_;
  std::deque<std::shared_ptr<SettlingBatch>> batches_;
  bool ended_ = false;
  Status failure_;
  std::atomic<std::size_t> unsettled_{0};
  std::atomic<bool> has_failed_{false};
  std::atomic<std::uint64_t> nothing_{0};
};

}  // namespace ringfeed
