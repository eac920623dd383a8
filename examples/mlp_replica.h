#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "examples/mlp.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"

namespace mlp {

/// One device's copy of the network, with a stream of its own. All replicas begin with the same
/// weights and take the same updates, so they stay the same. Methods throw ringfeed::Error. One
/// thread, from the constructor to the destructor; it is bound to the device.
class Replica {
 public:
  /// For batches of `most_rows` at most.
  Replica(std::shared_ptr<ringfeed::DeviceBackend> backend, Kernels* kernels, int device,
          std::size_t most_rows);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  /// Computes a Sums of the batch into `sums`, which is registered host memory. Blocks until it is
  /// there; with an all-reduce on the device nothing would have to wait.
  void Gradient(ringfeed::DeviceLease batch, std::span<float> sums);
  /// Enqueues the update by the Sums of all devices, registered host memory that must stay as it is
  /// until the next Gradient is done.
  void Update(std::span<const float> sums, float rate);

 private:
  void SetUp();
  void FreeAll();

  const std::shared_ptr<ringfeed::DeviceBackend> backend_;
  Kernels* const kernels_;
  const int device_;
  const std::size_t most_rows_;
  ringfeed::DeviceStream stream_;
  std::byte* block_ = nullptr;  ///< all of memory_
  Memory memory_;
};

}  // namespace mlp
