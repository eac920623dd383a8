#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/machine/numa.h"
#include "base/memory/arena.h"
#include "base/pending_copy.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// Registers the memory of batches, chunk by chunk of their arenas, when a batch there is first
/// met: an arena may be larger than the part that is ever used. One for all backends that share
/// registrations (DeviceBackend::Registrations), shared by their feeds: a chunk is registered once.
/// Undone when the last feed lets go, or when the arena ends: it keeps no arena alive. Thread safe.
class HostPins {
 public:
  /// A copy lies within one chunk, so an arena of that size is registered as a whole.
  static constexpr std::size_t kChunkBytes = std::size_t{64} << 20;

  /// Puts memory on these NUMA nodes, if there are several: on the only one, else on each in turn.
  /// The first feed decides. Waits for an end that is in progress on another thread.
  static std::shared_ptr<HostPins> Of(const std::shared_ptr<DeviceBackend>& backend, CpuList nodes);
  HostPins(std::shared_ptr<DeviceBackend> backend, CpuList nodes);
  ~HostPins();
  HostPins(const HostPins&) = delete;
  HostPins& operator=(const HostPins&) = delete;

  /// A part of a range, within one chunk.
  struct Part {
    std::size_t bytes = 0;
    bool pinned = false;  ///< else copies from there block
  };
  /// The first part of [data, data + bytes), registered if that is possible. Memory outside of
  /// arenas is one part, not registered. The caller holds the memory, and with it its arena.
  Part Pin(const std::byte* data, std::size_t bytes);
  /// Puts memory on the nodes before it is used. What io_uring has pinned since cannot be moved any
  /// more when a batch there is first met.
  void PlaceClose(const Arena& arena) const;
  /// Pin of all parts, ahead of need, in a thread that may wait.
  void PinAll(const std::byte* data, std::size_t bytes);
  /// The same of what pending copies read in the host's memory. False if copies from there block.
  bool PinAll(std::span<const PendingCopy> copies);
  /// A thread that lets go of memory that it pinned here hands it over under this token: the end of
  /// an arena comes after that (DeviceBackend::NoteHandOver).
  const void* token() const { return arenas_.get(); }
  /// Why some memory is not registered; "" if all is.
  std::string failure() const;

 private:
  class PinnedArenas;
  const std::shared_ptr<PinnedArenas> arenas_;  ///< shared with the ends of the arenas
};

/// Copies from a device's memory to the host's, a part at a time: CUDA refuses a copy that crosses
/// from one registration into the next.
Status CopyBack(HostPins* pins, DeviceBackend* backend, DeviceStream stream, std::byte* to,
                const std::byte* from, std::size_t bytes);

/// The best place for a feed's memory and threads: close to its devices. Empty on machines with one
/// NUMA node, and for devices of which nothing is known.
struct FeedPlacement {
  CpuList nodes;              ///< of all its devices, each once
  std::vector<CpuList> cpus;  ///< per device: of its feeding thread
};

/// Set-up: reads a few small files of the system's.
FeedPlacement FindPlacement(DeviceBackend* backend, const std::vector<int>& devices);

}  // namespace ringfeed
