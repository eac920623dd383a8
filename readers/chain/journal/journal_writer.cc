#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "readers/chain/journal/journal_line.h"
#include "ringfeed/journal.h"

namespace ringfeed {
namespace {

Error NoJournal(const std::string& path) {
  return Error(Status(StatusCode::kInvalidArgument,
                      path + " is no journal: name another file, or remove it"));
}

// Locked: a line of two writers would be a line of none.
int OpenToAppend(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) throw Error(StatusFromErrno(errno, "open the journal " + path));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(descriptor);
    throw Error(Status(
        StatusCode::kInvalidArgument,
        "another process writes to the journal " + path + ": give each rank a file of its own"));
  }
  return descriptor;
}

// Where the last whole line ends; 0 where there is none.
std::int64_t EndOfLines(int descriptor, std::int64_t size) {
  std::array<char, 65536> piece;
  while (size > 0) {
    const std::int64_t begin = std::max<std::int64_t>(0, size - std::ssize(piece));
    const ssize_t got =
        pread(descriptor, piece.data(), static_cast<std::size_t>(size - begin), begin);
    if (got <= 0) return 0;
    const std::string_view text(piece.data(), static_cast<std::size_t>(got));
    const std::size_t newline = text.rfind('\n');
    if (newline != std::string_view::npos) return begin + static_cast<std::int64_t>(newline) + 1;
    size = begin;
  }
  return 0;
}

void CutIncompleteEntry(int descriptor, const std::string& path) {
  struct stat about {};
  if (fstat(descriptor, &about) != 0) throw Error(StatusFromErrno(errno, "examine " + path));
  if (!S_ISREG(about.st_mode)) throw NoJournal(path);
  std::array<char, kJournalMagic.size()> head;
  const ssize_t got = pread(descriptor, head.data(), head.size(), 0);
  if (got < 0) throw Error(StatusFromErrno(errno, "read the journal " + path));
  const std::string_view begins(head.data(), static_cast<std::size_t>(got));
  if (!kJournalMagic.starts_with(begins)) throw NoJournal(path);
  const std::int64_t end = EndOfLines(descriptor, about.st_size);
  if (end < about.st_size && ftruncate(descriptor, end) != 0) {
    throw Error(StatusFromErrno(errno, "take an incomplete entry off " + path));
  }
}

std::uint64_t NowSince1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

JournalWriter::JournalWriter(std::string path, const JournalStart& start)
    : path_(std::move(path)), descriptor_(OpenToAppend(path_)) {
  try {
    CutIncompleteEntry(descriptor_, path_);
    JournalStart now = start;
    if (now.started_ns == 0) now.started_ns = NowSince1970();
    FormatJournalStart(now, &line_);
    if (const Status status = Write(); !status.ok()) throw Error(status);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

JournalWriter::~JournalWriter() { close(descriptor_); }

Status JournalWriter::Append(const BatchOrigin& origin) {
  FormatJournalBatch(origin, &line_);
  return Write();
}

Status JournalWriter::End(std::uint64_t batches) {
  FormatJournalEnd(batches, &line_);
  return Write();
}

Status JournalWriter::Damage(std::uint64_t damaged) {
  FormatJournalDamage(damaged, &line_);
  return Write();
}

Status JournalWriter::Write() {
  if (line_.size() > kMostJournalLine) {
    return Status(StatusCode::kInvalidArgument, "an entry of the journal " + path_ +
                                                    " would have " + std::to_string(line_.size()) +
                                                    " bytes: make smaller batches");
  }
  ssize_t written;
  do {
    written = write(descriptor_, line_.data(), line_.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line_.size())) return Status();
  const int error = written < 0 ? errno : ENOSPC;
  struct stat about {};
  const bool partly = written > 0 && fstat(descriptor_, &about) == 0;
  if (partly && ftruncate(descriptor_, about.st_size - written) != 0) {
    return StatusFromErrno(errno, "take an incomplete entry off " + path_);
  }
  return StatusFromErrno(error, "append to the journal " + path_);
}

}  // namespace ringfeed
