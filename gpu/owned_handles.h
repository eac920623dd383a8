#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// One device of a backend, for objects on it that their owners give back.
struct OwnedDevice {
  std::shared_ptr<DeviceBackend> backend;
  int number = 0;
};

/// Throws Error if a call to a device failed.
inline void Require(const Status& status) {
  if (!status.ok()) throw Error(status);
}

/// A stream. Its destructor waits for its work: memory that is declared before it outlives that
/// work.
class OwnedStream {
 public:
  explicit OwnedStream(const OwnedDevice& device) : backend_(device.backend) {
    Require(backend_->CreateStream(device.number, StreamPriority::kNormal, &stream_));
  }
  ~OwnedStream() {
    (void)backend_->SyncStream(stream_);
    (void)backend_->DestroyStream(stream_);
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;

  DeviceStream get() const { return stream_; }
  /// Blocks until its work is done.
  void Sync() const { Require(backend_->SyncStream(stream_)); }

 private:
  std::shared_ptr<DeviceBackend> backend_;
  DeviceStream stream_;
};

/// An event with a time.
class OwnedEvent {
 public:
  explicit OwnedEvent(const OwnedDevice& device) : backend_(device.backend) {
    Require(backend_->CreateEvent(device.number, EventKind::kTimed, &event_));
  }
  ~OwnedEvent() {
    if (event_) (void)backend_->DestroyEvent(event_);
  }
  OwnedEvent(OwnedEvent&& other) noexcept
      : backend_(other.backend_), event_(std::exchange(other.event_, {})) {}
  OwnedEvent& operator=(OwnedEvent&&) = delete;

  DeviceEvent get() const { return event_; }
  void Record(const OwnedStream& stream) { Require(backend_->Record(event_, stream.get())); }
  /// Waits by polling, as a loop that must not block on its device does.
  void Await() const {
    bool done = false;
    for (Require(backend_->Query(event_, &done)); !done; Require(backend_->Query(event_, &done))) {
      backend_->Idle(backend_->NowNanos() + 100'000);
    }
  }
  /// Since `begin`; both are done.
  double SecondsSince(const OwnedEvent& begin) const {
    double milliseconds = 0;
    Require(backend_->Elapsed(begin.event_, event_, &milliseconds));
    return milliseconds / 1e3;
  }

 private:
  std::shared_ptr<DeviceBackend> backend_;
  DeviceEvent event_;
};

/// Device memory. Before it is destroyed, the work that uses it must have been seen done.
class OwnedMemory {
 public:
  OwnedMemory(const OwnedDevice& device, std::size_t bytes)
      : backend_(device.backend), number_(device.number) {
    Require(backend_->AllocDevice(number_, bytes, &data_));
  }
  ~OwnedMemory() { (void)backend_->FreeDevice(number_, data_); }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<DeviceBackend> backend_;
  int number_;
  std::byte* data_ = nullptr;
};

}  // namespace ringfeed
