#include "ringfeed/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/journal/journal_line.h"

namespace ringfeed {

namespace {

Error NoJournal(const std::string& path) {
  return Error(Status(StatusCode::kInvalidArgument,
                      path + " is no journal: name another file, or remove it"));
}

// Locked: the lines of two writers would mix.
int OpenToAppend(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) throw Error(StatusFromErrno(errno, "open the journal " + path));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(descriptor);
    Refuse("another process writes to the journal " + path + ": give each rank a file of its own");
  }
  return descriptor;
}

// Reads all of `to`, or up to the file's end: goes on after an interrupted or short read.
std::size_t ReadAt(int descriptor, std::int64_t offset, std::span<char> to,
                   const std::string& path) {
  std::size_t have = 0;
  while (have < to.size()) {
    const std::span<char> rest = to.subspan(have);
    const ssize_t got =
        pread(descriptor, rest.data(), rest.size(), offset + static_cast<std::int64_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(StatusFromErrno(errno, "read the journal " + path));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

// The end of the last whole line; 0 if there is none. Throws Error if it cannot be known: what
// cannot be read may be whole lines.
std::int64_t EndOfLines(int descriptor, std::int64_t size, const std::string& path) {
  std::array<char, 65536> piece;
  while (size > 0) {
    const std::int64_t begin = std::max<std::int64_t>(0, size - std::ssize(piece));
    const std::span<char> wanted(piece.data(), static_cast<std::size_t>(size - begin));
    if (ReadAt(descriptor, begin, wanted, path) < wanted.size()) {
      throw Error(Status(StatusCode::kIoError,
                         "the journal " + path + " became shorter while it was opened"));
    }
    const std::size_t newline = std::string_view(wanted.data(), wanted.size()).rfind('\n');
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
  const std::string_view begins(head.data(), ReadAt(descriptor, 0, head, path));
  if (!kJournalMagic.starts_with(begins)) throw NoJournal(path);
  const std::int64_t end = EndOfLines(descriptor, about.st_size, path);
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
  const bool partly = written > 0;
  if (partly &&
      (fstat(descriptor_, &about) != 0 || ftruncate(descriptor_, about.st_size - written) != 0)) {
    return StatusFromErrno(errno, "take an incomplete entry off " + path_);
  }
  return StatusFromErrno(error, "append to the journal " + path_);
}

/// The open file and its current line.
struct JournalReader::Input {
  enum class Found : std::uint8_t { kLine, kEnd, kTooLong, kFailed };

  explicit Input(const std::string& path) : file(std::fopen(path.c_str(), "rbe")) {}
  ~Input() {
    if (file != nullptr) std::fclose(file);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // At the end `line` holds the rest.
  Found NextLine() {
    line.clear();
    while (true) {
      const std::string_view rest(piece.data() + at, filled - at);
      const std::size_t newline = rest.find('\n');
      line += rest.substr(0, newline);
      if (line.size() > kMostJournalLine) return Found::kTooLong;
      if (newline != std::string_view::npos) {
        at += newline + 1;
        return Found::kLine;
      }
      at = 0;
      filled = std::fread(piece.data(), 1, piece.size(), file);
      if (filled == 0) return std::ferror(file) != 0 ? Found::kFailed : Found::kEnd;
    }
  }

  std::FILE* const file;
  std::string line;
  std::array<char, 65536> piece;
  std::size_t at = 0;
  std::size_t filled = 0;
};

JournalReader::JournalReader(std::string path)
    : path_(std::move(path)), input_(std::make_unique<Input>(path_)) {
  if (input_->file == nullptr) throw Error(StatusFromErrno(errno, "open the journal " + path_));
}

JournalReader::~JournalReader() = default;

ReadResult JournalReader::Fail(StatusCode code, const std::string& what) {
  DataPlace place;
  place.file = path_;
  status_ = Status(code, "line " + std::to_string(line_) + " of the journal: " + what, place);
  return ReadResult::kFailed;
}

ReadResult JournalReader::Next(JournalEntry* entry) {
  if (!status_.ok()) return ReadResult::kFailed;
  const Input::Found found = input_->NextLine();
  const std::string& line = input_->line;
  if (found == Input::Found::kFailed) {
    status_ = StatusFromErrno(errno, "read the journal " + path_);
    return ReadResult::kFailed;
  }
  const bool nothing = found == Input::Found::kEnd && line.empty();
  if (!nothing) ++line_;
  const bool first = line_ == 1 && !nothing;
  if (first && !std::string_view(line).starts_with(kJournalMagic.substr(0, line.size()))) {
    return Fail(StatusCode::kInvalidArgument, "the file is no journal of this version");
  }
  if (found == Input::Found::kEnd) {
    cut_bytes_ += line.size();
    return ReadResult::kEnd;
  }
  if (found == Input::Found::kTooLong) return Fail(StatusCode::kDamaged, "it is too long");
  const Status parsed = ParseJournalLine(line, entry);
  if (!parsed.ok()) return Fail(StatusCode::kDamaged, parsed.message());
  return ReadResult::kRecord;
}

}  // namespace ringfeed
