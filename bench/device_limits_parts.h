#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/owned_handles.h"
#include "gpu/work_time.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed::bench {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/// One run over one device, and the rows that it gave so far.
class LimitsRun {
 public:
  /// Rows are shown in words as they come, so that a device that hangs leaves those before.
  LimitsRun(OwnedDevice device, double seconds, std::FILE* shown);

  const OwnedDevice& device() const { return device_; }
  DeviceBackend& backend() const { return *device_.backend; }
  /// Emulated devices are for rehearsing: everything is small there.
  bool emulated() const { return emulated_; }
  double seconds() const { return seconds_; }

  /// Rows that stand together. What their set-up fails by becomes a row.
  void Section(const std::string& name, const std::function<void()>& measure);
  /// One measurement of the section. What it throws becomes its "failed".
  void Row(const std::string& name, const std::function<void(Json*)>& measure);

  const Json& sections() const { return sections_; }
  int failures() const { return failures_; }

 private:
  void Show(const Json& row) const;

  const OwnedDevice device_;
  const bool emulated_;
  const double seconds_;
  std::FILE* const shown_;
  Json sections_ = Json::object();
  std::string section_;
  int failures_ = 0;
};

enum class Pages : std::uint8_t { kSmall, kHuge };

/// Memory from the system, none of it populated yet, on a boundary of huge pages.
class HostMemory {
 public:
  HostMemory(std::size_t bytes, Pages pages);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void Populate() const;
  void FillRandom(std::uint64_t seed) const;
  /// MiB of it in huge pages, by what the system says; -1 where it does not say.
  double HugeMiB() const;

 private:
  std::size_t bytes_;
  std::size_t mapped_bytes_;
  void* mapped_;
  std::byte* data_;
};

/// Memory that is registered for as long as this lives, or until End.
class Registered {
 public:
  Registered(const LimitsRun& run, std::byte* data, std::size_t bytes);
  Registered(const LimitsRun& run, const HostMemory& memory)
      : Registered(run, memory.data(), memory.bytes()) {}
  ~Registered();
  Registered(Registered&& other) noexcept;
  Registered& operator=(Registered&&) = delete;
  void End();

 private:
  DeviceBackend* backend_;
  std::byte* data_;
};

/// An event as the feed has them, without a time.
class PlainEvent {
 public:
  explicit PlainEvent(const LimitsRun& run) : backend_(run.backend()) {
    Require(backend_.CreateEvent(run.device().number, EventKind::kPlain, &event_));
  }
  ~PlainEvent() { (void)backend_.DestroyEvent(event_); }
  PlainEvent(const PlainEvent&) = delete;
  PlainEvent& operator=(const PlainEvent&) = delete;

  DeviceEvent get() const { return event_; }
  void Record(const OwnedStream& stream) const { Require(backend_.Record(event_, stream.get())); }
  bool IsDone() const {
    bool done = false;
    Require(backend_.Query(event_, &done));
    return done;
  }

 private:
  DeviceBackend& backend_;
  DeviceEvent event_;
};

double GbPerS(std::size_t bytes, double seconds);

std::uint64_t HostChecksum(const std::byte* data, std::size_t bytes);
/// Throws Error where the device's checksum of its memory is another one.
void RequireChecksum(const LimitsRun& run, const OwnedStream& stream, const std::byte* data,
                     std::size_t bytes, std::uint64_t expected);
[[noreturn]] void FailVerification(const std::string& what);

void MeasureRegistration(LimitsRun* run);
void MeasureLink(LimitsRun* run);
void MeasureKernels(LimitsRun* run);
void MeasureCalls(LimitsRun* run);

}  // namespace ringfeed::bench
