#pragma once

#include <cstddef>
#include <string>

#include "ringfeed/io_options.h"

namespace ringfeed {

/// The settings that `ringfeed tune` found to be fast for some files on some machine. Speed alone:
/// they never change what is delivered, or in which order.
struct Tuning {
  std::string machine;           ///< the machine: its processor and the number of usable CPUs
  std::string format;            ///< of the files: "tfrecord"
  int threads = 0;               ///< OpenOptions::threads
  IoOptions io{};                ///< OpenOptions::io, but for `retries`
  std::size_t slots = 0;         ///< BatchOptions::slots; 0: as without it
  std::size_t device_slots = 0;  ///< FeedOptions::slots; 0: no devices were tuned for
  /// FeedOptions::transfer by its name (TransferPlanNamed); "": no devices were tuned for.
  std::string transfer{};
  /// The kind of devices that were tuned for, as DeviceKindOf says it: "emu", "cuda: NVIDIA H200".
  /// "": none were, or the file is of a version that did not say.
  std::string devices{};
  std::size_t device_count = 0;  ///< so many of them
  std::string cache{};           ///< "warm" or "cold": state of the files; "": not recorded
};

/// This machine as Tuning::machine says it: "AMD EPYC 7B13, 2 CPUs". Reads files of the system's.
std::string ThisMachine();

/// The tuning as `ringfeed tune` writes it: JSON of a few lines.
std::string TuningText(const Tuning& tuning);

/// Reads the file that `ringfeed tune` wrote. Blocks. Throws Error: kNotFound and its like for a
/// file that cannot be read; kInvalidArgument for one that is no tuning, and for a tuning of
/// another machine, naming both.
Tuning ReadTuning(const std::string& path);

}  // namespace ringfeed
