#include "readers/engine/sources/cache_room.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/memory/memory_limit.h"

namespace ringfeed {

namespace {

/// The sizes of so many files give an estimate for all: on a network each look takes long.
constexpr std::size_t kMostLookedAt = 64;

}  // namespace

std::uint64_t CacheRoom::bytes() {
  if (!bytes_) bytes_ = AvailableMemory() / 2;
  return *bytes_;
}

CacheRoom::Taken CacheRoom::Take(const std::string& name, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (names_.contains(name)) return Taken::kAgain;
  if (bytes > this->bytes() - taken_bytes_) return Taken::kNone;
  taken_bytes_ += bytes;
  names_.insert(name);
  return Taken::kNew;
}

bool CacheRoom::HasRoomForAll(std::size_t files,
                              const std::function<const std::string&(std::size_t file)>& name,
                              std::size_t ranks) {
  const std::lock_guard lock(mutex_);
  if (has_room_for_all_) return *has_room_for_all_;
  const std::size_t looked_at = std::min(files, kMostLookedAt);
  double sum = 0;
  for (std::size_t i = 0; i < looked_at; ++i) {
    struct stat stat {};
    if (::stat(name(i * files / looked_at).c_str(), &stat) == 0) {
      sum += static_cast<double>(stat.st_size);
    }
  }
  const double mean = sum / static_cast<double>(std::max<std::size_t>(1, looked_at));
  const double all = mean * static_cast<double>(files) * static_cast<double>(ranks);
  has_room_for_all_ = all <= static_cast<double>(bytes());
  return *has_room_for_all_;
}

}  // namespace ringfeed
