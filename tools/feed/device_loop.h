#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory/arena.h"
#include "gpu/feed/feed_core.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/stream_clock.h"
#include "gpu/owned_handles.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/devices/timeline.h"
#include "tools/feed/device_deliveries.h"
#include "tools/feed/hashing_parser.h"
#include "tools/feed/landing_memory.h"

namespace ringfeed::tools {

/// How a device's loop spent its time, on the backend's clock.
struct DeviceLoopTimes {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;          ///< of the last step
  std::int64_t first_ready_ns = 0;  ///< when the first batch was on the device; 0: there was none
  std::int64_t stall_ns = 0;        ///< the device only waited for a batch
};

/// The bytes that came back from a device, and through which memory.
struct CopiedBack {
  std::uint64_t bytes = 0;
  std::uint64_t unpinned_bytes = 0;  ///< to memory that is not registered: such copies block
  std::string unpinned_reason;       ///< why; "" if there are none
  std::size_t memory_bytes = 0;      ///< most of it in use at a time
};

/// The part of a batch that is copied back.
enum class CopyBack : std::uint8_t { kNothing, kHashes, kEverything };

/// A training loop on one device, as a user would write it, except that it computes nothing: Next,
/// On, a step of a given length, Release. The host enqueues up to two steps ahead, so that the
/// device never waits for the host, and then waits for the oldest.
class DeviceLoop {
 public:
  struct Options {
    int device = 0;
    std::size_t lane = 0;      ///< its place in the feed's list
    std::int64_t step_ns = 0;  ///< 0: no step
    CopyBack copy_back = CopyBack::kNothing;
    /// With kEverything: hashes the first `hashed_fields` fields of each row as they came back; 0:
    /// the hashes are the last field.
    std::size_t hashed_fields = 0;
    PayloadHash hash = PayloadHash::kNone;
    /// For the memory that copies come back to; null: the process's own.
    std::shared_ptr<Arena> arena{};
  };
  using Deliver = std::function<void(DeviceDelivery)>;

  /// Both outlive this. `deliver` is called for each batch after its step is done.
  DeviceLoop(FeedCore* feed, Timeline* timeline, Options options, Deliver deliver);
  DeviceLoop(const DeviceLoop&) = delete;
  DeviceLoop& operator=(const DeviceLoop&) = delete;

  /// Runs to the end of the data, or a failure; batches taken before are finished and delivered
  /// then. Call once, in the thread that drives the device.
  Status Run();
  const DeviceLoopTimes& times() const { return times_; }
  const CopiedBack& copied_back() const { return copied_back_; }
  /// After Run: the feed has no more batches for any device.
  bool feed_ended() const { return feed_ended_; }

 private:
  struct Step {
    explicit Step(const OwnedDevice& device) : ready(device), end(device), looked(device) {}

    OwnedEvent ready;   ///< the batch is there, and all earlier work is done
    OwnedEvent end;     ///< the step is done
    OwnedEvent looked;  ///< all is copied back
    DeviceDelivery delivery;
    std::vector<Tensor> tensors;  ///< the ones copied back, without their data
    std::vector<std::vector<std::int64_t>> offsets;
    std::vector<std::byte*> copies;  ///< of each tensor, in `landing`
    std::unique_ptr<LandingMemory> landing;
    std::uint64_t rows = 0;
  };

  // All of these throw Error if the device fails.
  void Open();
  void Loop();
  /// Call it in the same thread: another one may not be bound to a device.
  void Close();
  void Enqueue(DeviceLease* lease, Step* step);
  void EnqueueCopies(std::span<const Tensor> tensors, std::uint64_t valid_rows, Step* step);
  /// Gives each tensor its place.
  void PlaceCopies(std::span<const Tensor> tensors, Step* step);
  void FinishOldest();
  void AccountFor(const Step& step);
  void DeliverCopies(Step* step);
  /// Hashes the rows that came back.
  void HashRows(Step* step);

  FeedCore* const feed_;
  const std::shared_ptr<DeviceBackend> backend_;
  Timeline* const timeline_;
  const Options options_;
  const Deliver deliver_;
  std::optional<OwnedStream> compute_stream_;
  std::optional<OwnedStream> look_stream_;
  StreamClock clock_;
  std::shared_ptr<HostPins> pins_;  ///< if something is copied back
  std::vector<std::unique_ptr<Step>> all_;
  std::deque<Step*> running_;
  std::deque<Step*> idle_;
  bool half_enqueued_ = false;  ///< no event follows the last enqueued work
  bool feed_ended_ = false;
  DeviceLoopTimes times_;
  CopiedBack copied_back_;
};

/// The share of the time of copies to a device ("copy" spans of its track) in which the device
/// computed ("step" spans). None if it computed nothing, or nothing was copied.
std::optional<double> CopyOverlap(std::span<const TimeSpan> spans, int track);

}  // namespace ringfeed::tools
