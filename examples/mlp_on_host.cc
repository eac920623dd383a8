#include <utility>

#include "examples/mlp.h"
#include "examples/mlp_math.h"

namespace mlp {
namespace {

ringfeed::MemoryAccess Access(const void* data, std::size_t bytes, bool writes) {
  return {static_cast<const std::byte*>(data), bytes, writes};
}

void GradientOf(const Batch& batch, const Memory& memory) {
  for (std::uint64_t r = 0; r < batch.rows; ++r) {
    RunRow(*memory.weights, batch.inputs + r * kInputs, batch.labels[r], memory.rows + r);
  }
  auto* const sums = reinterpret_cast<float*>(memory.sums);
  for (int s = 0; s < kSums; ++s) sums[s] = SumOver(s, batch, memory.rows);
}

class HostKernels final : public Kernels {
 public:
  explicit HostKernels(std::shared_ptr<ringfeed::EmulatedDevices> devices)
      : devices_(std::move(devices)) {}

  ringfeed::Status Start(ringfeed::DeviceStream stream, const Memory& memory) override {
    const ringfeed::MemoryAccess access = Access(memory.weights, sizeof(Weights), true);
    const auto start = [=] {
      auto* const weights = reinterpret_cast<float*>(memory.weights);
      for (int w = 0; w < kWeights; ++w) weights[w] = InitialWeight(w);
    };
    return devices_->LaunchHost(stream, start, {&access, 1});
  }

  ringfeed::Status Gradient(ringfeed::DeviceStream stream, const Batch& batch,
                            const Memory& memory) override {
    const ringfeed::MemoryAccess accesses[] = {
        Access(batch.inputs, batch.rows * kInputs * sizeof(float), false),
        Access(batch.labels, batch.rows * sizeof(std::int64_t), false),
        Access(memory.weights, sizeof(Weights), false),
        Access(memory.rows, batch.rows * sizeof(RowState), true),
        Access(memory.sums, sizeof(Sums), true)};
    return devices_->LaunchHost(
        stream, [=] { GradientOf(batch, memory); }, accesses);
  }

  ringfeed::Status Update(ringfeed::DeviceStream stream, const Memory& memory,
                          float rate) override {
    const ringfeed::MemoryAccess accesses[] = {Access(memory.sums, sizeof(Sums), false),
                                               Access(memory.weights, sizeof(Weights), true)};
    const auto update = [=] {
      auto* const weights = reinterpret_cast<float*>(memory.weights);
      for (int w = 0; w < kWeights; ++w) UpdateWeight(w, rate, *memory.sums, weights);
    };
    return devices_->LaunchHost(stream, update, accesses);
  }

 private:
  const std::shared_ptr<ringfeed::EmulatedDevices> devices_;
};

}  // namespace

std::unique_ptr<Kernels> KernelsOnHost(std::shared_ptr<ringfeed::EmulatedDevices> devices) {
  return std::make_unique<HostKernels>(std::move(devices));
}

}  // namespace mlp
