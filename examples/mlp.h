#pragma once

#include <cstdint>
#include <memory>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/status.h"

// A small multilayer perceptron, 13 numbers to 32 hidden ones (ReLU) to 2 classes (softmax and
// cross entropy), and how devices compute a step of it.

namespace mlp {

inline constexpr int kInputs = 13;
inline constexpr int kHidden = 32;
inline constexpr int kClasses = 2;

/// What is learned. Of floats alone, so that an update goes over it as over an array.
struct Weights {
  float hidden[kHidden][kInputs];
  float hidden_bias[kHidden];
  float output[kClasses][kHidden];
  float output_bias[kClasses];
};
inline constexpr int kWeights = sizeof(Weights) / sizeof(float);

/// Sums over rows: over those of a device, and then, added up, over those of all devices.
struct Sums {
  float slopes[kWeights];  ///< of the loss, in the order of Weights
  float loss;
  float rows;
};
inline constexpr int kSums = sizeof(Sums) / sizeof(float);

/// What a row leaves on its way forward, and back.
struct RowState {
  float hidden[kHidden];
  float hidden_slopes[kHidden];
  float output_slopes[kClasses];
  float loss;
};

/// A batch, in device memory.
struct Batch {
  const float* inputs = nullptr;         ///< [rows, kInputs]
  const std::int64_t* labels = nullptr;  ///< [rows], below kClasses
  std::uint64_t rows = 0;
};

/// A device's memory: its copy of the weights, and what a step leaves.
struct Memory {
  Weights* weights = nullptr;
  Sums* sums = nullptr;
  RowState* rows = nullptr;
};

/// A step's work on a device. Calls enqueue and return; the stream's device is bound to the calling
/// thread. Thread safe.
class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Sets the weights that learning starts from: the same on every device.
  virtual ringfeed::Status Start(ringfeed::DeviceStream stream, const Memory& memory) = 0;
  /// Sets *memory.sums of the batch, by the weights as they are then.
  virtual ringfeed::Status Gradient(ringfeed::DeviceStream stream, const Batch& batch,
                                    const Memory& memory) = 0;
  /// Takes `rate` times the mean slopes, by *memory.sums as they are then, off the weights.
  virtual ringfeed::Status Update(ringfeed::DeviceStream stream, const Memory& memory,
                                  float rate) = 0;
};
/// As functions that emulated devices run: the twin of what CUDA's devices compute.
std::unique_ptr<Kernels> KernelsOnHost(std::shared_ptr<ringfeed::EmulatedDevices> devices);
/// As kernels; in programs that are built with CUDA.
std::unique_ptr<Kernels> KernelsOnCuda();

}  // namespace mlp
