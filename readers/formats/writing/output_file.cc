#include "readers/formats/writing/output_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/data_file.h"
#include "io/remote/address.h"
#include "io/remote/object_writer.h"
#include "io/wide_pipe.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as Linux follows

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::atomic<std::uint64_t> next_number{0};  // of temporary files

// Hidden: what a killed process leaves must not match the pattern of a data set, such as `data/*`.
std::string NextTemporaryName(const std::string& target) {
  const fs::path place(target);
  std::uint64_t random = 0;
  // Without it, as early in a system's life, O_EXCL still keeps another process's file from being
  // used.
  (void)::getrandom(&random, sizeof(random), GRND_NONBLOCK);
  std::array<char, 18> digits{};
  std::snprintf(digits.data(), digits.size(), "-%016llx", static_cast<unsigned long long>(random));
  const std::string ending = kPartialFileMark + std::to_string(::getpid()) + "-" +
                             std::to_string(next_number.fetch_add(1, std::memory_order_relaxed)) +
                             digits.data();
  std::string name = place.filename().string();
  // Refuses a name that is too long by itself now, not after all is written.
  if (name.size() <= NAME_MAX) name.resize(std::min(name.size(), NAME_MAX - 1 - ending.size()));
  return (place.parent_path() / ("." + name + ending)).string();
}

Status NoFile(const struct stat& facts, const std::string& path) {
  const bool folder = S_ISDIR(facts.st_mode);
  return Status(StatusCode::kInvalidArgument,
                path + (folder ? " is a folder" : " is a device, a FIFO or a socket") +
                    ": a file under this name would take its place; name a regular file");
}

}  // namespace

Status FindOutputTarget(const std::string& path, std::string* target) {
  fs::path place(path);
  if (IsRemote(path)) {
    return Status(StatusCode::kUnsupported, "it is written to a disk alone: name a path",
                  {ShownAddress(path), -1, -1});
  }
  if (Status status = RefuseAddress(path); !status.ok()) return status;
  std::error_code failure;
  for (int links = 0; fs::is_symlink(fs::symlink_status(place, failure)); ++links) {
    if (links == kMostLinks) return StatusFromErrno(ELOOP, "follow the link " + path);
    const fs::path to = fs::read_symlink(place, failure);
    if (failure) return StatusFromErrno(failure.value(), "follow the link " + path);
    place = to.is_absolute() ? to : place.parent_path() / to;
  }
  struct stat facts {};
  if (stat(place.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) return NoFile(facts, path);
  *target = place.string();
  return {};
}

Status CheckOutput(const std::string& path) {
  std::string target;
  std::unique_ptr<ObjectWriter> object;
  return IsRemote(path) ? ObjectWriter::Open(path, {}, &object) : FindOutputTarget(path, &target);
}

OutputFile::OutputFile(std::string path, Compression compression)
    : path_(std::move(path)),
      compressor_(compression == Compression::kNone ? nullptr : MakeCompressor(compression)) {}

OutputFile::OutputFile(int descriptor, std::string name, Compression compression)
    : OutputFile(std::move(name), compression) {
  descriptor_ = descriptor;
  WidenPipe(descriptor_);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0 || temporary_.empty()) return;
  ::close(descriptor_);
  if (!IsOfParent()) ::unlink(temporary_.c_str());
}

bool OutputFile::Usable() {
  if (status_.ok() && IsOfParent()) {
    status_ = Status(StatusCode::kInvalidArgument,
                     "this process was forked after " + path_ +
                         " was begun, and the file is its parent's: write another one here");
  }
  return status_.ok();
}

Status OutputFile::Fail(int error_number, const std::string& what) {
  status_ = StatusFromErrno(error_number, what + " " + path_);
  return status_;
}

std::uint64_t NextOutputNumber() { return next_number.load(std::memory_order_relaxed); }

Status OutputFile::Open() {
  if (IsRemote(path_)) {
    ObjectWriterOptions options;
    options.replaces = !keeps_object_;
    buffer_.reserve(kBufferBytes);
    return status_ = ObjectWriter::Open(path_, options, &object_);
  }
  struct stat facts {};
  if (!replaces_link_) {
    status_ = FindOutputTarget(path_, &target_);
  } else if (::lstat(path_.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) &&
             !S_ISLNK(facts.st_mode)) {
    status_ = NoFile(facts, path_);
  } else {
    target_ = path_;
  }
  if (!status_.ok()) return status_;
  // In a container process numbers repeat: a file of a killed process may have our number. Not
  // mkostemp: its files are their owner's alone, and umask can be read only by setting it.
  do {
    temporary_ = NextTemporaryName(target_);
    descriptor_ =
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) return Fail(errno, "create");
  buffer_.reserve(kBufferBytes);
  return {};
}

Status OutputFile::WriteOut(std::span<const std::byte> bytes) {
  if (object_ != nullptr) return status_ = object_->Append(bytes);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status OutputFile::PutBuffer() {
  Status status = WriteOut(buffer_);
  buffer_.clear();
  return status;
}

Status OutputFile::Put(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    Status status = PutBuffer();
    if (!status.ok()) return status;
    if (bytes.size() >= kBufferBytes) return WriteOut(bytes);
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return {};
}

Status OutputFile::Append(std::span<const std::byte> bytes) {
  if (!Usable()) return status_;
  if (compressor_ == nullptr) return Put(bytes);
  compressor_->Add(bytes, &buffer_);
  return buffer_.size() < kBufferBytes ? Status() : PutBuffer();
}

Status OutputFile::Rewrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  assert(compressor_ == nullptr);
  if (!Usable()) return status_;
  if (object_ != nullptr) {
    return status_ = Status(StatusCode::kUnsupported,
                            "what an object begins with is sent before the rest: write to a disk",
                            {path_, -1, -1});
  }
  Status status = PutBuffer();
  while (status.ok() && !bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return status;
}

Status OutputFile::AppendZeros(std::size_t count) {
  static constexpr std::byte kZeros[4096] = {};
  while (count != 0) {
    const std::size_t piece = std::min(count, sizeof(kZeros));
    Status status = Append({kZeros, piece});
    if (!status.ok()) return status;
    count -= piece;
  }
  return status_;
}

Status OutputFile::Commit() {
  if (!Usable()) return status_;
  if (compressor_ != nullptr) compressor_->Finish(&buffer_);
  Status status = PutBuffer();
  if (status.ok() && object_ != nullptr) return status_ = object_->Finish();
  if (!status.ok() || temporary_.empty()) return status;
  if (syncs_ && ::fsync(descriptor_) != 0) return Fail(errno, "sync");
  // A full disk or a remote file system may report that only now.
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    const int error_number = errno;
    ::unlink(temporary_.c_str());
    return Fail(error_number, "close");
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error_number = errno;
    ::unlink(temporary_.c_str());
    return Fail(error_number, "rename to");
  }
  return {};
}

}  // namespace ringfeed
