#pragma once

#include <cstdint>
#include <vector>

#include "ringfeed/device_feed.h"
#include "tools/devices/owned_device.h"

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

}  // namespace ringfeed::tools
