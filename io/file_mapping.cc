#include "io/file_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <compare>
#include <cstdint>
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

}  // namespace

/// The mappings that somebody has. It owns none of them.
class OpenMappings {
 public:
  static OpenMappings& All() {
    // Never destroyed: files in static objects may outlive it.
    static auto* const all = new OpenMappings;
    return *all;
  }

  /// Null where nobody has it, or the file was found shorter than it.
  MappingPtr Find(const FileKey& key) {
    MappingPtr found;  // the last owner may be this one, and lets go after the lock
    {
      const std::lock_guard lock(mutex_);
      const auto place = by_key_.find(key);
      if (place == by_key_.end()) return nullptr;
      found = place->second.lock();
    }
    return found != nullptr && !found->damaged() ? found : nullptr;
  }

  /// Notes a new mapping, unless another thread was first: returns the one that is noted.
  MappingPtr Note(const FileKey& key, std::span<const std::byte> bytes) {
    // Both may be let go of here, which takes the lock: so they outlast it.
    MappingPtr first;
    MappingPtr mapping(new FileMapping(bytes), [key](const FileMapping* last) {
      All().Forget(key);
      delete last;
    });
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const FileMapping>& noted = by_key_[key];
    first = noted.lock();
    if (first != nullptr && !first->damaged()) return first;
    noted = mapping;
    return mapping;
  }

  std::size_t Count() {
    const std::lock_guard lock(mutex_);
    return by_key_.size();
  }

 private:
  /// A mapping of that file has no owners any more. Another one may have taken its place.
  void Forget(const FileKey& key) {
    const std::lock_guard lock(mutex_);
    const auto place = by_key_.find(key);
    if (place != by_key_.end() && place->second.expired()) by_key_.erase(place);
  }

  std::mutex mutex_;
  std::map<FileKey, std::weak_ptr<const FileMapping>> by_key_;
};

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
  if (MappingPtr open = OpenMappings::All().Find(key)) return open;
  const auto bytes = static_cast<std::size_t>(stat.st_size);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    *status = StatusFromErrno(errno, "mapping it");
    return nullptr;
  }
  return OpenMappings::All().Note(key, {static_cast<const std::byte*>(data), bytes});
}

bool FileMapping::IsMapped(const struct stat& stat) {
  return OpenMappings::All().Find(KeyOf(stat)) != nullptr;
}

std::size_t FileMapping::Count() { return OpenMappings::All().Count(); }

}  // namespace ringfeed
