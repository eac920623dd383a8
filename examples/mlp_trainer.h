#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "examples/mlp.h"
#include "ringfeed/device_feed.h"

namespace mlp {

struct TrainOptions {
  std::size_t batch_rows = 0;  ///< that a batch has at most
  float rate = 0;
};

/// A step of all devices together.
struct Step {
  std::size_t number = 0;  ///< from 1
  double loss = 0;         ///< summed over `rows`, the rows of all devices
  double rows = 0;
  std::span<const double> waited_ms{};  ///< for its batch, in DeviceFeed::Next, by each device
};

/// Trains a network on all devices of the feed, a thread and a replica each, until the data end.
/// `on_step` is called behind each step, by one thread at a time, and must not throw. Every device
/// must get as many batches as the others (LastStep). Throws the first failure; the feed is closed
/// then.
void Train(ringfeed::DeviceFeed* feed, Kernels* kernels, const TrainOptions& options,
           const std::function<void(const Step&)>& on_step);

}  // namespace mlp
