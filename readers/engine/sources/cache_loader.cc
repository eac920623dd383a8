#include "readers/engine/sources/cache_loader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "io/page_cache.h"

namespace ringfeed {

namespace {

std::uint64_t LargestFile(const FileTable& table) {
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < table.files(); ++i) largest = std::max(largest, table.file(i).bytes);
  return largest;
}

}  // namespace

CacheLoader::CacheLoader(std::shared_ptr<const FileTable> table, std::shared_ptr<CacheRoom> room)
    : table_(std::move(table)),
      room_(std::move(room)),
      step_bytes_(std::min(kMostStepBytes, LargestFile(*table_) / 4 + 1)),
      begun_(table_->files()) {}

CacheLoader::~CacheLoader() { End(); }

void CacheLoader::End() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  file_.reset();
}

CacheLoader::Loaded CacheLoader::Load(std::size_t file, std::uint64_t bytes) {
  Loaded loaded;
  if (ended_.load(std::memory_order_relaxed)) return loaded;
  const std::uint64_t more = kLoadedPerByte * bytes;
  if (owed_bytes_.fetch_add(more, std::memory_order_relaxed) + more < step_bytes_) return loaded;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return loaded;
  if (!FindOne(file)) {
    ended_.store(true, std::memory_order_relaxed);
    return loaded;
  }
  loaded.bytes = std::min(step_bytes_, file_bytes_ - asked_);
  posix_fadvise(descriptor_, static_cast<off_t>(asked_), static_cast<off_t>(loaded.bytes),
                POSIX_FADV_WILLNEED);
  asked_ += loaded.bytes;
  // Bytes owed beyond a step are dropped: reads that come all at once must not bring a flood.
  owed_bytes_.store(0, std::memory_order_relaxed);
  if (asked_ < file_bytes_) return loaded;
  loaded.whole = file_;
  End();
  return loaded;
}

bool CacheLoader::FindOne(std::size_t file) {
  if (file_) return true;
  const auto name = [this](std::size_t number) -> const std::string& {
    return table_->file(number).name;
  };
  if (!room_->HasRoomForAll(table_->files(), name)) return false;
  if (Begin(file)) return true;
  while (next_ < begun_.size()) {
    if (Begin(next_++)) return true;
  }
  return false;
}

bool CacheLoader::Begin(std::size_t number) {
  if (begun_[number]) return false;
  begun_[number] = true;
  const DataFile& data = table_->file(number);
  if (data.source != nullptr || data.bytes == 0) return false;
  descriptor_ = open(data.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat stat {};
  // The lane that reads it says what is wrong.
  if (descriptor_ < 0 || fstat(descriptor_, &stat) != 0 || !S_ISREG(stat.st_mode)) {
    End();
    return false;
  }
  file_bytes_ = static_cast<std::uint64_t>(stat.st_size);
  asked_ = 0;
  if (file_bytes_ == 0 || ResidentShare(descriptor_, file_bytes_) >= kResidentFrom ||
      room_->Take(data.name, file_bytes_) != CacheRoom::Taken::kNew) {
    End();
    return false;
  }
  file_ = number;
  return true;
}

}  // namespace ringfeed
