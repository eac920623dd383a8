#pragma once

#include <optional>
#include <string>

#include "tools/feed/delivery_check.h"
#include "tools/feed/device_report.h"
#include "tools/feed/feed_plan.h"
#include "tools/feed/feed_run.h"
#include "tools/report.h"

namespace ringfeed::tools {

/// Everything that `ringfeed feed` says at its end.
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
