#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/memory/arena.h"
#include "gpu/feed/host_pins.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// Memory that copies from a device come to: a run of an arena, reserved there and registered with
/// the devices. Copies to other memory block the enqueueing thread. It grows to the largest batch
/// and is given back as a whole.
///
/// It takes half of the free memory at most: the readers of the checked data may need the rest.
/// Larger batches come to memory of the heap, and unpinned_reason says so.
///
/// For one thread. Before it grows or is destroyed, the copies must have been seen done.
class LandingMemory {
 public:
  LandingMemory(std::shared_ptr<Arena> arena, std::shared_ptr<HostPins> pins)
      : arena_(std::move(arena)), pins_(std::move(pins)) {}
  ~LandingMemory() { GiveBack(); }
  LandingMemory(const LandingMemory&) = delete;
  LandingMemory& operator=(const LandingMemory&) = delete;

  /// Makes it at least that large; its contents are lost. Errors: kResourceExhausted if there is
  /// not that much memory at all; then it has none.
  Status Grow(std::size_t bytes);

  /// Enqueues a copy to a place of this memory; the caller has checked that it is large enough.
  Status Copy(DeviceBackend* backend, DeviceStream stream, std::byte* to, const std::byte* from,
              std::size_t bytes) const {
    return CopyBack(pins_.get(), backend, stream, to, from, bytes);
  }
  std::byte* data() const { return run_ ? run_.data : heap_.get(); }
  std::size_t bytes() const { return run_ ? run_.bytes : heap_bytes_; }
  /// Why not all of it is registered; "" if it is.
  const std::string& unpinned_reason() const { return unpinned_reason_; }

 private:
  bool TakeRun(std::size_t bytes);
  void PinRun();
  void GiveBack();

  const std::shared_ptr<Arena> arena_;
  const std::shared_ptr<HostPins> pins_;
  SlabRun run_;
  std::unique_ptr<std::byte[]> heap_;  ///< if there is no run
  std::size_t heap_bytes_ = 0;
  std::string unpinned_reason_;
};

}  // namespace ringfeed::tools
