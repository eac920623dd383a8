#include "tools/record_walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ringfeed::tools {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr std::size_t kHeadBytes = 4096;

std::uint64_t SizeOfRegularFile(int descriptor, const std::string& file) {
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0) throw Error(StatusFromErrno(errno, "stat " + file));
  if (!S_ISREG(facts.st_mode)) {
    throw Error(Status(StatusCode::kInvalidArgument, file + " is not a regular file"));
  }
  return static_cast<std::uint64_t>(facts.st_size);
}

}  // namespace

RecordWalk::RecordWalk(const std::string& file, const std::string& format, OnDamage on_damage)
    : need_bytes_(kReadBytes) {
  descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw Error(StatusFromErrno(errno, "open " + file));
  file_bytes_ = SizeOfRegularFile(descriptor_, file);
  if (Status read = Fill(kHeadBytes); !read.ok()) throw Error(read);
  const std::span<const std::byte> head(buffer_.data(), std::min(buffer_.size(), kHeadBytes));
  FormatResult found = format.empty() ? DetectFormat(file, head) : FindFormat(format);
  if (!found.status.ok()) throw Error(found.status);
  format_ = std::move(found.format);
  FramerOptions options;
  options.file = file;
  options.file_bytes = file_bytes_;
  options.on_damage = on_damage;
  framer_ = format_->NewFramer(options);
}

RecordWalk::~RecordWalk() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status RecordWalk::Fill(std::size_t bytes) {
  buffer_.erase(buffer_.begin(),
                buffer_.begin() + static_cast<std::ptrdiff_t>(offset_ - buffer_offset_));
  buffer_offset_ = offset_;
  std::size_t have = buffer_.size();
  const auto left = static_cast<std::size_t>(file_bytes_ - std::min(file_bytes_, offset_));
  buffer_.resize(std::max(have, std::min(bytes, left)));
  while (have < buffer_.size()) {
    const ssize_t got = pread(descriptor_, buffer_.data() + have, buffer_.size() - have,
                              static_cast<off_t>(buffer_offset_ + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return StatusFromErrno(errno, "read");
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have < buffer_.size()) file_bytes_ = buffer_offset_ + have;  // it shrank
  buffer_.resize(have);
  return {};
}

ReadResult RecordWalk::Next(std::span<const RecordSpan>* records) {
  if (ended_) return status_.ok() ? ReadResult::kEnd : ReadResult::kFailed;
  output_.records.clear();
  output_.damage.clear();
  memory_.Clear();
  while (output_.records.empty() && !ended_) {
    status_ = Fill(need_bytes_);
    if (!status_.ok()) {
      ended_ = true;
      break;
    }
    const bool at_end = buffer_offset_ + buffer_.size() >= file_bytes_;
    const FrameInput input{buffer_, buffer_offset_, ~std::uint64_t{0}, at_end, &memory_};
    const FrameResult result = framer_->Frame(input, &output_);
    offset_ += result.consumed;
    need_bytes_ = std::max(result.need_bytes, kReadBytes);
    status_ = result.status;
    ended_ = !status_.ok() || (at_end && (result.need_bytes == 0 || result.consumed == 0));
  }
  *records = output_.records;
  if (!output_.records.empty()) return ReadResult::kRecord;
  return status_.ok() ? ReadResult::kEnd : ReadResult::kFailed;
}

}  // namespace ringfeed::tools
