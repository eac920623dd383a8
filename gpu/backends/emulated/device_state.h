#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Ranges of addresses that do not overlap, numbered in order of creation.
struct RangeTable {
  struct Range {
    std::uintptr_t end = 0;
    const void* owner = nullptr;  ///< of host memory
    int device = -1;              ///< of device memory
    std::size_t number = 0;
  };
  using Place = std::map<std::uintptr_t, Range>::const_iterator;

  /// The range around the address; end(): none.
  Place Find(std::uintptr_t address) const;
  bool Overlaps(std::uintptr_t begin, std::uintptr_t end) const;

  std::map<std::uintptr_t, Range> ranges;
  std::size_t made = 0;
};

/// Which host memory is registered, and by which owner: one set of devices, or all those of the
/// process. Owners are told apart by address.
///
/// Thread safety: all calls from any thread.
class HostRanges {
 public:
  enum class Registered : std::uint8_t { kInside, kOutside, kAcross };

  /// The object that all sharing devices use.
  static std::shared_ptr<HostRanges> OfProcess();

  /// False if it would overlap a registered range.
  bool Register(const void* owner, const std::byte* data, std::size_t bytes);
  /// The size of the owner's range that starts at `data`; 0: there is none.
  std::size_t RegisteredBytes(const void* owner, const std::byte* data) const;
  void Unregister(const std::byte* data);
  /// Unregisters all ranges of the owner.
  void UnregisterAll(const void* owner);
  Registered WhereRegistered(const std::byte* data, std::size_t bytes) const;
  std::size_t CountOf(const void* owner) const;
  /// "registration 3 + 512"; empty for memory that is not registered.
  std::string Describe(const std::byte* data) const;

 private:
  mutable std::shared_mutex mutex_;
  RangeTable table_;
};

/// The memory there is: allocations on devices, and registered host memory.
///
/// Device memory is host memory. Fresh memory holds 0xEE, freed memory 0xFD. Freed memory goes back
/// to the system late, so that a read after the free finds 0xFD and not other data. Memory that was
/// freed while work used it goes back at the very end, because that work still runs.
///
/// Thread safety: all calls from any thread. Devices' own threads call Describe alone, and only to
/// report an offence: the lock would order their earlier work before the host's next calls.
class EmulatedMemory {
 public:
  static constexpr std::byte kFresh{0xEE};
  static constexpr std::byte kFreed{0xFD};
  static constexpr std::size_t kAlignment = 256;

  using Registered = HostRanges::Registered;

  explicit EmulatedMemory(std::span<const EmulatedDevice> devices,
                          std::shared_ptr<HostRanges> host = std::make_shared<HostRanges>());
  EmulatedMemory(const EmulatedMemory&) = delete;
  EmulatedMemory& operator=(const EmulatedMemory&) = delete;
  ~EmulatedMemory();

  /// kResourceExhausted if the device or the machine has no more.
  Status Allocate(int device, std::size_t bytes, std::byte** data);
  /// The size of the device's allocation that starts at `data`; 0: there is none.
  std::size_t AllocationBytes(int device, const std::byte* data) const;
  /// Frees an existing allocation.
  void Free(std::byte* data);
  /// The same for one that work in flight uses. Leaves its bytes to that work.
  void FreeInFlight(std::byte* data);
  /// Whether all of [data, data + bytes) is in one allocation of the device.
  bool InAllocation(int device, const std::byte* data, std::size_t bytes) const;
  /// Whether any of it is in an allocation of any device.
  bool TouchesDeviceMemory(const std::byte* data, std::size_t bytes) const;
  std::size_t FreeBytes(int device) const;
  /// The fewest that were free at a time.
  std::size_t LeastFreeBytes(int device) const;

  // As HostRanges has them, of these devices.
  bool Register(const std::byte* data, std::size_t bytes) {
    return host_->Register(this, data, bytes);
  }
  std::size_t RegisteredBytes(const std::byte* data) const {
    return host_->RegisteredBytes(this, data);
  }
  void Unregister(const std::byte* data) { host_->Unregister(data); }
  Registered WhereRegistered(const std::byte* data, std::size_t bytes) const {
    return host_->WhereRegistered(data, bytes);
  }
  std::size_t registrations() const { return host_->CountOf(this); }
  const HostRanges* host() const { return host_.get(); }

  std::size_t allocations() const;
  /// "allocation 2 of device 1 + 512". Numbers count from 0 in order of creation, so that the same
  /// run gives the same text whatever the addresses.
  std::string Describe(const std::byte* data) const;

 private:
  struct Freed {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  void DropFreed(std::size_t most_bytes);
  // Takes an allocation out; its size. Under mutex_.
  std::size_t TakeOut(std::byte* data);

  const std::shared_ptr<HostRanges> host_;
  mutable std::shared_mutex mutex_;
  std::vector<std::size_t> free_bytes_;        // by device
  std::vector<std::size_t> least_free_bytes_;  // the same
  RangeTable allocations_;
  std::deque<Freed> freed_;
  std::size_t freed_bytes_ = 0;
  std::vector<std::byte*> freed_in_flight_;
};

/// Collects offences up to a bound, because a loop that breaks a rule breaks it in each round.
///
/// Thread safety: all calls from any thread.
class OffenceLog {
 public:
  static constexpr std::size_t kMost = 1'000;

  void Note(std::string_view rule, std::string first, std::string second = {});
  std::vector<Offence> offences() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Offence> offences_;
};

}  // namespace ringfeed
