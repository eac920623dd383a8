#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {

inline EmulatedOptions Simulated(SchedulePolicy policy = SchedulePolicy::kTimed,
                                 std::uint64_t seed = 0) {
  EmulatedOptions options;
  options.simulated = true;
  options.policy = policy;
  options.seed = seed;
  return options;
}

inline EmulatedOptions Threaded() { return {}; }

/// Emulated devices and short ways to what tests want of them. Calls that fail are failures of the
/// test. Host memory that it makes lives longer than the devices.
class DeviceRig {
 public:
  explicit DeviceRig(const EmulatedOptions& options) : devices_(EmulatedDevices::Open(options)) {
    Expect(devices_->BindThread(0));
  }
  DeviceRig(const DeviceRig&) = delete;
  DeviceRig& operator=(const DeviceRig&) = delete;
  ~DeviceRig() { LetGo(); }

  EmulatedDevices* operator->() const { return devices_.get(); }

  DeviceStream Stream(int device = 0, StreamPriority priority = StreamPriority::kNormal) {
    DeviceStream stream;
    Expect(devices_->CreateStream(device, priority, &stream));
    return stream;
  }
  DeviceEvent Event(int device = 0, EventKind kind = EventKind::kPlain) {
    DeviceEvent event;
    Expect(devices_->CreateEvent(device, kind, &event));
    return event;
  }
  std::byte* Device(std::size_t bytes, int device = 0) {
    std::byte* data = nullptr;
    Expect(devices_->AllocDevice(device, bytes, &data));
    return data;
  }
  /// Not registered.
  std::byte* Pageable(std::size_t bytes, std::byte value = {}) {
    return host_.emplace_back(bytes, value).data();
  }
  std::byte* Host(std::size_t bytes, std::byte value = {}) {
    std::byte* data = Pageable(bytes, value);
    Expect(devices_->RegisterHost(data, bytes));
    return data;
  }

  /// Keeps a stream of device 0, and that device's compute part, from going on: until LetGo or, in
  /// a simulator, for a while of its time.
  void Hold(DeviceStream stream) {
    Expect(devices_->LaunchHost(stream,
                                [this] {
                                  if (!devices_->simulated()) open_.wait(false);
                                },
                                {}));
  }
  void LetGo() {
    open_ = true;
    open_.notify_all();
  }

  bool Done(DeviceEvent event) {
    bool done = false;
    Expect(devices_->Query(event, &done));
    return done;
  }
  /// Waits as a loop of the feed's does.
  void Await(DeviceEvent event) {
    while (!Done(event)) devices_->Idle(devices_->NowNanos() + 1'000'000);
  }
  /// Behind what is in the stream.
  std::vector<std::byte> ReadBack(DeviceStream stream, const std::byte* data, std::size_t bytes) {
    std::vector<std::byte> back(bytes);
    Expect(devices_->CopyToHost(stream, back.data(), data, bytes));
    Expect(devices_->SyncStream(stream));
    return back;
  }

  /// The rules of the offences, in their order.
  std::vector<std::string> Rules() const {
    std::vector<std::string> rules;
    for (const Offence& offence : devices_->offences()) rules.push_back(offence.rule);
    return rules;
  }
  void ExpectNoOffence() const {
    for (const Offence& offence : devices_->offences()) ADD_FAILURE() << offence.ToString();
  }

  static void Expect(const Status& status) { EXPECT_TRUE(status.ok()) << status.ToString(); }

 private:
  std::atomic<bool> open_ = false;
  std::deque<std::vector<std::byte>> host_;
  std::shared_ptr<EmulatedDevices> devices_;
};

using Rules = std::vector<std::string>;

}  // namespace ringfeed
