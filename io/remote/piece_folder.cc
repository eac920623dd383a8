#include "io/remote/piece_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <span>
#include <thread>
#include <utility>

#include "base/little_endian.h"
#include "io/remote/piece_file.h"

namespace ringfeed {
namespace {

constexpr char kTotalName[] = ".total";
constexpr std::uint64_t kTotalMagic = 0x314c41544f544652;  // "RFTOTAL1"
constexpr std::size_t kTotalBytes = 24;                    // magic, bytes, XXH3-64 of both
constexpr mode_t kOfOthers = S_IWGRP | S_IWOTH;
constexpr int kSafeFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

Status Unfit(std::string why) { return Status(StatusCode::kInvalidArgument, std::move(why)); }

std::int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t UsedNs(const struct stat& facts) {
  return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

void NoteUse(int descriptor) {
  // Finer than UTIME_NOW, which is the time of the last tick.
  std::array<timespec, 2> times{};
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[1] = times[0];
  (void)futimens(descriptor, times.data());  // on a read-only file system nothing is removed either
}

bool IsSafeOwner(const struct stat& facts) {
  return (facts.st_uid == geteuid() || facts.st_uid == 0) && (facts.st_mode & kOfOthers) == 0;
}

}  // namespace

/// The folder's lock, until it is destroyed.
class PieceFolder::Lock {
 public:
  explicit Lock(PieceFolder* folder)
      : guard_(folder->mutex_),
        // A description of its own: one that is shared, as with a child of fork, is one holder.
        own_(openat(folder->folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    status_ = own_.get() < 0 ? Failure(errno, "open " + folder->path_) : Take(folder->path_);
  }
  // A child that was forked meanwhile has the description too: closing it would not do.
  ~Lock() {
    if (own_.get() >= 0) (void)flock(own_.get(), LOCK_UN);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  const Status& status() const { return status_; }

 private:
  Status Take(const std::string& path) const {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (flock(own_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EINTR && errno != EWOULDBLOCK) {
        return Failure(errno, "lock " + path + " (a local disk has locks)");
      }
      if (Clock::now() > deadline) {
        return Status(StatusCode::kIoError,
                      "another process has held the lock of " + path + " for ten seconds");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return {};
  }

  const std::lock_guard<std::mutex> guard_;
  const ScopedDescriptor own_;
  Status status_;
};

Status PieceFolder::Failure(int error_number, const std::string& what) {
  const Status status = StatusFromErrno(error_number, what);
  const bool passes = error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM;
  return passes ? status : Status(StatusCode::kIoError, status.message());
}

Status PieceFolder::Open(const std::string& path, bool make, std::unique_ptr<PieceFolder>* folder) {
  constexpr mode_t kOwn = 0700;
  if (make && mkdir(path.c_str(), kOwn) != 0 && errno != EEXIST) {
    return StatusFromErrno(errno, "make the folder " + path);
  }
  struct stat facts {};
  if (lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode)) {
    return Unfit(path + " is a link: name the folder that it leads to");
  }
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return StatusFromErrno(errno, "open the folder " + path);
  folder->reset(new PieceFolder(path, descriptor));
  return (*folder)->Examine();
}

Status PieceFolder::Examine() const {
  struct stat facts {};
  if (fstat(folder_.get(), &facts) != 0) return StatusFromErrno(errno, "examine " + path_);
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return Unfit(path_ +
                 " belongs to another user, who could change what is read from it: name a " +
                 "folder of your own");
  }
  if ((facts.st_mode & kOfOthers) == 0) return {};
  return Unfit("other users may write to " + path_ + " and change what is read from it: `chmod " +
               "go-w " + path_ + "`, or name another folder");
}

Status PieceFolder::Visit(const std::function<void(const char* name)>& visit) const {
  const int own = openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return Failure(errno, "open " + path_);
  DIR* const stream = fdopendir(own);
  if (stream == nullptr) {
    const int error = errno;
    (void)close(own);
    return Failure(error, "list " + path_);
  }
  errno = 0;
  while (const dirent* const entry = readdir(stream)) {
    visit(entry->d_name);
    errno = 0;
  }
  const int error = errno;
  (void)closedir(stream);
  return error == 0 ? Status() : Failure(error, "list " + path_);
}

Status PieceFolder::List(std::vector<File>* files) const {
  Status failure;
  const Status status = Visit([&](const char* name) {
    struct stat facts {};
    if (!IsPieceFileName(name) && !IsPartFileName(name)) return;
    if (fstatat(folder_.get(), name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) failure = Failure(errno, "examine a file of " + path_);
    } else if (S_ISREG(facts.st_mode)) {
      files->push_back({name, static_cast<std::uint64_t>(facts.st_size), UsedNs(facts)});
    }
  });
  return status.ok() ? failure : status;
}

bool PieceFolder::RemoveIfDead(const char* part) {
  const ScopedDescriptor file(openat(folder_.get(), part, O_RDWR | kSafeFlags));
  if (file.get() < 0 || flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  return unlinkat(folder_.get(), part, 0) == 0;
}

Status PieceFolder::CountAll(std::vector<File>* pieces, std::uint64_t* total) {
  *total = 0;
  Status status = List(pieces);
  std::erase_if(*pieces, [&](const File& file) {
    const bool is_part = IsPartFileName(file.name);
    if (!is_part || !RemoveIfDead(file.name.c_str())) *total += file.bytes;
    return is_part;
  });
  return status;
}

Status PieceFolder::CountAndTrim(std::uint64_t most_bytes, std::uint64_t* removed) {
  const Lock lock(this);
  if (!lock.status().ok()) return lock.status();
  oldest_.clear();
  std::uint64_t total = 0;
  Status status = CountAll(&oldest_, &total);
  if (!status.ok()) return status;
  // A time to come is older than all: else a clock that was set back would keep its pieces.
  const auto order = [now_ns = NowNs()](const File& file) {
    return file.used_ns > now_ns ? 0 : file.used_ns;
  };
  std::ranges::sort(oldest_, std::greater(), order);
  status = RemoveOldest(most_bytes, &total, removed);
  return status.ok() ? StoreTotal(total) : status;
}

Status PieceFolder::RemoveOldest(std::uint64_t most_bytes, std::uint64_t* total,
                                 std::uint64_t* removed) {
  while (*total > most_bytes && !oldest_.empty()) {
    const File oldest = std::move(oldest_.back());
    oldest_.pop_back();
    struct stat facts {};
    if (fstatat(folder_.get(), oldest.name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (UsedNs(facts) != oldest.used_ns) continue;  // it was used since
    Status status = Unlink(oldest.name);
    if (!status.ok()) return status;
    *total -= std::min(*total, static_cast<std::uint64_t>(facts.st_size));
    ++*removed;
  }
  return {};
}

Status PieceFolder::Reserve(const std::string& name, std::uint64_t bytes, std::uint64_t most_bytes,
                            Reservation* reservation) {
  const Lock lock(this);
  if (!lock.status().ok()) return lock.status();
  std::uint64_t total = 0;
  Status status = LoadTotal(&total);
  if (!status.ok()) return status;
  const std::string part = name + std::string(kPartEnding);
  struct stat facts {};
  if (fstatat(folder_.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) return {};
  if (fstatat(folder_.get(), part.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!RemoveIfDead(part.c_str())) return {};
    total -= std::min(total, static_cast<std::uint64_t>(facts.st_size));
  }
  if (bytes <= most_bytes) {
    status = RemoveOldest(most_bytes - bytes, &total, &reservation->removed);
  }
  const bool fits = bytes <= most_bytes && total <= most_bytes - bytes;
  const Status stored = StoreTotal(total + (fits && status.ok() ? bytes : 0));
  if (!status.ok() || !stored.ok() || !fits) return status.ok() ? stored : status;
  status = MakePart(part, bytes, &reservation->descriptor);
  if (!status.ok()) (void)StoreTotal(total);  // the total may be too large
  return status;
}

Status PieceFolder::MakePart(const std::string& part, std::uint64_t bytes, int* descriptor) {
  constexpr mode_t kOwn = 0600;
  const int file =
      openat(folder_.get(), part.c_str(), O_RDWR | O_CREAT | O_EXCL | kSafeFlags, kOwn);
  if (file < 0) return Failure(errno, "make a file in " + path_);
  if (flock(file, LOCK_EX | LOCK_NB) == 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    *descriptor = file;
    return {};
  }
  const int error = errno;
  (void)unlinkat(folder_.get(), part.c_str(), 0);
  (void)close(file);
  return Failure(error, "make a file in " + path_);
}

Status PieceFolder::Publish(const std::string& name, int descriptor) {
  const Lock lock(this);
  if (!lock.status().ok()) return lock.status();
  const std::string part = name + std::string(kPartEnding);
  std::uint64_t bytes = 0;
  // Somebody has emptied the folder.
  if (!IsNamed(part, descriptor, &bytes)) return {};
  NoteUse(descriptor);
  if (renameat(folder_.get(), part.c_str(), folder_.get(), name.c_str()) == 0) return {};
  return Failure(errno, "rename a file in " + path_);
}

Status PieceFolder::Abandon(const std::string& name, int descriptor) {
  return Remove(name + std::string(kPartEnding), descriptor);
}

Status PieceFolder::Remove(const std::string& name, int descriptor) {
  const Lock lock(this);
  if (!lock.status().ok()) return lock.status();
  std::uint64_t bytes = 0;
  if (!IsNamed(name, descriptor, &bytes)) return {};
  std::uint64_t total = 0;
  Status status = LoadTotal(&total);
  if (status.ok()) status = Unlink(name);
  return status.ok() ? StoreTotal(total - std::min(total, bytes)) : status;
}

Status PieceFolder::Unlink(const std::string& name) const {
  if (unlinkat(folder_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return Failure(errno, "remove a file of " + path_);
}

bool PieceFolder::IsNamed(const std::string& name, int descriptor, std::uint64_t* bytes) const {
  struct stat named {};
  struct stat opened {};
  if (fstatat(folder_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
      fstat(descriptor, &opened) != 0) {
    return false;
  }
  *bytes = static_cast<std::uint64_t>(named.st_size);
  return named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

int PieceFolder::OpenPiece(const std::string& name, bool use) const {
  const int descriptor = openat(folder_.get(), name.c_str(), O_RDONLY | kSafeFlags);
  if (descriptor >= 0 && use) NoteUse(descriptor);
  return descriptor;
}

bool PieceFolder::HasPiece(const std::string& name) const {
  return faccessat(folder_.get(), name.c_str(), R_OK, 0) == 0;
}

bool PieceFolder::IsSafe(int descriptor, std::uint64_t* bytes) const {
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0) return false;
  *bytes = static_cast<std::uint64_t>(facts.st_size);
  return S_ISREG(facts.st_mode) && IsSafeOwner(facts);
}

std::uint64_t PieceFolder::bytes() const {
  std::array<std::byte, kTotalBytes> text{};
  const ScopedDescriptor file(openat(folder_.get(), kTotalName, O_RDONLY | kSafeFlags));
  if (file.get() < 0 || ReadAllAt(file.get(), 0, text) != 0) return 0;
  return LoadLe<std::uint64_t>(text.data() + 8);
}

Status PieceFolder::LoadTotal(std::uint64_t* total) {
  std::array<std::byte, kTotalBytes> text{};
  const ScopedDescriptor file(openat(folder_.get(), kTotalName, O_RDONLY | kSafeFlags));
  if (file.get() < 0 && errno != ENOENT && errno != ELOOP) {
    return Failure(errno, std::string("open ") + kTotalName + " in " + path_);
  }
  std::uint64_t bytes = 0;
  if (file.get() >= 0 && IsSafe(file.get(), &bytes) && ReadAllAt(file.get(), 0, text) == 0 &&
      LoadLe<std::uint64_t>(text.data()) == kTotalMagic &&
      LoadLe<std::uint64_t>(text.data() + 16) == XXH3_64bits(text.data(), 16)) {
    *total = LoadLe<std::uint64_t>(text.data() + 8);
    return {};
  }
  // Somebody has removed or changed it.
  (void)unlinkat(folder_.get(), kTotalName, 0);
  std::vector<File> pieces;
  return CountAll(&pieces, total);
}

Status PieceFolder::StoreTotal(std::uint64_t total) const {
  constexpr mode_t kOwn = 0600;
  std::array<std::byte, kTotalBytes> text{};
  StoreLe(text.data(), kTotalMagic);
  StoreLe(text.data() + 8, total);
  StoreLe(text.data() + 16, static_cast<std::uint64_t>(XXH3_64bits(text.data(), 16)));
  const ScopedDescriptor file(
      openat(folder_.get(), kTotalName, O_WRONLY | O_CREAT | kSafeFlags, kOwn));
  const int error = file.get() < 0 ? errno : WriteAllAt(file.get(), 0, text);
  return error == 0 ? Status()
                    : Failure(error, std::string("write ") + kTotalName + " in " + path_);
}

}  // namespace ringfeed
