#pragma once

#include <memory>
#include <string>

#include "tools/devices/owned_device.h"

namespace ringfeed::tools {

/// What a device computes while it is fed, over and over: the stand-in for a training step.
class StepLoad {
 public:
  virtual ~StepLoad() = default;
  /// For the report.
  virtual std::string name() const = 0;
  /// Of one Enqueue; 0: nothing that counts.
  virtual double flops() const = 0;
  /// Enqueues it once. The device is bound to the calling thread.
  virtual void Enqueue(const OwnedStream& stream) = 0;
};

/// Matrix products by the tensor cores on CUDA's devices, checked once; else a device that is kept
/// busy. Throws Error where the device fails, or computes wrongly.
std::unique_ptr<StepLoad> NewStepLoad(const OwnedDevice& device);

}  // namespace ringfeed::tools
