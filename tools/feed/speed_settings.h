#pragma once

#include <cstddef>
#include <string>

#include "ringfeed/io_options.h"
#include "ringfeed/tuning.h"
#include "tools/devices/device_options.h"
#include "tools/feed/feed_plan.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// The options of a feed that set its speed, never the data or their order. By default they are the
/// defaults.
struct SpeedSettings {
  IoPath path = IoOptions().path;
  bool direct = IoOptions().direct;
  int threads = 0;
  std::size_t block_bytes = IoOptions().block_bytes;
  std::size_t in_flight_bytes = IoOptions().in_flight_bytes;
  std::size_t slots = 0;
  std::size_t device_slots = DeviceOptions().slots;
  TransferPlan transfer = DeviceOptions().transfer;

  /// Calls visit(name of the option, member) for each of them.
  template <typename Visit>
  static void ForEach(const Visit& visit) {
    visit("io", &SpeedSettings::path);
    visit("direct", &SpeedSettings::direct);
    visit("threads", &SpeedSettings::threads);
    visit("block-bytes", &SpeedSettings::block_bytes);
    visit("in-flight-bytes", &SpeedSettings::in_flight_bytes);
    visit("slots", &SpeedSettings::slots);
    visit("device-slots", &SpeedSettings::device_slots);
    visit("transfer", &SpeedSettings::transfer);
  }
  /// As options of `feed`, those that are not the defaults; "" for none.
  std::string Options() const;
  void ApplyTo(FeedPlan* plan, DeviceOptions* devices) const;
  /// Converts from and to a tuning; machine and format are the caller's.
  static SpeedSettings Of(const Tuning& tuning);
  Tuning ToTuning() const;
  bool operator==(const SpeedSettings&) const = default;
};

/// Adds --tuned, before the options that override a tuning.
void AddTunedOption(CLI::App* app, FeedPlan* plan, DeviceOptions* devices);

}  // namespace ringfeed::tools
