#include "io/file_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>

namespace ringfeed {

namespace {

/// What a file is known by: another one, or other contents, differ in at least one of these.
struct FileKey {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  auto operator<=>(const FileKey&) const = default;
};

FileKey KeyOf(const struct stat& stat) {
  return {static_cast<std::uint64_t>(stat.st_dev), static_cast<std::uint64_t>(stat.st_ino),
          static_cast<std::int64_t>(stat.st_size), static_cast<std::int64_t>(stat.st_mtim.tv_sec),
          static_cast<std::int64_t>(stat.st_mtim.tv_nsec)};
}

using MappingPtr = std::shared_ptr<const FileMapping>;

/// The mappings that are kept, the one used last in front. Whoever uses a mapping that is dropped
/// here keeps it until done.
class KeptMappings {
 public:
  MappingPtr Find(const FileKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    if (found->second->mapping->damaged()) {
      entries_.erase(found->second);
      by_key_.erase(found);
      return nullptr;
    }
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->mapping;
  }

  /// Keeps `mapping`, unless another thread was first: returns the one that is kept.
  MappingPtr Keep(const FileKey& key, MappingPtr mapping) {
    MappingPtr dropped;  // unmapped after the lock is given back
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) return found->second->mapping;
    entries_.push_front({key, mapping});
    by_key_[key] = entries_.begin();
    if (entries_.size() > FileMapping::kMaxKept) {
      dropped = std::move(entries_.back().mapping);
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
    return mapping;
  }

 private:
  struct Entry {
    FileKey key;
    MappingPtr mapping;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::map<FileKey, std::list<Entry>::iterator> by_key_;
};

KeptMappings& Kept() {
  // Never destroyed: files in static objects may outlive it.
  static auto* const kept = new KeptMappings;
  return *kept;
}

}  // namespace

FileMapping::FileMapping(std::span<const std::byte> bytes) : bytes_(bytes) {
  guard_.emplace(bytes.data(), bytes.size());
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::byte* const last = bytes.data() + bytes.size() - 1;
  const std::byte* const first = bytes.data() + (bytes.size() - 1) / page * page;
  probe_ = last;
  while (probe_ != first && *probe_ == std::byte{0}) --probe_;
  if (*probe_ == std::byte{0}) probe_ = last;
  probe_value_ = *probe_;
}

bool FileMapping::damaged() const {
  // Behind what the caller has read.
  asm volatile("" ::: "memory");
  const std::byte seen = *const_cast<const volatile std::byte*>(probe_);
  return seen != probe_value_ || guard_->damaged();
}

FileMapping::~FileMapping() {
  guard_.reset();
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<const FileMapping> FileMapping::Open(int descriptor, const struct stat& stat,
                                                     Status* status) {
  const FileKey key = KeyOf(stat);
  if (MappingPtr kept = Kept().Find(key)) return kept;
  const auto bytes = static_cast<std::size_t>(stat.st_size);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    *status = StatusFromErrno(errno, "mapping it");
    return nullptr;
  }
  MappingPtr mapping(new FileMapping({static_cast<const std::byte*>(data), bytes}));
  return Kept().Keep(key, std::move(mapping));
}

bool FileMapping::IsKept(const struct stat& stat) { return Kept().Find(KeyOf(stat)) != nullptr; }

}  // namespace ringfeed
