#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// The memories of a program: host memory first, then that of each device.
using ProgramMemories = std::vector<std::byte*>;

/// Bytes that a step reads or writes.
struct ProgramAccess {
  std::size_t memory = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool writes = false;
};

/// One call that a program makes.
struct ProgramStep {
  enum class Kind : std::uint8_t { kWork, kRecord, kWait };

  Kind kind = Kind::kWork;
  std::size_t stream = 0;
  std::size_t event = 0;  ///< of kRecord and kWait

  // Of kWork: the same on a device, where it is enqueued, and at once, on memories of the host's.
  std::vector<ProgramAccess> accesses;
  std::function<Status(DeviceBackend&, DeviceStream, const ProgramMemories&)> enqueue;
  std::function<void(const ProgramMemories&)> run;
};

struct ProgramShape {
  std::size_t devices = 1;
  std::size_t streams = 3;  ///< stream s is of device s % devices
  std::size_t events = 6;   ///< event e is of device e % devices
  std::size_t steps = 200;  ///< of kWork
};

/// Copies, fills and kernels over several streams, with as many records and waits as they need, and
/// some that they do not: whatever order the events allow, the bytes in all memories are the same
/// at the end. The same program for the same seed.
class RandomProgram {
 public:
  static constexpr std::size_t kMemoryBytes = 32768;

  RandomProgram(const ProgramShape& shape, std::uint64_t seed);

  const ProgramShape& shape() const { return shape_; }
  const std::vector<ProgramStep>& steps() const { return steps_; }
  /// What the memory holds at first.
  std::vector<std::byte> InitialBytes(std::size_t memory) const;
  /// What all memories hold at the end.
  std::vector<std::vector<std::byte>> Result() const;
  /// The same with the work done in another order, by seed, of those that streams and events
  /// allow; where `without_waits` of those that streams alone allow.
  std::vector<std::vector<std::byte>> ResultInAnotherOrder(std::uint64_t seed,
                                                           bool without_waits) const;

 private:
  ProgramShape shape_;
  std::uint64_t seed_;
  std::vector<ProgramStep> steps_;
};

/// By step the steps that run before it: those before it in its stream, and of a wait the record
/// that it is for.
std::vector<std::vector<std::size_t>> StepsBefore(std::span<const ProgramStep> steps,
                                                  bool without_waits);

}  // namespace ringfeed
