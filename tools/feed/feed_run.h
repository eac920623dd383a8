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
  std::string position;     ///< after the deliveries; "" if the chain has none
  std::string no_position;  ///< then why
};

/// The clocks of a run, from construction on.
class FeedClock {
 public:
  FeedClock();
  double Seconds() const;
  /// Fills in the result of a run that ended with result->status.
  void Finish(const FeedPlan& plan, const Reader& reader, const DeliveryLedger& ledger,
              FeedResult* result) const;

 private:
  const double start_s_;
  const double cpu_start_s_;
};

/// Reads a chain to its end as a training loop would, and drops what comes.
class FeedRun {
 public:
  /// Throws Error if the chain cannot be built. `plan` outlives this.
  FeedRun(const FeedPlan& plan, bool keep_deliveries);
  /// The same from a position, with what `trail` asks for. `plan` has batches if `trail` follows
  /// them.
  FeedRun(const FeedPlan& plan, bool keep_deliveries, const TrailOptions& trail);

  /// Call once. `progress` is called for every delivery; it returns false to end there. Throws
  /// Error for failures of set-up.
  FeedResult Run(const std::function<bool(const HashSums& so_far)>& progress);
  /// Ends Run soon, from any thread.
  void Stop();
  DeliveryLedger& ledger() { return ledger_; }
  PipelineStats StatsNow() const { return reader_.Stats(); }

 private:
  ReadResult Deliver();
  /// kEnd if no more are to be delivered.
  ReadResult DeliverFollowed();
  void TakePosition(FeedResult* result) const;

  const FeedPlan& plan_;
  Reader reader_;
  std::optional<FeedTrail> trail_;
  bool at_end_ = false;  ///< of the data, with a trail
  DeliveryLedger ledger_;
  Instance batch_;
  RecordBlock block_;
};

}  // namespace ringfeed::tools
