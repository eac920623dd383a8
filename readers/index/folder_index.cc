#include "readers/index/folder_index.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/scoped_descriptor.h"
#include "readers/formats/writing/output_file.h"

namespace ringfeed {
namespace {

constexpr std::size_t kHeadBytes = 28;
/// Beyond this a file of which half no longer holds is written anew.
constexpr std::uint64_t kLeastWrittenAnew = std::uint64_t{1} << 16;

Status Damaged(const std::string& what) { return Status(StatusCode::kDamaged, what); }

std::int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * std::int64_t{1000000000} + now.tv_nsec;
}

// Up to bytes.size() bytes; fewer at the end.
Status ReadFrom(int descriptor, std::uint64_t offset, std::span<std::byte> bytes,
                std::size_t* got) {
  *got = 0;
  while (*got < bytes.size()) {
    const ssize_t read = pread(descriptor, bytes.data() + *got, bytes.size() - *got,
                               static_cast<off_t>(offset + *got));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return StatusFromErrno(errno, "read");
    if (read == 0) return {};
    *got += static_cast<std::size_t>(read);
  }
  return {};
}

Status WriteAt(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return StatusFromErrno(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    offset += static_cast<std::uint64_t>(wrote);
  }
  return {};
}

struct Head {
  std::size_t name_bytes = 0;
  std::size_t index_bytes = 0;
  std::uint32_t checksum = 0;
  std::int64_t written_ns = 0;
};

bool DecodeHead(std::span<const std::byte> bytes, Head* head) {
  if (bytes.size() < kHeadBytes ||
      LoadLe<std::uint32_t>(bytes.data()) != Crc32c(bytes.subspan(4, kHeadBytes - 4))) {
    return false;
  }
  head->name_bytes = LoadLe<std::uint32_t>(bytes.data() + 4);
  head->index_bytes = LoadLe<std::uint32_t>(bytes.data() + 8);
  head->checksum = LoadLe<std::uint32_t>(bytes.data() + 12);
  head->written_ns = LoadLe<std::int64_t>(bytes.data() + 20);
  return head->name_bytes <= FolderIndexes::kMostNameBytes &&
         head->index_bytes <= FolderIndexes::kMostBytes;
}

std::vector<std::byte> Encoded(const std::string& name, std::span<const std::byte> index) {
  std::vector<std::byte> entry(kHeadBytes);
  const auto text = std::as_bytes(std::span(name));
  entry.insert(entry.end(), text.begin(), text.end());
  entry.insert(entry.end(), index.begin(), index.end());
  StoreLe(entry.data() + 4, static_cast<std::uint32_t>(name.size()));
  StoreLe(entry.data() + 8, static_cast<std::uint32_t>(index.size()));
  StoreLe(entry.data() + 12, Crc32c(std::span(entry).subspan(kHeadBytes)));
  StoreLe(entry.data() + 20, NowNs());
  StoreLe(entry.data(), Crc32c(std::span(entry).subspan(4, kHeadBytes - 4)));
  return entry;
}

// -1 sets errno. As of other companions of data, O_NONBLOCK keeps a FIFO from being waited for.
int OpenFile(const std::string& path, int flags) {
  constexpr mode_t kMode = 0666;
  return open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, kMode);
}

Status Examine(const ScopedDescriptor& descriptor, const std::string& path, struct stat* facts) {
  if (fstat(descriptor.get(), facts) != 0) return StatusFromErrno(errno, "examine " + path);
  return S_ISREG(facts->st_mode) ? Status() : Damaged(path + " is no file");
}

// Held until the descriptor is closed. A writer holds it for less than a millisecond, unless it is
// stopped: then the index gets a file by itself.
Status Lock(const ScopedDescriptor& descriptor, const std::string& path) {
  constexpr int kTries = 2000;
  for (int tries = 0; flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EINTR && (errno != EWOULDBLOCK || tries == kTries)) {
      return Status(StatusCode::kUnsupported, StatusFromErrno(errno, "lock " + path).message());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

}  // namespace

std::shared_ptr<FolderIndexes::Folder> FolderIndexes::FolderOf(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Folder>& folder = folders_[path];
  if (folder == nullptr) folder = std::make_shared<Folder>();
  return folder;
}

Status FolderIndexes::CatchUp(int descriptor, Folder* folder) {
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0) return StatusFromErrno(errno, "examine");
  const FileState now = FileState::Of(facts);
  if (now == folder->state) return {};
  if (now.inode != folder->state.inode || now.device != folder->state.device ||
      now.bytes < folder->end) {
    folder->places.clear();
    folder->end = 0;
    folder->holding_bytes = 0;
  }
  constexpr std::size_t kPieceBytes = std::size_t{1} << 18;
  std::vector<std::byte> piece(std::min<std::uint64_t>(now.bytes - folder->end, kPieceBytes));
  std::size_t got = 0;
  if (folder->end == 0) {
    const auto first = std::span(piece).first(std::min(piece.size(), kMagic.size()));
    Status status = ReadFrom(descriptor, 0, first, &got);
    if (!status.ok()) return status;
    const auto magic = std::as_bytes(std::span(kMagic));
    if (got < magic.size() || !std::equal(magic.begin(), magic.end(), piece.begin())) return {};
    folder->end = kMagic.size();
  }
  while (folder->end < now.bytes) {
    Status status = ReadFrom(descriptor, folder->end, piece, &got);
    if (!status.ok()) return status;
    std::span<const std::byte> left = std::span(piece).first(got);
    Head head;
    std::size_t used = 0;
    while (DecodeHead(left, &head)) {
      const std::size_t bytes = kHeadBytes + head.name_bytes + head.index_bytes;
      if (bytes > left.size()) break;
      std::string name(reinterpret_cast<const char*>(left.data()) + kHeadBytes, head.name_bytes);
      Place& place = folder->places[std::move(name)];
      folder->holding_bytes += bytes - place.bytes;
      place = {folder->end, bytes};
      folder->end += bytes;
      used += bytes;
      left = left.subspan(bytes);
    }
    if (used == 0) break;  // what a killed writer left, or damage
  }
  folder->state = now;
  return {};
}

Status FolderIndexes::Read(const std::string& path, const std::string& name, Entry* entry) {
  const std::shared_ptr<Folder> folder = FolderOf(path);
  const ScopedDescriptor descriptor(OpenFile(path, O_RDONLY));
  if (descriptor.get() < 0) return StatusFromErrno(errno, "open " + path);
  struct stat facts {};
  Status status = Examine(descriptor, path, &facts);
  Place place;
  if (status.ok()) {
    const std::lock_guard lock(folder->mutex);
    status = CatchUp(descriptor.get(), folder.get());
    const auto found = folder->places.find(name);
    if (found == folder->places.end() && status.ok()) {
      status = Status(StatusCode::kNotFound, path + " has no index of " + name);
    }
    if (status.ok()) place = found->second;
  }
  if (!status.ok()) return status;
  std::vector<std::byte> bytes(static_cast<std::size_t>(place.bytes));
  std::size_t got = 0;
  status = ReadFrom(descriptor.get(), place.offset, bytes, &got);
  if (!status.ok()) return status;
  Head head;
  const auto content = std::span<const std::byte>(bytes).subspan(kHeadBytes);
  if (got < bytes.size() || !DecodeHead(bytes, &head) || head.name_bytes != name.size() ||
      name.size() + head.index_bytes != content.size() || Crc32c(content) != head.checksum ||
      std::memcmp(content.data(), name.data(), name.size()) != 0) {
    return Damaged("its entry in " + path + " is damaged");
  }
  entry->index.assign(content.begin() + static_cast<std::ptrdiff_t>(head.name_bytes),
                      content.end());
  entry->written_ns = head.written_ns;
  return {};
}

Status FolderIndexes::WriteAnew(int descriptor, const std::string& path, Folder* folder) {
  OutputFile file(path);
  file.ReplaceLink();
  Status status = file.Open();
  if (status.ok()) status = file.Append(std::as_bytes(std::span(kMagic)));
  std::vector<std::byte> bytes;
  for (const auto& [name, place] : folder->places) {
    if (!status.ok()) break;
    bytes.resize(static_cast<std::size_t>(place.bytes));
    std::size_t got = 0;
    status = ReadFrom(descriptor, place.offset, bytes, &got);
    if (status.ok()) status = file.Append(bytes);
  }
  return status.ok() ? file.Commit() : status;
}

Status FolderIndexes::AppendLocked(int descriptor, const std::string& path, const std::string& name,
                                   std::span<const std::byte> index, Folder* folder) {
  Status status = CatchUp(descriptor, folder);
  if (!status.ok()) return status;
  const bool begins = folder->end == 0;
  if (ftruncate(descriptor, static_cast<off_t>(folder->end)) != 0) {
    return StatusFromErrno(errno, "cut " + path);
  }
  std::vector<std::byte> entry = Encoded(name, index);
  if (begins) {
    const auto magic = std::as_bytes(std::span(kMagic));
    entry.insert(entry.begin(), magic.begin(), magic.end());
  }
  status = WriteAt(descriptor, folder->end, entry);
  if (!status.ok()) {
    (void)(begins ? unlink(path.c_str()) : ftruncate(descriptor, static_cast<off_t>(folder->end)));
    return status;
  }
  status = CatchUp(descriptor, folder);
  if (!status.ok() || folder->end < kLeastWrittenAnew || folder->holding_bytes > folder->end / 2) {
    return status;
  }
  return WriteAnew(descriptor, path, folder);
}

Status FolderIndexes::Append(const std::string& path, const std::string& name,
                             std::span<const std::byte> index) {
  if (name.size() > kMostNameBytes || index.size() > kMostBytes) {
    return Status(StatusCode::kUnsupported, "the index is too large for one of several");
  }
  const std::shared_ptr<Folder> folder = FolderOf(path);
  const std::lock_guard lock(folder->mutex);
  while (true) {
    const ScopedDescriptor descriptor(OpenFile(path, O_RDWR | O_CREAT));
    if (descriptor.get() < 0) {
      const int why = errno;
      if (why == ELOOP && unlink(path.c_str()) == 0) continue;
      return StatusFromErrno(why, "open " + path);
    }
    struct stat facts {};
    Status status = Examine(descriptor, path, &facts);
    if (status.ok()) status = Lock(descriptor, path);
    if (!status.ok()) return status;
    // Another writer may have replaced it before the lock was ours.
    struct stat named {};
    if (lstat(path.c_str(), &named) != 0 || named.st_ino != facts.st_ino ||
        named.st_dev != facts.st_dev) {
      continue;
    }
    return AppendLocked(descriptor.get(), path, name, index, folder.get());
  }
}

}  // namespace ringfeed
