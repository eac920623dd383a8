#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "io/read_engine.h"

namespace ringfeed {

/// What a fault engine does to the completions of the engine that it wraps.
struct FaultPlan {
  double delay = 0;  ///< share of completions that are held back
  std::chrono::microseconds longest_delay{2000};
  bool reorder = false;  ///< hand completions over in random order
  double failure = 0;    ///< share of reads that fail for good
  StatusCode failure_code = StatusCode::kIoError;
};

/// An engine with the faults that its users must get over, chosen by `seed`; the reads themselves
/// are done by `inner`. Short results, EINTR, EAGAIN and EIO happen below any engine:
/// RandomFaultHook injects them there.
std::unique_ptr<ReadEngine> MakeFaultEngine(std::unique_ptr<ReadEngine> inner, std::uint64_t seed,
                                            const FaultPlan& plan);

}  // namespace ringfeed
