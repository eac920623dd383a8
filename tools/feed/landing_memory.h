#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/memory/arena.h"
#include "gpu/feed/host_pins.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// Memory that copies from a device come to: a run of an arena, of which so much is set aside, and
/// registered with the devices. Copies to other memory block who enqueues them. It grows to the
/// largest batch and is given back as a whole.
///
/// It takes half of what is free at most: the readers of what is checked may need the rest. What is
/// larger comes to memory of the heap, and unpinned_reason says so.
///
/// For one thread. Whoever grows it or lets it go has seen the copies done.
class LandingMemory {
 public:
  LandingMemory(std::shared_ptr<Arena> arena, std::shared_ptr<HostPins> pins)
      : arena_(std::move(arena)), pins_(std::move(pins)) {}
  ~LandingMemory() { GiveBack(); }
  LandingMemory(const LandingMemory&) = delete;
  LandingMemory& operator=(const LandingMemory&) = delete;

  /// Makes it at least that large; what was there is lost. Errors: kResourceExhausted where there
  /// is not that much memory at all; then it has none.
  Status Grow(std::size_t bytes);

  /// Enqueues a copy to a place of this memory, which the caller has seen is large enough.
  Status Copy(DeviceBackend* backend, DeviceStream stream, std::byte* to, const std::byte* from,
              std::size_t bytes) const {
    return CopyBack(pins_.get(), backend, stream, to, from, bytes);
  }
  std::byte* data() const { return run_ ? run_.data : heap_.get(); }
  std::size_t bytes() const { return run_ ? run_.bytes : heap_bytes_; }
  /// Why not all of it is registered; "" where it is.
  const std::string& unpinned_reason() const { return unpinned_reason_; }

 private:
  bool TakeRun(std::size_t bytes);
  void PinRun();
  void GiveBack();

  const std::shared_ptr<Arena> arena_;
  const std::shared_ptr<HostPins> pins_;
  SlabRun run_;
  std::unique_ptr<std::byte[]> heap_;  ///< where there is no run
  std::size_t heap_bytes_ = 0;
  std::string unpinned_reason_;
};

}  // namespace ringfeed::tools
