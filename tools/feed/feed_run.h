#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ringfeed/reader.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "tools/feed/delivery_ledger.h"
#include "tools/feed/feed_plan.h"
#include "tools/feed/feed_trail.h"

namespace ringfeed::tools {

/// The result of a run of a chain.
struct FeedResult {
  HashSums delivered;
  std::uint64_t batches = 0;  ///< or blocks
  double wall_s = 0;
  double cpu_s = 0;  ///< of the whole process, user and system
  double first_batch_s = 0;
  std::uint64_t peak_rss_bytes = 0;  ///< of the process so far
  PipelineStats stats;
  Status status;  ///< why it ended before the end of the data; OK too if it was told to stop
  bool interrupted = false;
  int exit_status = 0;      ///< of an interrupted run, if not that of its report
  std::string position;     ///< after the deliveries; "" if the chain has none
  std::string no_position;  ///< then why
};

/// Reads a chain to its end as training loops would, and drops what comes.
class FeedRun {
 public:
  virtual ~FeedRun() = default;
  FeedRun(const FeedRun&) = delete;
  FeedRun& operator=(const FeedRun&) = delete;

  /// Call once. `progress` is called for every delivery, by one thread at a time; it returns false
  /// to end there. Throws Error for failures of set-up.
  FeedResult Run(const FeedProgress& progress);
  /// Ends Run soon, from any thread.
  virtual void Stop() = 0;
  DeliveryLedger& ledger() { return ledger_; }
  PipelineStats StatsNow() const { return reader_.Stats(); }

 protected:
  /// Throws Error if the chain cannot be built. `plan` outlives this.
  FeedRun(const FeedPlan& plan, bool keep_deliveries);

  /// Delivers everything, and fills in how that ended and when the first batch came.
  virtual void Deliver(const FeedProgress& progress, FeedResult* result) = 0;
  /// Called after the clocks were read.
  virtual void Finish(FeedResult* result) = 0;

  const FeedPlan& plan_;
  Reader reader_;
  DeliveryLedger ledger_;
};

/// One loop, which takes batches, or blocks of records, in host memory.
class HostFeedRun final : public FeedRun {
 public:
  /// Throws Error if the chain cannot be built. `plan` outlives this.
  HostFeedRun(const FeedPlan& plan, bool keep_deliveries) : FeedRun(plan, keep_deliveries) {}
  /// The same from a position, with what `trail` asks for. `plan` has batches if `trail` follows
  /// them.
  HostFeedRun(const FeedPlan& plan, bool keep_deliveries, const TrailOptions& trail);

  void Stop() override { reader_.Close(); }

 private:
  void Deliver(const FeedProgress& progress, FeedResult* result) override;
  void Finish(FeedResult* result) override;
  ReadResult Next();
  /// kEnd if no more are to be delivered.
  ReadResult NextFollowed();
  void TakePosition(FeedResult* result) const;

  std::optional<FeedTrail> trail_;
  bool at_end_ = false;  ///< of the data, with a trail
  Instance batch_;
  RecordBlock block_;
};

}  // namespace ringfeed::tools
