#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// A backend that nothing was asked of yet, and a look at which of its devices the driver set up: a
/// context takes half a gigabyte of a device's memory, and other jobs may have that device.
struct FreshDevices {
  std::string name;
  std::function<std::shared_ptr<DeviceBackend>(int devices)> open;
  std::function<std::vector<int>(DeviceBackend&)> set_up;
};

inline void PrintTo(const FreshDevices& devices, std::ostream* out) { *out << devices.name; }

/// What may set up which device.
class SetUpConformance : public testing::TestWithParam<FreshDevices> {
 protected:
  static constexpr int kDevices = 4;

  void SetUp() override { backend_ = GetParam().open(kDevices); }

  const std::shared_ptr<DeviceBackend>& backend() { return backend_; }
  std::vector<int> set_up() { return GetParam().set_up(*backend_); }

 private:
  std::shared_ptr<DeviceBackend> backend_;
};

}  // namespace ringfeed
