#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/feed/feed_core.h"
#include "ringfeed/devices/timeline.h"
#include "tools/devices/device_options.h"
#include "tools/feed/device_deliveries.h"
#include "tools/feed/device_loop.h"
#include "tools/feed/feed_report.h"
#include "tools/feed/feed_run.h"

namespace ringfeed::tools {

/// Feeds devices from a chain to its end: a training loop on each, with a thread of its own.
class DeviceFeedRun final : public FeedRun {
 public:
  /// With `verify`, every tensor is copied back and compared with what was read. `plan` has
  /// batches; it and `options` outlive this. Throws Error if the chain cannot be
  /// built, or there are no such devices.
  DeviceFeedRun(const FeedPlan& plan, const DeviceOptions& options, bool verify);
  ~DeviceFeedRun() override;

  /// After the devices' present steps.
  void Stop() override;

  /// After Run.
  const DeviceReport& device_report() const { return report_; }
  const Timeline& timeline() const { return *timeline_; }
  TimelineOrigin timeline_origin() const;

 private:
  void Deliver(const FeedProgress& progress, FeedResult* result) override;
  void Finish(FeedResult* result) override;
  /// False if it was stopped before.
  bool StartFeed();
  FeedOptions FeedOptionsOf() const;
  void MakeLoops(const DeviceLoop::Deliver& deliver);
  /// The first failure that another loop's end did not cause; OK if all came to the end.
  Status RunLoops(const FeedProgress& progress);
  void ReportDevices();
  double FirstBatchSeconds(std::int64_t start_ns) const;

  const DeviceOptions& options_;
  const bool verify_;
  const ChosenDevices chosen_;
  DeviceDeliveries deliveries_;
  const std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>();
  std::mutex mutex_;  ///< guards the next two while the feed starts
  bool stopped_ = false;
  std::shared_ptr<FeedCore> feed_;
  std::vector<std::unique_ptr<DeviceLoop>> loops_;
  DeviceReport report_;
  std::int64_t realtime_offset_ns_ = 0;
};

}  // namespace ringfeed::tools
