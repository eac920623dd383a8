#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/device_feed.h"
#include "tools/feed/delivery_ledger.h"
#include "tools/feed/device_loop.h"
#include "tools/feed/feed_plan.h"
#include "tools/feed/feed_run.h"
#include "tools/report.h"

namespace ringfeed::tools {

/// The result of one device.
struct DeviceResult {
  DeviceFeedStats stats;
  DeviceLoopTimes times;
  std::optional<double> overlap;  ///< see CopyOverlap
  CopiedBack back;                ///< with --verify or digests
};

/// What `ringfeed feed --devices` reports besides the report of `feed`.
struct DeviceReport {
  std::string kind;    ///< "cuda", "emu"
  std::string reason;  ///< why these devices, of "auto"; else ""
  std::vector<DeviceResult> devices;
  std::uint64_t dropped_rows = 0;                   ///< of the last step
  std::uint64_t repeated_rows = 0;                  ///< in the last step
  std::string pinning;                              ///< "", or why some memory is not registered
  std::optional<std::vector<std::string>> hazards;  ///< offences, of emulated devices
  std::string difference;                           ///< "", or what arrived on a device differently
};

/// The whole report of `ringfeed feed`.
struct FeedReport {
  FeedResult result;
  bool digests =
      false;  ///< order_digest and multiset were computed, and their cost is in the times
  std::string order_digest;
  std::string multiset;
  std::optional<DeliveryCheck> check;
  std::optional<DeviceReport> devices;  ///< with --devices
};

Json FeedReportJson(const FeedPlan& plan, const FeedReport& report);
std::string FeedReportText(const FeedPlan& plan, const FeedReport& report);

}  // namespace ringfeed::tools
