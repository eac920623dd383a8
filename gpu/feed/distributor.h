#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "gpu/feed/batch_supply.h"
#include "gpu/feed/settling_order.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// A batch, or a part of one, for a device.
struct FeedItem {
  Instance batch;
  std::span<const PendingCopy> pending{};  ///< as SuppliedBatch; of a part all of its batch
  std::uint64_t number = 0;                ///< it goes to device number mod devices
  std::uint64_t copies = 1;                ///< so many items in a row are this batch
  std::uint64_t rows = 0;
  std::uint64_t valid_rows = 0;  ///< the others repeat some
  /// Rows of the largest item known to come (its part of a whole batch, say): no fewer than `rows`.
  std::uint64_t most_rows = 0;
  /// Of the batch; if rows of several were spread, of the last batch of the step.
  BatchOrigin origin{};
  /// After this item and those before it, all rows up to its origin are with their devices.
  bool completes = true;
  /// The batch is not settled yet; null: it is, or needs not be.
  std::shared_ptr<SettlingBatch> settling{};
  bool takes_sums = true;  ///< else another device, which has the same rows, takes the sums
  /// It is that one of so many parts of its batch.
  std::size_t part = 0;
  std::size_t parts = 1;

  /// The number that its lease shows.
  std::uint64_t shown() const { return number / copies; }
  /// Lets go of the batch's memory, and keeps what there is to know of it.
  void LetGo() {
    pending = {};
    batch.clear();
    settling.reset();
  }
  /// Makes it its part of `tensors`, which came in place of its batch. So many of the last rows
  /// repeat others.
  void Replace(const Instance& tensors, std::int64_t repeated_rows);
};

/// Which rows go to which device: a function of their order and of the number of devices. For one
/// thread at a time.
class Distributor {
 public:
  /// `replicas`: as FeedOptions::replicas.
  Distributor(BatchSupply* supply, std::size_t devices, Distribution distribution,
              LastStep last_step, std::size_t replicas = 0);

  /// The next item in order of numbers; else as the supply. Blocks as the supply does.
  /// `batches_come_back`: copies of batches are in flight, so a supply that lacks batches will have
  /// some again: kNotYet. The same if all that was given has to be settled first (order()).
  SupplyResult Next(FeedItem* item, Status* status, const std::stop_token& stop,
                    bool batches_come_back = false);
  void Reset();
  /// For good: lets go of the batches it holds.
  void LetGo();
  /// How many items Next gave since Reset plus those it holds; after its end, how many there were.
  std::uint64_t given() const { return next_number_; }
  /// In which the batches that came unsettled are settled.
  SettlingOrder& order() { return order_; }
  const SettlingOrder& order() const { return order_; }

  /// Batches that a feed should be able to hold at a time: those here, those that wait at each
  /// device (or group) for a slot, and one that is copied there, which is held until the host has
  /// seen the copy done. Further copies wait for these if the supply has no more batches.
  static std::size_t HeldBatches(const FeedOptions& options);
  /// Those of them that do not come back until more are read: with fewer a feed comes to a stop.
  static std::size_t NeededBatches(const FeedOptions& options);
  std::uint64_t dropped_rows() const { return dropped_rows_; }
  std::uint64_t repeated_rows() const { return repeated_rows_; }

 private:
  bool collects_steps() const {
    return distribution_ != Distribution::kSplit && last_step_ != LastStep::kUneven;
  }
  /// Rows of all tensors, if rows are moved; else of the first, and others may have other numbers.
  std::int64_t Rows(const Instance& batch) const;
  /// Whether rows are dropped or repeated by the number of a batch's rows.
  bool evens_batches() const {
    return last_step_ == LastStep::kPad ||
           (distribution_ == Distribution::kSplit && last_step_ == LastStep::kDrop);
  }
  /// Whether what was taken cannot be placed before it is known what is left of it, or of the last
  /// step.
  bool MustSettle() const;
  /// Takes sums by the CPU, after all that was given is settled; false if nothing is left. A
  /// failure is the end.
  bool Settle(SuppliedBatch* batch);
  void SettleStep();
  /// Makes items of what was taken, or of the end.
  void Place();
  void Add(SuppliedBatch&& batch);
  /// Whether a batch of which nothing is left would change which device gets a later one, and
  /// nothing is left of this one.
  bool ComesToNothing(const SuppliedBatch& batch) const;
  /// Of the batch that the next items are made of; null if it came settled. `rows`: that came.
  std::shared_ptr<SettlingBatch> Settling(SuppliedBatch* batch, std::size_t items,
                                          std::uint64_t rows);
  /// Drops what is left of a batch after it was settled, or fills it up, if that is less than
  /// `whole` rows. `rows`: that came. Returns by how many it was filled up.
  std::int64_t MakeEven(std::int64_t rows, std::int64_t whole, SettledBatch* settled);
  void LearnRows(const SuppliedBatch& batch);
  void AddStep();
  void AddParts(SuppliedBatch&& batch);
  void EndSteps();
  void PadStep();
  void SpreadStep();
  void Put(SuppliedBatch&& batch, std::uint64_t valid_rows, bool completes = true);
  /// Makes the pending copies, before rows of the batch are moved.
  static void CopyPending(SuppliedBatch* batch);
  /// For an item, as far as is known.
  std::uint64_t MostRows() const;
  /// The batch with its rows repeated until there are `rows`.
  Instance Repeated(const Instance& batch, std::int64_t rows) const;
  void PadTo(std::int64_t rows, SuppliedBatch* batch);

  BatchSupply* const supply_;
  const std::size_t copies_;   ///< of each item
  const std::size_t devices_;  ///< or groups of so many
  const Distribution distribution_;
  const LastStep last_step_;
  SuppliedBatch taken_;
  SupplyResult take_ = SupplyResult::kNotYet;  ///< that brought `taken_`; kNotYet: nothing is there
  bool settles_ = false;                       ///< what was taken is settled before it is placed
  std::vector<SuppliedBatch> step_;            ///< not complete yet
  std::deque<FeedItem> ready_;
  SettlingOrder order_;
  std::uint64_t next_number_ = 0;
  std::int64_t most_rows_ = 0;               ///< since Reset
  std::optional<std::uint64_t> pass_;        ///< of the last batch
  SupplyResult end_ = SupplyResult::kBatch;  ///< what comes after ready_
  Status end_status_;
  std::atomic<std::uint64_t> dropped_rows_{0};
  std::atomic<std::uint64_t> repeated_rows_{0};
};

/// Up to which item a feed's batches were handed out with none missing, however far one device's
/// loop is ahead of another's. Thread safe.
class HandedOut {
 public:
  /// Call once for each number. At most as far ahead of the smallest missing number as slots allow.
  /// Ignores an item of an earlier start.
  void Note(const FeedItem& item, std::uint64_t start);
  /// How often Reset was called.
  std::uint64_t starts() const;
  /// The origin of the last batch that was handed out completely, like all batches before it:
  /// positions are made from it. None if there is no such batch.
  std::optional<BatchOrigin> last() const;
  /// How many items were noted with none missing before them.
  std::uint64_t noted() const;
  void Reset();

 private:
  struct Place {
    BatchOrigin origin;
    bool noted = false;
    bool completes = false;
  };

  mutable std::mutex mutex_;  ///< guards all
  std::deque<Place> ahead_;   ///< from next_ on
  std::uint64_t next_ = 0;    ///< the smallest number that is missing
  std::optional<BatchOrigin> last_;
  std::uint64_t starts_ = 0;
};

}  // namespace ringfeed
