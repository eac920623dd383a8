#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/machine_limits.h"
#include "tools/report.h"
#include "tools/tune/tune_search.h"

namespace ringfeed::tools {

/// All that `ringfeed tune` found.
struct TuneReport {
  std::string machine;
  std::string format;
  std::string command;  ///< of the feed, without speed: "ringfeed feed a.tfrecord --batch 64"
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;         ///< of all files
  std::uint64_t sample_bytes = 0;  ///< of the files that were read
  bool cold = false;
  std::string devices;           ///< their kind (DeviceKindOf); "" for none
  std::size_t device_count = 0;  ///< so many
  double seconds = 0;            ///< time taken
  TuneResult result;
  std::vector<MachineLimit> limits;
  std::string written;  ///< the tuning's file; "" if none was written

  /// Whether the devices are emulated: their speed is a model's.
  bool emulated() const { return devices == "emu"; }
};

/// The meaning of the figures, a sentence each: the gain, the distance from the machine's limits,
/// the present bottleneck and what would change that.
std::vector<std::string> Findings(const TuneReport& report);

/// GB/s of this machine by the measured limits, 0 without one: of plain loops that do one after the
/// other; a disk and a device's link work beside them.
double MachineRate(const TuneReport& report);

std::string TuneText(const TuneReport& report);
Json TuneJson(const TuneReport& report);

/// tune_page.html, which draws the JSON that stands for its @REPORT@.
std::string_view TunePageTemplate();
/// A page of HTML for a browser or a printer, with everything that it needs in it.
std::string TunePage(const TuneReport& report);

}  // namespace ringfeed::tools
