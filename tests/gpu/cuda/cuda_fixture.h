#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu/backends/cuda/cuda_backend.h"
#include "tests/gpu/cuda/fake_cudart.h"

namespace ringfeed {

/// A backend over the fake runtime, on a machine with two devices.
class CudaBackendTest : public testing::Test {
 protected:
  static constexpr int kDevices = 2;
  /// Registrations are made in pieces of that size here.
  static constexpr std::size_t kPiece = std::size_t{1} << 16;

  CudaBackendTest() { fake_cudart::Restart({.devices = kDevices}); }

  DeviceStream NewStream(int device = 0) {
    DeviceStream stream;
    const Status made = cuda_.CreateStream(device, StreamPriority::kNormal, &stream);
    EXPECT_TRUE(made.ok()) << made.ToString();
    return stream;
  }

  DeviceEvent NewEvent(int device = 0, EventKind kind = EventKind::kPlain) {
    DeviceEvent event;
    const Status made = cuda_.CreateEvent(device, kind, &event);
    EXPECT_TRUE(made.ok()) << made.ToString();
    return event;
  }

  std::byte* NewMemory(std::size_t bytes, int device = 0) {
    std::byte* data = nullptr;
    const Status made = cuda_.AllocDevice(device, bytes, &data);
    EXPECT_TRUE(made.ok()) << made.ToString();
    return data;
  }

  bool Done(DeviceEvent event) {
    bool done = false;
    const Status asked = cuda_.Query(event, &done);
    EXPECT_TRUE(asked.ok()) << asked.ToString();
    return done;
  }

  CudaBackend cuda_{kDevices, kPiece};
};

/// Host memory whose first border between pieces lies `before` bytes behind `data`.
class BorderedMemory {
 public:
  BorderedMemory(std::size_t piece, std::size_t before, std::size_t bytes)
      : memory_(std::make_unique<std::byte[]>(bytes + 2 * piece)) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.get());
    const std::uintptr_t border = (begin + before + piece - 1) / piece * piece;
    data_ = memory_.get() + (border - before - begin);
    for (std::size_t i = 0; i < bytes; ++i) data_[i] = static_cast<std::byte>(i * 7 + 1);
  }
  std::byte* data() const { return data_; }

 private:
  const std::unique_ptr<std::byte[]> memory_;
  std::byte* data_ = nullptr;
};

}  // namespace ringfeed
