#include "ringfeed/compat/persistent_in_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "io/input_file.h"
#include "readers/formats/compression/decompressed_reader.h"

namespace ringfeed {

namespace {

// So small that it stays in the cache of the core that takes lines out of it.
constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr std::size_t kHeadBytes = 4096;
constexpr char kWhyInOrder[] = "a user's data set reads it from its start to its end";

}  // namespace

/// One part, opened: its bytes, decompressed, from its start to its end.
class PersistentInStream::Part {
 public:
  Status Open(const std::string& name) {
    OpenInputResult opened = OpenSequentialInput(name, {}, kWhyInOrder);
    if (!opened.status.ok()) return opened.status;
    file_ = std::move(opened.file);
    std::string_view stem = name;
    Compression compression = TakeCompressedEnding(&stem);
    if (compression == Compression::kNone) {
      std::array<std::byte, kHeadBytes> head;
      std::size_t got = 0;
      const Status status = ReadFile(head, &got);
      if (!status.ok()) return status;
      compression = DetectCompression(std::span(head).first(got));
      file_offset_ = 0;
    }
    if (compression != Compression::kNone) {
      decompressed_.emplace(compression, [this](std::span<std::byte> to, std::size_t* got) {
        return ReadFile(to, got);
      });
    }
    return {};
  }

  /// At least one byte, none at the end. A failure comes after the bytes before it.
  Status Read(std::span<std::byte> to, std::size_t* got) {
    *got = 0;
    return decompressed_ ? decompressed_->Read(to, got) : ReadFile(to, got);
  }

 private:
  Status ReadFile(std::span<std::byte> to, std::size_t* got) {
    *got = 0;
    const std::uint64_t left = file_->size() - file_offset_;
    if (left == 0 || !late_failure_.ok()) return late_failure_;
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left, to.size()));
    const Status status = file_->ReadAt(file_offset_, to.first(bytes), got);
    file_offset_ += *got;
    if (*got == 0) return status;
    late_failure_ = status;
    return {};
  }

  std::unique_ptr<InputFile> file_;
  std::uint64_t file_offset_ = 0;
  Status late_failure_;  ///< follows what was read together with it
  std::optional<DecompressedReader> decompressed_;
};

PersistentInStream::PersistentInStream(std::vector<std::string> parts, std::size_t max_line_bytes)
    : parts_(std::move(parts)),
      max_line_bytes_(max_line_bytes),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

PersistentInStream::~PersistentInStream() = default;
PersistentInStream::PersistentInStream(PersistentInStream&&) noexcept = default;
PersistentInStream& PersistentInStream::operator=(PersistentInStream&&) noexcept = default;

const std::string& PersistentInStream::part() const {
  static const std::string kNone;
  return next_part_ == 0 ? kNone : parts_[next_part_ - 1];
}

void PersistentInStream::ThrowFailure() const {
  if (!failure_.ok()) throw Error(failure_);
}

void PersistentInStream::Fail(const Status& status, std::uint64_t offset) {
  failure_ = status.WithPlace({part(), static_cast<std::int64_t>(offset), -1});
  throw Error(failure_);
}

bool PersistentInStream::Fill() {
  if (part_ == nullptr) return false;
  std::size_t got = 0;
  const auto room = std::as_writable_bytes(std::span(buffer_.get(), kBufferBytes));
  const Status status = part_->Read(room, &got);
  begin_ = 0;
  end_ = got;
  offset_ += got;
  if (!status.ok()) Fail(status, offset_);
  return got > 0;
}

bool PersistentInStream::OpenNext() {
  part_.reset();  // first: one descriptor at a time
  if (next_part_ == parts_.size()) return false;
  begin_ = end_ = 0;
  offset_ = 0;
  auto part = std::make_unique<Part>();
  const Status status = part->Open(parts_[next_part_++]);
  if (!status.ok()) Fail(status, 0);
  part_ = std::move(part);
  return true;
}

bool PersistentInStream::HasBytes() {
  while (begin_ == end_ && !Fill()) {
    if (!OpenNext()) return false;
  }
  return true;
}

bool PersistentInStream::ReadLine(std::string* line) {
  ThrowFailure();
  line->clear();
  if (!HasBytes()) return false;
  do {
    const char* const from = buffer_.get() + begin_;
    const void* const found = std::memchr(from, '\n', end_ - begin_);
    const std::size_t size = found != nullptr
                                 ? static_cast<std::size_t>(static_cast<const char*>(found) - from)
                                 : end_ - begin_;
    if (line->size() + size > max_line_bytes_) {
      Fail(Status(StatusCode::kResourceExhausted,
                  "a line is longer than " + std::to_string(max_line_bytes_) + " bytes"),
           offset() - line->size());
    }
    line->append(from, size);
    begin_ += size;
    if (found == nullptr) continue;
    ++begin_;
    if (!line->empty() && line->back() == '\r') line->pop_back();
    return true;
  } while (begin_ < end_ || Fill());
  return true;  // the part ends without an end of its last line
}

bool PersistentInStream::ReadFully(void* data, std::size_t bytes) {
  ThrowFailure();
  if (bytes == 0) return true;
  if (!HasBytes()) return false;
  const std::uint64_t start = offset();
  std::size_t done = 0;
  while (done < bytes) {
    if (begin_ == end_ && !Fill()) {
      Fail(Status(StatusCode::kTruncated, "the part ends " + std::to_string(done) +
                                              " bytes into a record of " + std::to_string(bytes)),
           start);
    }
    const std::size_t some = std::min(bytes - done, end_ - begin_);
    std::memcpy(static_cast<char*>(data) + done, buffer_.get() + begin_, some);
    begin_ += some;
    done += some;
  }
  return true;
}

void PersistentInStream::Rewind() {
  part_.reset();
  failure_ = Status();
  next_part_ = 0;
  begin_ = end_ = 0;
  offset_ = 0;
}

}  // namespace ringfeed
