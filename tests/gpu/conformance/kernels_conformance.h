#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringfeed/devices/device_kernels.h"
#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {

/// A test of kernels on one stream of the first device.
class KernelsConformance : public BackendConformance {
 protected:
  void SetUp() override {
    BackendConformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    stream_ = NewStream();
  }

  /// The input on the device, behind `offset` bytes.
  std::byte* Upload(std::span<const std::byte> input, std::size_t offset = 0);

  /// Launches `on_device`, runs `on_host` on the host, each with an output of `bytes`, and compares
  /// the outputs and what lies around them.
  template <typename Kernel>
  void Compare(Kernel on_device, Kernel on_host, std::size_t bytes) {
    std::vector<std::uint64_t> words((bytes + 2 * kMargin + 7) / 8);
    const std::span<std::byte> twin = std::as_writable_bytes(std::span(words));
    std::fill(twin.begin(), twin.end(), kAround);
    std::byte* output = NewDevice(twin.size());
    ASSERT_TRUE(Ok(backend().Fill(stream_, output, kAround, twin.size())));
    SetOutput(on_device, output + kMargin);
    SetOutput(on_host, twin.data() + kMargin);
    ASSERT_TRUE(Ok(CheckKernel(on_device)));
    ASSERT_TRUE(Ok(backend().Launch(stream_, on_device)));
    RunKernelOnHost(on_host);
    const std::vector<std::byte> result = ReadBack(stream_, output, twin.size());
    const auto at = std::mismatch(result.begin(), result.end(), twin.begin());
    EXPECT_TRUE(at.first == result.end())
        << "byte " << at.first - result.begin() - static_cast<std::ptrdiff_t>(kMargin) << " of "
        << bytes;
    Free(output);
  }

  /// The same for pieces of the input that are gathered, and that are summed.
  void CompareGathered(std::span<const std::byte> input, std::span<const GatheredPiece> pieces,
                       std::uint64_t output_bytes);
  void CompareSums(std::span<const std::byte> input, std::span<const SummedPiece> pieces,
                   std::uint64_t texts);

  DeviceStream stream_;

 private:
  static constexpr std::byte kAround{0xA7};
  // A multiple of every element's size.
  static constexpr std::size_t kMargin = 64;

  template <typename Kernel>
  static void SetOutput(Kernel& kernel, std::byte* output) {
    kernel.output = reinterpret_cast<decltype(kernel.output)>(output);
  }
};

}  // namespace ringfeed
