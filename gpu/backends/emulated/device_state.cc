#include "gpu/backends/emulated/device_state.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

namespace ringfeed {

namespace {

constexpr std::size_t kMostFreedBytes = std::size_t{16} << 20;
constexpr std::align_val_t kAlign{EmulatedMemory::kAlignment};

std::uintptr_t AddressOf(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }

// Null if there is no memory. mimalloc 2.0.9 aligns blocks of 256, 512 and 1024 bytes to only half
// the alignment asked for, and libstdc++ rounds smaller ones up to these. (Checking the result does
// not help: the compiler takes the alignment for granted.)
std::byte* NewAligned(std::size_t bytes) {
  constexpr std::size_t kLeastAligned = 1025;
  const std::size_t asked = std::max(bytes, kLeastAligned);
  return static_cast<std::byte*>(::operator new(asked, kAlign, std::nothrow));
}

}  // namespace

RangeTable::Place RangeTable::Find(std::uintptr_t address) const {
  const auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return ranges.end();
  const auto found = std::prev(next);
  return address < found->second.end ? found : ranges.end();
}

bool RangeTable::Overlaps(std::uintptr_t begin, std::uintptr_t end) const {
  const auto next = ranges.lower_bound(end);
  return next != ranges.begin() && std::prev(next)->second.end > begin;
}

std::shared_ptr<HostRanges> HostRanges::OfProcess() {
  static const auto ranges = std::make_shared<HostRanges>();
  return ranges;
}

bool HostRanges::Register(const void* owner, const std::byte* data, std::size_t bytes) {
  const std::unique_lock lock(mutex_);
  const std::uintptr_t begin = AddressOf(data);
  if (table_.Overlaps(begin, begin + bytes)) return false;
  table_.ranges[begin] = {begin + bytes, owner, -1, table_.made++};
  return true;
}

std::size_t HostRanges::RegisteredBytes(const void* owner, const std::byte* data) const {
  const std::shared_lock lock(mutex_);
  const auto found = table_.ranges.find(AddressOf(data));
  if (found == table_.ranges.end() || found->second.owner != owner) return 0;
  return found->second.end - found->first;
}

void HostRanges::Unregister(const std::byte* data) {
  const std::unique_lock lock(mutex_);
  table_.ranges.erase(AddressOf(data));
}

void HostRanges::UnregisterAll(const void* owner) {
  const std::unique_lock lock(mutex_);
  std::erase_if(table_.ranges, [owner](const auto& range) { return range.second.owner == owner; });
}

HostRanges::Registered HostRanges::WhereRegistered(const std::byte* data, std::size_t bytes) const {
  const std::shared_lock lock(mutex_);
  const std::uintptr_t begin = AddressOf(data);
  const auto found = table_.Find(begin);
  if (found != table_.ranges.end() && bytes <= found->second.end - begin)
    return Registered::kInside;
  return table_.Overlaps(begin, begin + bytes) ? Registered::kAcross : Registered::kOutside;
}

std::size_t HostRanges::CountOf(const void* owner) const {
  const std::shared_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [begin, range] : table_.ranges) count += range.owner == owner ? 1 : 0;
  return count;
}

std::string HostRanges::Describe(const std::byte* data) const {
  const std::shared_lock lock(mutex_);
  const auto found = table_.Find(AddressOf(data));
  if (found == table_.ranges.end()) return "";
  return "registration " + std::to_string(found->second.number) + " + " +
         std::to_string(AddressOf(data) - found->first);
}

EmulatedMemory::EmulatedMemory(std::span<const EmulatedDevice> devices,
                               std::shared_ptr<HostRanges> host)
    : host_(std::move(host)) {
  for (const EmulatedDevice& device : devices) free_bytes_.push_back(device.memory_bytes);
  least_free_bytes_ = free_bytes_;
}

EmulatedMemory::~EmulatedMemory() {
  host_->UnregisterAll(this);
  DropFreed(0);
  for (std::byte* const data : freed_in_flight_) ::operator delete(data, kAlign);
  for (const auto& [begin, range] : allocations_.ranges) {
    ::operator delete(reinterpret_cast<std::byte*>(begin), kAlign);
  }
}

void EmulatedMemory::DropFreed(std::size_t most_bytes) {
  while (freed_bytes_ > most_bytes) {
    ::operator delete(freed_.front().data, kAlign);
    freed_bytes_ -= freed_.front().bytes;
    freed_.pop_front();
  }
}

Status EmulatedMemory::Allocate(int device, std::size_t bytes, std::byte** data) {
  const std::unique_lock lock(mutex_);
  std::size_t& free = free_bytes_[static_cast<std::size_t>(device)];
  if (bytes > free) {
    return Status(StatusCode::kResourceExhausted, "device " + std::to_string(device) + " has " +
                                                      std::to_string(free) + " bytes left, " +
                                                      std::to_string(bytes) + " were asked for");
  }
  std::byte* memory = NewAligned(bytes);
  if (memory == nullptr) {
    return Status(StatusCode::kResourceExhausted, "the machine has no " + std::to_string(bytes) +
                                                      " bytes for device " +
                                                      std::to_string(device));
  }
  std::memset(memory, static_cast<int>(kFresh), bytes);
  free -= bytes;
  std::size_t& least = least_free_bytes_[static_cast<std::size_t>(device)];
  least = std::min(least, free);
  allocations_.ranges[AddressOf(memory)] = {AddressOf(memory) + bytes, nullptr, device,
                                            allocations_.made++};
  *data = memory;
  return {};
}

std::size_t EmulatedMemory::AllocationBytes(int device, const std::byte* data) const {
  const std::shared_lock lock(mutex_);
  const auto found = allocations_.ranges.find(AddressOf(data));
  if (found == allocations_.ranges.end() || found->second.device != device) return 0;
  return found->second.end - found->first;
}

std::size_t EmulatedMemory::TakeOut(std::byte* data) {
  const auto found = allocations_.ranges.find(AddressOf(data));
  assert(found != allocations_.ranges.end());
  const std::size_t bytes = found->second.end - found->first;
  free_bytes_[static_cast<std::size_t>(found->second.device)] += bytes;
  allocations_.ranges.erase(found);
  return bytes;
}

void EmulatedMemory::FreeInFlight(std::byte* data) {
  const std::unique_lock lock(mutex_);
  (void)TakeOut(data);
  freed_in_flight_.push_back(data);
}

void EmulatedMemory::Free(std::byte* data) {
  const std::unique_lock lock(mutex_);
  const std::size_t bytes = TakeOut(data);
  std::memset(data, static_cast<int>(kFreed), bytes);
  freed_.push_back({data, bytes});
  freed_bytes_ += bytes;
  DropFreed(kMostFreedBytes);
}

bool EmulatedMemory::InAllocation(int device, const std::byte* data, std::size_t bytes) const {
  const std::shared_lock lock(mutex_);
  const auto found = allocations_.Find(AddressOf(data));
  return found != allocations_.ranges.end() && found->second.device == device &&
         bytes <= found->second.end - AddressOf(data);
}

bool EmulatedMemory::TouchesDeviceMemory(const std::byte* data, std::size_t bytes) const {
  const std::shared_lock lock(mutex_);
  return allocations_.Overlaps(AddressOf(data), AddressOf(data) + bytes);
}

std::size_t EmulatedMemory::FreeBytes(int device) const {
  const std::shared_lock lock(mutex_);
  return free_bytes_[static_cast<std::size_t>(device)];
}

std::size_t EmulatedMemory::LeastFreeBytes(int device) const {
  const std::shared_lock lock(mutex_);
  return least_free_bytes_[static_cast<std::size_t>(device)];
}

std::size_t EmulatedMemory::allocations() const {
  const std::shared_lock lock(mutex_);
  return allocations_.ranges.size();
}

std::string EmulatedMemory::Describe(const std::byte* data) const {
  const std::shared_lock lock(mutex_);
  const std::uintptr_t address = AddressOf(data);
  if (const auto found = allocations_.Find(address); found != allocations_.ranges.end()) {
    return "allocation " + std::to_string(found->second.number) + " of device " +
           std::to_string(found->second.device) + " + " + std::to_string(address - found->first);
  }
  std::string registered = host_->Describe(data);
  if (!registered.empty()) return registered;
  return data == nullptr ? "null" : "memory that nobody knows";
}

std::string Offence::ToString() const {
  std::string text = rule + ": " + first;
  if (!second.empty()) text += "; and " + second;
  return text;
}

void OffenceLog::Note(std::string_view rule, std::string first, std::string second) {
  const std::lock_guard lock(mutex_);
  if (offences_.size() == kMost) return;
  offences_.push_back({std::string(rule), std::move(first), std::move(second)});
}

std::vector<Offence> OffenceLog::offences() const {
  const std::lock_guard lock(mutex_);
  return offences_;
}

}  // namespace ringfeed
