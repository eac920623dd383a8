#include <algorithm>
#include <string>

#include "gpu/feed/feed_core.h"

namespace ringfeed {
namespace {

Error Refuse(const std::string& why) { return Error(Status(StatusCode::kInvalidArgument, why)); }

}  // namespace

void CheckFeedOptions(const FeedOptions& options) {
  if (options.slots < 2 || options.slots > 64) {
    throw Refuse("FeedOptions::slots is " + std::to_string(options.slots) +
                 "; from 2 (one computes while the other is filled) to 64 work");
  }
  const int count = options.backend->DeviceCount();
  for (std::size_t i = 0; i < options.devices.size(); ++i) {
    const int device = options.devices[i];
    if (device < 0 || device >= count) {
      throw Refuse("there is no device " + std::to_string(device) + ": " +
                   std::string(options.backend->name()) + " has " + std::to_string(count) +
                   ", from 0");
    }
    const auto before = options.devices.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(options.devices.begin(), before, device) != before) {
      throw Refuse("device " + std::to_string(device) + " is listed twice");
    }
  }
  if (options.devices.empty()) throw Refuse("there is no device");
}

}  // namespace ringfeed
