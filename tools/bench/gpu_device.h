#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/owned_handles.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// Checksums of batches, taken on the device by the stream that uses them.
class CheckedSums {
 public:
  /// At most `capacity` of them at a time.
  CheckedSums(const OwnedDevice& device, std::size_t capacity);

  /// Enqueues that of a lease's first tensor. Not full().
  void Add(const OwnedStream& stream, const Tensor& tensor);
  bool full() const { return used_ == capacity_; }
  /// Waits for the stream and takes all sums in the order they were added; it is empty then.
  std::vector<std::uint64_t> Collect(const OwnedStream& stream);

 private:
  const std::shared_ptr<DeviceBackend> backend_;
  const std::size_t capacity_;
  const OwnedMemory memory_;
  std::size_t used_ = 0;
};

/// The work of a device while it is fed, over and over: the stand-in for a training step.
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
/// busy. Throws Error if the device fails, or computes wrongly.
std::unique_ptr<StepLoad> NewStepLoad(const OwnedDevice& device);

}  // namespace ringfeed::tools
