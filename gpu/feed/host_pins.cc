#include "gpu/feed/host_pins.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "base/memory/arena.h"
#include "ringfeed/devices/topology.h"

namespace ringfeed {

/// What is registered of which arena. An arena that ends finds this object until it is closed, so
/// an end and a close may come at the same time. Both hold `registering_` until everything is
/// undone, and only after that is memory unmapped.
class HostPins::PinnedArenas : public std::enable_shared_from_this<PinnedArenas> {
 public:
  PinnedArenas(std::shared_ptr<DeviceBackend> backend, CpuList nodes)
      : nodes_(std::move(nodes)), backend_(std::move(backend)) {}

  Part Pin(const std::byte* data, std::size_t bytes);
  std::string failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// Undoes all of it and drops the backend. Pin must not be called any more.
  void Close();
  void MoveClose(std::span<std::byte> range) const;

 private:
  enum class ChunkState : std::uint8_t { kUnknown, kPinned, kFailed };
  struct Chunks {
    std::weak_ptr<Arena> arena;
    std::span<std::byte> range;  ///< the arena's
    std::vector<std::atomic<ChunkState>> states;
    std::uint64_t at_end = 0;  ///< the number of the arena's call

    explicit Chunks(const std::shared_ptr<Arena>& of)
        : arena(of),
          range(of->data(), of->bytes()),
          states((of->bytes() + kChunkBytes - 1) / kChunkBytes) {}
    /// The part of the chunk that belongs to the arena.
    std::span<std::byte> Range(std::size_t chunk) const {
      const std::size_t begin = chunk * kChunkBytes;
      return range.subspan(begin, std::min(kChunkBytes, range.size() - begin));
    }
  };
  using Arenas = std::map<const std::byte*, std::unique_ptr<Chunks>>;  // by their start

  // Stays as it is until the arena ends, or this is closed.
  Chunks* ChunksOf(const std::byte* data);
  void NoteFailure(const Status& status);
  ChunkState PinChunk(Chunks* chunks, std::size_t chunk);
  // Under registering_.
  void Unregister(const Chunks& chunks);
  void ArenaEnds(const std::byte* start);

  const CpuList nodes_;
  std::mutex registering_;  // held for the milliseconds of a registration; other threads go on
  std::shared_ptr<DeviceBackend> backend_;  // by registering_; null: closed
  mutable std::mutex mutex_;                // taken within registering_; guards what follows
  Arenas arenas_;
  std::string failure_;
};

void HostPins::PinnedArenas::Unregister(const Chunks& chunks) {
  for (std::size_t chunk = 0; chunk < chunks.states.size(); ++chunk) {
    if (chunks.states[chunk].load(std::memory_order_relaxed) != ChunkState::kPinned) continue;
    // A lost device has no registrations either.
    (void)backend_->UnregisterHost(chunks.Range(chunk).data());
  }
}

void HostPins::PinnedArenas::ArenaEnds(const std::byte* start) {
  const std::lock_guard registering(registering_);
  if (backend_ == nullptr) return;
  Arenas::node_type ended;
  {
    const std::lock_guard lock(mutex_);
    ended = arenas_.extract(start);
  }
  if (ended.empty()) return;
  // After every release of a batch in that arena.
  backend_->NoteTakeOver(this);
  Unregister(*ended.mapped());
}

void HostPins::PinnedArenas::Close() {
  Arenas closed;
  std::shared_ptr<DeviceBackend> backend;  // ends after the locks, as arenas do
  {
    const std::lock_guard registering(registering_);
    {
      const std::lock_guard lock(mutex_);
      closed.swap(arenas_);
    }
    for (const auto& [start, chunks] : closed) Unregister(*chunks);
    backend.swap(backend_);
  }
  for (const auto& [start, chunks] : closed) {
    if (const auto arena = chunks->arena.lock()) arena->CancelAtEnd(chunks->at_end);
  }
}

HostPins::PinnedArenas::Chunks* HostPins::PinnedArenas::ChunksOf(const std::byte* data) {
  std::shared_ptr<Arena> arena;  // dropped after the unlock
  const std::lock_guard lock(mutex_);
  const auto behind = arenas_.upper_bound(data);
  if (behind != arenas_.begin()) {
    Chunks* const chunks = std::prev(behind)->second.get();
    if (data < chunks->range.data() + chunks->range.size()) return chunks;
  }
  arena = Arena::Containing(data);
  if (arena == nullptr) return nullptr;
  const std::byte* const start = arena->data();
  auto made = std::make_unique<Chunks>(arena);
  made->at_end = arena->CallAtEnd([self = shared_from_this(), start] { self->ArenaEnds(start); });
  return (arenas_[start] = std::move(made)).get();
}

void HostPins::PinnedArenas::MoveClose(std::span<std::byte> range) const {
  if (nodes_.empty()) return;
  // If it may not be moved it stays on its node: slower, and no less correct.
  (void)(nodes_.size() == 1 ? PreferNode(range.data(), range.size(), nodes_.front())
                            : InterleaveNodes(range.data(), range.size(), nodes_));
}

HostPins::PinnedArenas::ChunkState HostPins::PinnedArenas::PinChunk(Chunks* chunks,
                                                                    std::size_t chunk) {
  const std::lock_guard lock(registering_);
  std::atomic<ChunkState>& state = chunks->states[chunk];
  const ChunkState found = state.load(std::memory_order_relaxed);
  if (found != ChunkState::kUnknown) return found;
  const std::span<std::byte> range = chunks->Range(chunk);
  MoveClose(range);
  const Status status = backend_->RegisterHost(range.data(), range.size());
  if (!status.ok()) NoteFailure(status);
  const ChunkState made = status.ok() ? ChunkState::kPinned : ChunkState::kFailed;
  // Order: partner of the load in Pin; a thread that reads it finds the chunk registered.
  state.store(made, std::memory_order_release);
  return made;
}

void HostPins::PinnedArenas::NoteFailure(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = status.ToString();
}

HostPins::Part HostPins::PinnedArenas::Pin(const std::byte* data, std::size_t bytes) {
  Chunks* const chunks = ChunksOf(data);
  if (chunks == nullptr) return {bytes, false};
  const auto offset = static_cast<std::size_t>(data - chunks->range.data());
  const std::size_t chunk = offset / kChunkBytes;
  // Order: partner of the store in PinChunk.
  ChunkState state = chunks->states[chunk].load(std::memory_order_acquire);
  if (state == ChunkState::kUnknown) state = PinChunk(chunks, chunk);
  return {std::min(bytes, kChunkBytes - offset % kChunkBytes), state == ChunkState::kPinned};
}

namespace {

/// The one HostPins of all backends that share registrations. Another one is made only after the
/// last one has ended and its last registration is undone: otherwise both would register the same
/// memory.
class PinsByBackend {
 public:
  std::shared_ptr<HostPins> Of(const std::shared_ptr<DeviceBackend>& backend, CpuList nodes) {
    const void* const key = backend->Registrations();
    std::unique_lock lock(mutex_);
    for (auto found = all_.find(key); found != all_.end(); found = all_.find(key)) {
      if (auto pins = found->second.lock()) return pins;
      ended_.wait(lock);
    }
    const std::shared_ptr<HostPins> pins(new HostPins(backend, std::move(nodes)),
                                         [this, key](HostPins* last) { End(key, last); });
    all_[key] = pins;
    return pins;
  }

 private:
  void End(const void* key, HostPins* pins) {
    delete pins;
    const std::lock_guard lock(mutex_);
    all_.erase(key);
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<const void*, std::weak_ptr<HostPins>> all_;
};

}  // namespace

std::shared_ptr<HostPins> HostPins::Of(const std::shared_ptr<DeviceBackend>& backend,
                                       CpuList nodes) {
  static auto* const all = new PinsByBackend;  // never destroyed: feeds may end later
  return all->Of(backend, std::move(nodes));
}

HostPins::HostPins(std::shared_ptr<DeviceBackend> backend, CpuList nodes)
    : arenas_(std::make_shared<PinnedArenas>(std::move(backend), std::move(nodes))) {}

HostPins::~HostPins() { arenas_->Close(); }

HostPins::Part HostPins::Pin(const std::byte* data, std::size_t bytes) {
  return arenas_->Pin(data, bytes);
}

void HostPins::PlaceClose(const Arena& arena) const {
  arenas_->MoveClose({arena.data(), arena.bytes()});
}

void HostPins::PinAll(const std::byte* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) done += Pin(data + done, bytes - done).bytes;
}

bool HostPins::PinAll(std::span<const PendingCopy> copies) {
  bool all_pinned = true;
  // Rows follow each other in a slab, so most are in the stretch that was asked for last.
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  for (const PendingCopy& copy : copies) {
    if (copy.far != nullptr) continue;
    const std::byte* const copy_end = copy.from + copy.bytes;
    for (const std::byte* at = copy.from; at < copy_end; at = end) {
      if (begin <= at && at < end) continue;
      const Part part = Pin(at, kChunkBytes);
      all_pinned = all_pinned && part.pinned;
      begin = at;
      end = at + part.bytes;
    }
  }
  return all_pinned;
}

std::string HostPins::failure() const { return arenas_->failure(); }

Status CopyBack(HostPins* pins, DeviceBackend* backend, DeviceStream stream, std::byte* to,
                const std::byte* from, std::size_t bytes) {
  Status status;
  for (std::size_t done = 0; done < bytes && status.ok();) {
    const std::size_t part = pins->Pin(to + done, bytes - done).bytes;
    status = backend->CopyToHost(stream, to + done, from + done, part);
    done += part;
  }
  return status;
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
