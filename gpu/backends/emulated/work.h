#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpu/backends/emulated/device_state.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {

/// An access to memory, for reports.
struct Operation {
  const char* what = "";  ///< "copy to", "kernel on"
  int device = -1;
  int stream = -1;  ///< in order of creation; -1: the host did it
  int actor = 0;    ///< the host's actor

  /// "copy to device 1, stream 3, 4096 bytes at registration 0 + 512".
  std::string ToString(const EmulatedMemory& memory, const std::byte* data,
                       std::size_t bytes) const;
};

enum class WorkKind : std::uint8_t {
  kCopyToDevice,
  kCopyToHost,
  kFill,
  kKernel,
  kFunction,
  kBusy,
  kLoss
};

/// One operation of a stream.
struct Work {
  WorkKind kind = WorkKind::kBusy;
  Operation operation;
  std::vector<CopyPiece> pieces;       ///< of copies; of a fill only the target; none is empty
  std::vector<MemoryAccess> accesses;  ///< everything that it reads or writes
  std::byte fill_value{};
  DeviceKernel kernel;
  std::function<void()> function;
  std::int64_t busy_ns = 0;
  Status loss;  ///< of kLoss: the failure of the device when its turn comes
};

enum class Engine : std::uint8_t { kCopyToDevice, kCopyToHost, kCompute };
inline constexpr std::size_t kEngines = 3;

bool IsCopy(const Work& work);
Engine EngineOf(const Work& work);
/// How long the work takes the device's engine: the copy's latency and the link, 3 us and 200 GB/s
/// * speed of the compute part, or the time that Busy asks for.
std::int64_t DurationNanos(const Work& work, const EmulatedDevice& device);
/// The time on the link alone.
std::int64_t LinkNanos(std::size_t bytes, const EmulatedDevice& device);
/// Does the accesses to memory of work that is no copy.
void RunEffect(Work& work);
/// Whether it reads or writes any of the memory.
bool Touches(std::span<const MemoryAccess> accesses, const std::byte* data, std::size_t bytes);
/// A hash of all bytes that a copy reads.
std::uint64_t SourceHash(const Work& work);

}  // namespace ringfeed
