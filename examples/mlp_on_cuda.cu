#include <cuda_runtime.h>

#include <string>

#include "examples/mlp.h"
#include "examples/mlp_math.h"

namespace mlp {
namespace {

constexpr unsigned kThreads = 128;

__device__ std::uint64_t ThreadNumber() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
unsigned BlocksFor(std::uint64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

cudaStream_t Handle(ringfeed::DeviceStream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

// A thread a row, then a thread a sum, then a thread a weight.

__global__ void StartWeights(Memory memory) {
  const auto weight = static_cast<int>(ThreadNumber());
  if (weight < kWeights) reinterpret_cast<float*>(memory.weights)[weight] = InitialWeight(weight);
}

__global__ void RunRows(Batch batch, Memory memory) {
  const std::uint64_t r = ThreadNumber();
  if (r >= batch.rows) return;
  RunRow(*memory.weights, batch.inputs + r * kInputs, batch.labels[r], memory.rows + r);
}

__global__ void AddUp(Batch batch, Memory memory) {
  const auto sum = static_cast<int>(ThreadNumber());
  if (sum < kSums) reinterpret_cast<float*>(memory.sums)[sum] = SumOver(sum, batch, memory.rows);
}

__global__ void UpdateWeights(Memory memory, float rate) {
  const auto weight = static_cast<int>(ThreadNumber());
  if (weight >= kWeights) return;
  UpdateWeight(weight, rate, *memory.sums, reinterpret_cast<float*>(memory.weights));
}

ringfeed::Status Launched(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return ringfeed::Status(ringfeed::StatusCode::kIoError,
                          std::string(what) + ": " + cudaGetErrorString(error));
}

class CudaKernels final : public Kernels {
 public:
  ringfeed::Status Start(ringfeed::DeviceStream stream, const Memory& memory) override {
    StartWeights<<<BlocksFor(kWeights), kThreads, 0, Handle(stream)>>>(memory);
    return Launched("the start");
  }

  ringfeed::Status Gradient(ringfeed::DeviceStream stream, const Batch& batch,
                            const Memory& memory) override {
    cudaStream_t on = Handle(stream);
    if (batch.rows > 0) RunRows<<<BlocksFor(batch.rows), kThreads, 0, on>>>(batch, memory);
    AddUp<<<BlocksFor(kSums), kThreads, 0, on>>>(batch, memory);
    return Launched("the gradient");
  }

  ringfeed::Status Update(ringfeed::DeviceStream stream, const Memory& memory,
                          float rate) override {
    UpdateWeights<<<BlocksFor(kWeights), kThreads, 0, Handle(stream)>>>(memory, rate);
    return Launched("the update");
  }
};

}  // namespace

std::unique_ptr<Kernels> KernelsOnCuda() { return std::make_unique<CudaKernels>(); }

}  // namespace mlp
