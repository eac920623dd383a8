#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// What one device of a training loop does with its batches: its stream takes checksums of the
/// tensors, then computes for a while. The host enqueues up to two steps ahead.
class TrainingLoop {
 public:
  struct Options {
    std::size_t most_tensors = 3;
    std::function<std::int64_t()> step_ns{};  ///< how long a step computes; none: not at all
    std::size_t steps_ahead = 2;
    std::function<void()> while_waiting{};  ///< what other threads would do meanwhile
  };
  /// A batch as the device saw it.
  struct Seen {
    std::uint64_t number = 0;
    std::uint64_t rows = 0;
    std::uint64_t valid_rows = 0;
    std::vector<Shape> shapes;
    std::vector<DType> dtypes;
    std::vector<std::uint64_t> checksums;  ///< of each tensor, taken by the device
    double stall_ms = 0;                   ///< that the stream waited for the batch
  };

  TrainingLoop(std::shared_ptr<DeviceBackend> backend, int device, Options options);
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  /// Enqueues a step on the batch and releases it. Waits for the step before the last first. False,
  /// and status(), where the device failed.
  bool Step(DeviceLease lease);
  /// Copies the batch to the host as soon as the host may, and waits for that.
  bool Look(DeviceLease* lease);
  /// Waits for all steps.
  bool Finish();

  DeviceStream stream() const { return stream_; }
  const std::vector<Seen>& seen() const { return seen_; }
  const Status& status() const { return status_; }

 private:
  struct Ahead {
    Seen seen;
    DeviceEvent begin, ready, end;
    std::byte* sums = nullptr;  ///< device memory
    std::vector<std::uint64_t> results;
  };

  bool Good(const Status& status);
  bool Enqueue(DeviceLease* lease, Ahead* step);
  bool WaitForOldest();
  bool WaitFor(DeviceEvent event);

  const std::shared_ptr<DeviceBackend> backend_;
  const int device_;
  const Options options_;
  DeviceStream stream_;
  DeviceStream look_stream_;
  DeviceEvent looked_;
  std::vector<std::unique_ptr<Ahead>> all_;
  std::deque<Ahead*> running_;
  std::deque<Ahead*> idle_;
  std::vector<Seen> seen_;
  Status status_;
};

/// The checksum that a device takes of these bytes.
std::uint64_t ChecksumOf(std::span<const std::byte> bytes);

}  // namespace ringfeed
