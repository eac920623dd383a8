#include "gpu/feed/host_pins.h"

#include <algorithm>
#include <utility>

#include "base/machine/numa.h"
#include "ringfeed/topology.h"

namespace ringfeed {

std::shared_ptr<HostPins> HostPins::Of(const std::shared_ptr<DeviceBackend>& backend,
                                       CpuList nodes) {
  static std::mutex mutex;
  static std::map<const DeviceBackend*, std::weak_ptr<HostPins>> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<HostPins> pins = all[backend.get()].lock();
  if (pins == nullptr) {
    pins = std::make_shared<HostPins>(backend, std::move(nodes));
    all[backend.get()] = pins;
  }
  return pins;
}

HostPins::~HostPins() {
  for (const auto& [start, chunks] : arenas_) {
    for (std::size_t chunk = 0; chunk < chunks->states.size(); ++chunk) {
      if (chunks->states[chunk].load(std::memory_order_relaxed) != ChunkState::kPinned) continue;
      // A device that is gone has no registrations either.
      (void)backend_->UnregisterHost(chunks->Range(chunk).data());
    }
  }
}

HostPins::PinnedChunks* HostPins::ChunksOf(const std::byte* data) {
  const std::lock_guard lock(mutex_);
  auto behind = arenas_.upper_bound(data);
  if (behind != arenas_.begin()) {
    PinnedChunks* const chunks = std::prev(behind)->second.get();
    if (data < chunks->arena->data() + chunks->arena->bytes()) return chunks;
  }
  std::shared_ptr<Arena> arena = Arena::Containing(data);
  if (arena == nullptr) return nullptr;
  const std::byte* const start = arena->data();
  return (arenas_[start] = std::make_unique<PinnedChunks>(std::move(arena))).get();
}

void HostPins::MoveClose(std::span<std::byte> range) const {
  if (nodes_.empty()) return;
  // Where it may not be moved it stays where it is: slower, and as right.
  (void)(nodes_.size() == 1 ? PreferNode(range.data(), range.size(), nodes_.front())
                            : InterleaveNodes(range.data(), range.size(), nodes_));
}

HostPins::ChunkState HostPins::PinChunk(PinnedChunks* chunks, std::size_t chunk) {
  const std::lock_guard lock(registering_);
  std::atomic<ChunkState>& state = chunks->states[chunk];
  const ChunkState found = state.load(std::memory_order_relaxed);
  if (found != ChunkState::kUnknown) return found;
  const std::span<std::byte> range = chunks->Range(chunk);
  MoveClose(range);
  const Status status = backend_->RegisterHost(range.data(), range.size());
  if (!status.ok()) NoteFailure(status);
  const ChunkState made = status.ok() ? ChunkState::kPinned : ChunkState::kFailed;
  // Order: partner of the load in Pin; who reads it finds the chunk registered.
  state.store(made, std::memory_order_release);
  return made;
}

void HostPins::NoteFailure(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = status.ToString();
}

void HostPins::PinAll(const std::byte* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) done += Pin(data + done, bytes - done).bytes;
}

HostPins::Part HostPins::Pin(const std::byte* data, std::size_t bytes) {
  PinnedChunks* const chunks = ChunksOf(data);
  if (chunks == nullptr) return {bytes, false};
  const auto offset = static_cast<std::size_t>(data - chunks->arena->data());
  const std::size_t chunk = offset / kChunkBytes;
  // Order: partner of the store in PinChunk.
  ChunkState state = chunks->states[chunk].load(std::memory_order_acquire);
  if (state == ChunkState::kUnknown) state = PinChunk(chunks, chunk);
  return {std::min(bytes, kChunkBytes - offset % kChunkBytes), state == ChunkState::kPinned};
}

std::string HostPins::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

FeedPlacement FindPlacement(DeviceBackend* backend, const std::vector<int>& devices) {
  FeedPlacement placement;
  placement.cpus.resize(devices.size());
  if (NumaNodes() == 1) return placement;
  const Topology topology = FindTopology(backend);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (const DevicePlacement& device : topology.devices) {
      if (device.device != devices[i] || device.numa_node < 0) continue;
      placement.nodes.push_back(device.numa_node);
      placement.cpus[i] = ParseCpuList(device.cpus).value_or(CpuList());
    }
  }
  std::sort(placement.nodes.begin(), placement.nodes.end());
  placement.nodes.erase(std::unique(placement.nodes.begin(), placement.nodes.end()),
                        placement.nodes.end());
  return placement;
}

}  // namespace ringfeed
