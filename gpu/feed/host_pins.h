#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/machine/numa.h"
#include "base/memory/arena.h"
#include "ringfeed/device_backend.h"

namespace ringfeed {

/// Registers the memory that batches stand in, chunk by chunk of their arenas as they are met: an
/// arena may be larger than what is ever used of it. One per backend, shared by its feeds: a chunk
/// is registered once. Undone when the last feed lets go. Thread safe.
class HostPins {
 public:
  /// A copy lies within one chunk, so an arena of that size is registered as a whole.
  static constexpr std::size_t kChunkBytes = std::size_t{64} << 20;

  /// Memory is put on these NUMA nodes, where there are several: on the only one, else on each in
  /// turn. As the first feed of the backend says.
  static std::shared_ptr<HostPins> Of(const std::shared_ptr<DeviceBackend>& backend, CpuList nodes);
  HostPins(std::shared_ptr<DeviceBackend> backend, CpuList nodes)
      : backend_(std::move(backend)), nodes_(std::move(nodes)) {}
  ~HostPins();
  HostPins(const HostPins&) = delete;
  HostPins& operator=(const HostPins&) = delete;

  /// A part of a range that lies in one chunk.
  struct Part {
    std::size_t bytes = 0;
    bool pinned = false;  ///< else copies from there block
  };
  /// The first part of [data, data + bytes), registered where that can be done. What lies in no
  /// arena is one part, not registered.
  Part Pin(const std::byte* data, std::size_t bytes);
  /// Pin of all parts, ahead of need: by whoever may wait.
  void PinAll(const std::byte* data, std::size_t bytes);
  /// Why some memory is not registered; "" where all is.
  std::string failure() const;

 private:
  enum class ChunkState : std::uint8_t { kUnknown, kPinned, kFailed };
  struct PinnedChunks {
    std::shared_ptr<Arena> arena;
    std::vector<std::atomic<ChunkState>> states;

    explicit PinnedChunks(std::shared_ptr<Arena> of)
        : arena(std::move(of)), states((arena->bytes() + kChunkBytes - 1) / kChunkBytes) {}
    /// What of the chunk is the arena's.
    std::span<std::byte> Range(std::size_t chunk) const {
      const std::size_t begin = chunk * kChunkBytes;
      return {arena->data() + begin, std::min(kChunkBytes, arena->bytes() - begin)};
    }
  };

  PinnedChunks* ChunksOf(const std::byte* data);
  void MoveClose(std::span<std::byte> range) const;
  void NoteFailure(const Status& status);
  ChunkState PinChunk(PinnedChunks* chunks, std::size_t chunk);

  const std::shared_ptr<DeviceBackend> backend_;
  const CpuList nodes_;
  std::mutex registering_;    ///< held for the milliseconds that it takes; others go on meanwhile
  mutable std::mutex mutex_;  ///< guards what follows
  std::map<const std::byte*, std::unique_ptr<PinnedChunks>> arenas_;  ///< by their start
  std::string failure_;
};

/// Where the memory and the threads of a feed should be: close to its devices. Empty on machines
/// with one NUMA node, and for devices of which nothing is known.
struct FeedPlacement {
  CpuList nodes;              ///< of all its devices, each once
  std::vector<CpuList> cpus;  ///< per device: of its feeding thread
};

/// Set-up: reads a few small files of the system's.
FeedPlacement FindPlacement(DeviceBackend* backend, const std::vector<int>& devices);

}  // namespace ringfeed
