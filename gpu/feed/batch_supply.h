#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/memory/arena.h"
#include "base/pending_copy.h"
#include "gpu/direct/cufile_reads.h"
#include "readers/chain/unsettled_batch.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/reader.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

enum class SupplyResult : std::uint8_t { kBatch, kEnd, kFailed, kNotYet };

/// The same for a read.
SupplyResult SupplyResultOf(ReadResult result);

/// The source of a feed's batches: a reader, or a test that sets the time of each.
class BatchSupply {
 public:
  virtual ~BatchSupply() = default;
  /// The next batch. May block until there is one; then it returns kFailed with kCancelled soon
  /// after `stop` is requested. kNotYet: ask again, at ReadyAt.
  virtual SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) = 0;
  /// When, on the backend's clock, there will be one.
  virtual std::int64_t ReadyAt() const { return std::numeric_limits<std::int64_t>::max(); }
  /// Starts again. Throws Error if it cannot.
  virtual void ReInit() = 0;
  /// Nothing more is taken.
  virtual void Close() {}
  /// What is known of the batches' rows; 0: the batches tell.
  struct Rows {
    /// Of the whole batches before the first one, if the supply goes on in the middle of a pass.
    std::int64_t before = 0;
    std::int64_t most = 0;   ///< of the largest possible batch
    std::int64_t usual = 0;  ///< of each batch of a pass but the last, lost rows counted
  };
  virtual Rows rows() const { return {}; }
  /// The chain that the batches' origins belong to; empty if they have none.
  virtual Reader reader() const { return {}; }
  /// The memory that batches will lie in; null: it shows when they come.
  virtual std::shared_ptr<Arena> arena() const { return nullptr; }
  /// The object that reads the batches' rows into a device's memory; null if there is none.
  virtual std::shared_ptr<CuFileReads> direct() const { return nullptr; }
};

/// Why TransferPlan::kDirect cannot work with the feed's options; empty if it can.
std::string WhyNotDirect(const FeedOptions& options);

/// Batches of a reader, which must be able to hold as many at a time as the feed does. Rows are
/// left in the memory they were read into as FeedOptions::transfer says. `library`: cuFile's, for
/// tests; null: the process's own.
std::unique_ptr<BatchSupply> SupplyOf(Reader reader, const FeedOptions& options,
                                      std::shared_ptr<CuFileLibrary> library = nullptr);

}  // namespace ringfeed
