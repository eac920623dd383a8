#include "tools/bench/gpu_device.h"

#include <bit>
#include <cmath>

#include "ringfeed/devices/device_kernels.h"

#if RINGFEED_WITH_CUDA
#include "base/random_bits.h"
#include "gpu/backends/cuda/gemm.h"
#endif

namespace ringfeed::tools {
namespace {

class BusyLoad final : public StepLoad {
 public:
  explicit BusyLoad(const OwnedDevice& device) : backend_(device.backend) {}
  std::string name() const override { return "busy for 200 us"; }
  double flops() const override { return 0; }
  void Enqueue(const OwnedStream& stream) override {
    Require(backend_->Busy(stream.get(), kBusyNs));
  }

 private:
  static constexpr std::int64_t kBusyNs = 200'000;
  const std::shared_ptr<DeviceBackend> backend_;
};

#if RINGFEED_WITH_CUDA
class GemmLoad final : public StepLoad {
 public:
  explicit GemmLoad(const OwnedDevice& device)
      : a_(device, kElements * sizeof(std::uint16_t)),
        b_(device, kElements * sizeof(std::uint16_t)),
        c_(device, kElements * sizeof(float)) {
    const std::vector<std::uint16_t> a = RandomMatrix(1);
    const std::vector<std::uint16_t> b = RandomMatrix(2);
    const OwnedStream stream(device);
    Upload(device, stream, a, a_);
    Upload(device, stream, b, b_);
    Require(device.backend->BindThread(device.number));
    Enqueue(stream);
    std::vector<float> row(kRows);
    Require(device.backend->CopyToHost(stream.get(), reinterpret_cast<std::byte*>(row.data()),
                                       c_.data() + kCheckedRow * kRows * sizeof(float),
                                       kRows * sizeof(float)));
    stream.Sync();
    for (std::size_t column = 0; column < kRows; ++column) CheckSum(a, b, column, row[column]);
  }
  std::string name() const override { return "bf16 matrix product of 4096"; }
  double flops() const override { return 2.0 * kRows * kRows * kRows; }
  void Enqueue(const OwnedStream& stream) override {
    const int error =
        LaunchGemm(a_.data(), b_.data(), c_.data(), static_cast<int>(kRows), stream.get().handle);
    if (error != 0) {
      throw Error(
          Status(StatusCode::kInternal,
                 "the matrix product cannot be launched: cudaError " + std::to_string(error)));
    }
  }

 private:
  static constexpr std::size_t kRows = 4096;
  static constexpr std::size_t kElements = kRows * kRows;
  static constexpr std::size_t kCheckedRow = 1234;

  // Of both signs, 1 to 2 in size.
  static std::vector<std::uint16_t> RandomMatrix(std::uint64_t seed) {
    std::vector<std::uint16_t> matrix(kElements);
    RandomBits(seed).Fill(std::as_writable_bytes(std::span(matrix)));
    for (std::uint16_t& element : matrix) {
      element = static_cast<std::uint16_t>((element & 0x807F) | 0x3F80);
    }
    return matrix;
  }
  static void Upload(const OwnedDevice& device, const OwnedStream& stream,
                     const std::vector<std::uint16_t>& matrix, const OwnedMemory& to) {
    Require(device.backend->CopyToDevice(stream.get(), to.data(),
                                         reinterpret_cast<const std::byte*>(matrix.data()),
                                         kElements * sizeof(std::uint16_t)));
    stream.Sync();
  }
  static double Value(std::uint16_t element) {
    return std::bit_cast<float>(std::uint32_t{element} << 16);
  }
  static void CheckSum(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b,
                       std::size_t column, float computed) {
    double sum = 0;
    for (std::size_t k = 0; k < kRows; ++k) {
      sum += Value(a[kCheckedRow * kRows + k]) * Value(b[column * kRows + k]);
    }
    // Thousands of roundings of f32, of sums of some thousands.
    if (std::abs(sum - static_cast<double>(computed)) < 0.5) return;
    throw Error(Status(StatusCode::kInternal, "the device's matrix product is wrong"));
  }

  const OwnedMemory a_;
  const OwnedMemory b_;
  const OwnedMemory c_;
};
#endif

}  // namespace

CheckedSums::CheckedSums(const OwnedDevice& device, std::size_t capacity)
    : backend_(device.backend),
      capacity_(capacity),
      memory_(device, capacity * sizeof(std::uint64_t)) {}

void CheckedSums::Add(const OwnedStream& stream, const Tensor& tensor) {
  auto* const sums = reinterpret_cast<std::uint64_t*>(memory_.data());
  Require(backend_->Launch(stream.get(), Checksum{tensor.data, tensor.bytes, sums + used_}));
  ++used_;
}

std::vector<std::uint64_t> CheckedSums::Collect(const OwnedStream& stream) {
  std::vector<std::uint64_t> sums(used_);
  if (used_ > 0) {
    Require(backend_->CopyToHost(stream.get(), reinterpret_cast<std::byte*>(sums.data()),
                                 memory_.data(), used_ * sizeof(std::uint64_t)));
  }
  stream.Sync();
  used_ = 0;
  return sums;
}

std::unique_ptr<StepLoad> NewStepLoad(const OwnedDevice& device) {
#if RINGFEED_WITH_CUDA
  if (device.backend->type() == DeviceType::kCuda) return std::make_unique<GemmLoad>(device);
#endif
  return std::make_unique<BusyLoad>(device);
}

}  // namespace ringfeed::tools
