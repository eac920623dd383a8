#pragma once

#include <limits>
#include <string>
#include <vector>

#include "gpu/owned_handles.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// This machine's maximum for one thing that a feed needs.
struct MachineLimit {
  std::string name;     ///< "read", "checksum", "copy", "link"
  std::string what;     ///< the measurement, in words
  double gb_per_s = 0;  ///< all threads together, by the clock
  Status status{};      ///< why it was not measured
};

/// What to read, and how long each measurement takes.
struct LimitsPlan {
  std::vector<std::string> files;
  bool cold = false;                   ///< they are dropped from the page cache before
  bool reads = true;                   ///< false: they are mapped
  bool checks = true;                  ///< their format has checksums
  bool copies = true;                  ///< into batches
  std::vector<OwnedDevice> devices{};  ///< whose link is measured, all at once
  int threads = 1;                     ///< side by side; cold files have more reads under way
  double seconds = 0.3;
};

/// Reads the files by plain calls; computes CRC-32C of memory; copies memory past the caches, and
/// pinned memory to devices: those that the plan asks for. Each is a plain loop for each thread or
/// device, without any part of the engine.
std::vector<MachineLimit> MeasureLimits(const LimitsPlan& plan);

/// Reads the files by plain calls, in blocks of 1 MiB of all files in turn: cold ones once to their
/// end, 16 blocks at a time, by O_DIRECT if the file system has it; others again and again.
MachineLimit ReadLimit(const std::vector<std::string>& files, bool cold, int threads,
                       double seconds = std::numeric_limits<double>::infinity());

}  // namespace ringfeed::tools
