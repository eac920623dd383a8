#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/feed/feed_core.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/feed/numbered_batches.h"
#include "tests/gpu/feed/training_loop.h"

namespace ringfeed {

/// A feed and a training loop on simulated devices, from set-up to shut-down.
struct FeedScenario {
  EmulatedOptions devices{.simulated = true};
  NumberedSupply::Options supply;
  FeedOptions feed;  ///< backend and devices are filled in
  /// Called with the options so filled in.
  std::function<void(FeedOptions*)> fill_in = [](FeedOptions*) {};
  FeedDriveOptions test{.poison = true};
  std::function<std::int64_t()> step_ns = [] { return std::int64_t{100'000}; };
  /// Every so many batches, from the first, are released unused; 0: none.
  std::uint64_t unused_every = 0;
  /// WaitHost, and a copy to the host that nothing else orders, before On.
  bool looks_from_host = false;
  std::uint64_t stop_after = ~std::uint64_t{0};  ///< batches; then the feed is closed
  bool closed_first = false;                     ///< while the loops' last steps may still run
  std::uint64_t steady_from = 0;  ///< from this batch on, nothing may be allocated or waited for
};

/// What came of it.
struct FeedOutcome {
  ReadResult end = ReadResult::kFailed;
  Status status;  ///< of the feed or of a loop
  Status closed;
  std::vector<TrainingLoop::Seen> seen;  ///< of all devices, by number of batch
  std::vector<std::uint64_t> unused;     ///< numbers of those released unused
  std::vector<std::string> offences;
  DeviceLeaks leaks;
  std::size_t most_held_bytes = 0;  ///< of device 0's memory
  FeedStats stats;
  BackendCounters steady;       ///< counted from steady_from on
  std::size_t batches_out = 0;  ///< of the supply, that never came back
  std::int64_t virtual_ns = 0;
  std::array<std::uint64_t, kDeviceCalls> calls{};

  /// All batches came once, in order, with their bytes; nothing was broken and nothing leaked. Else
  /// says what is wrong.
  std::string Wrong(const FeedScenario& scenario) const;
};

FeedOutcome RunScenario(const FeedScenario& scenario);

}  // namespace ringfeed
