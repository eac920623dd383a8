#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "gpu/owned_handles.h"
#include "gpu/work_time.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed::bench {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::byte kStale{0xA5};

/// One device, and the rows that it gave so far.
class LimitsRun {
 public:
  LimitsRun(OwnedDevice device, double seconds) : device_(std::move(device)), seconds_(seconds) {}

  const OwnedDevice& device() const { return device_; }
  DeviceBackend& backend() const { return *device_.backend; }
  /// Emulated devices are for rehearsing: everything is small there.
  bool emulated() const { return backend().name() == "emu"; }
  double seconds() const { return seconds_; }
  double MsSince(std::int64_t begin_ns) const;

  /// Rows that stand together. If their set-up fails, that becomes a row.
  void Section(const std::string& name, void (*measure)(LimitsRun*));
  /// One measurement of the section, which fills its row. If it throws, that is its "failed".
  void Row(const std::string& name, const std::function<void(Json*)>& measure);

  const Json& sections() const { return sections_; }
  int failures() const { return failures_; }

 private:
  const OwnedDevice device_;
  const double seconds_;
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
  void Fill(std::byte value) const;
  void FillRandom(std::uint64_t seed) const;

 private:
  std::size_t bytes_;
  std::size_t mapped_bytes_;
  void* mapped_;
  std::byte* data_;
};

/// Memory that is registered for as long as this lives.
class Registered {
 public:
  Registered(const LimitsRun& run, std::byte* data, std::size_t bytes)
      : backend_(run.backend()), data_(data) {
    Require(backend_.RegisterHost(data, bytes));
  }
  Registered(const LimitsRun& run, const HostMemory& memory)
      : Registered(run, memory.data(), memory.bytes()) {}
  ~Registered() { (void)backend_.UnregisterHost(data_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  DeviceBackend& backend_;
  std::byte* const data_;
};

double GbPerS(std::size_t bytes, double seconds);

/// Throws Error unless the device's checksum of its memory is the host's of `expected`.
void RequireSame(const LimitsRun& run, const OwnedStream& stream, const std::byte* on_device,
                 const std::byte* expected, std::size_t bytes);
[[noreturn]] void FailVerification(const std::string& what);

void MeasureKernels(LimitsRun* run);

}  // namespace ringfeed::bench
