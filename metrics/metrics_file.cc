#include "metrics/metrics_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

namespace ringfeed {
namespace {

// The collector of the file often runs as another user.
constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
constexpr std::string_view kBegins = "# HELP ringfeed_";
constexpr int kTries = 10;

Status WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return Status(StatusCode::kIoError, std::strerror(errno));
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

// Whether it is empty, or was written here.
bool IsOwnKind(int file) {
  std::array<char, kBegins.size()> begin{};
  const ssize_t got = pread(file, begin.data(), begin.size(), 0);
  return got == 0 || (got > 0 && std::string_view(begin.data(), begin.size()) == kBegins);
}

bool IsStillThere(int file, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(file, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

Status MetricsFile::Failed(const std::string& why) const {
  return Status(StatusCode::kIoError, path_ + ": " + why);
}

Status MetricsFile::TakeOver() {
  for (int i = 0; i < kTries; ++i) {
    // (O_NONBLOCK: must not hang if it is a pipe.)
    OwnDescriptor found =
        OwnDescriptor::Keep(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (!found && errno == ENOENT) return {};
    if (!found) return Failed(std::strerror(errno));
    struct stat what {};
    if (fstat(found.get(), &what) != 0 || !S_ISREG(what.st_mode)) return Failed("it is no file");
    if (!IsOwnKind(found.get())) {
      return Failed("it has something else in it than metrics: take another name, or remove it");
    }
    if (flock(found.get(), LOCK_EX | LOCK_NB) != 0) {
      return Failed("another process writes it; %p in the name stands for the process's number");
    }
    if (!IsStillThere(found.get(), path_)) continue;  // its writer came first
    locked_ = std::move(found);
    return {};
  }
  return Failed("another process writes it");
}

Status MetricsFile::MakeBeside(const std::string& name, const std::string& text,
                               OwnDescriptor* file) const {
  (void)unlink(name.c_str());  // of a killed process of this number
  *file = OwnDescriptor::Keep(
      open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kMode));
  if (!*file) return Failed(std::strerror(errno));
  if (flock(file->get(), LOCK_EX | LOCK_NB) != 0) return Failed(std::strerror(errno));
  const Status status = WriteAll(file->get(), text);
  if (status.ok()) return status;
  (void)unlink(name.c_str());
  return Failed(status.message());
}

Status MetricsFile::Write(const std::string& text) {
  // Another process, or its user, may have replaced it since.
  if (locked_ && !IsStillThere(locked_.get(), path_)) locked_.Close();
  if (!locked_) {
    const Status status = TakeOver();
    if (!status.ok()) return status;
  }
  // A name that collectors skip: it does not end in .prom.
  const std::string made = path_ + "." + std::to_string(getpid()) + ".new";
  OwnDescriptor file;
  const Status status = MakeBeside(made, text, &file);
  if (!status.ok()) return status;
  // If there was no file, another process may have made one since.
  const bool placed =
      locked_ ? rename(made.c_str(), path_.c_str()) == 0 : link(made.c_str(), path_.c_str()) == 0;
  const int why = errno;
  if (!placed || !locked_) (void)unlink(made.c_str());
  if (!placed) return Failed(why == EEXIST ? "another process writes it" : std::strerror(why));
  locked_ = std::move(file);
  return {};
}

}  // namespace ringfeed
