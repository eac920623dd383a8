#include "readers/chain/record_walk.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "io/remote/address.h"
#include "io/remote/remote_source.h"
#include "readers/formats/compression/decompressed_reader.h"
#include "readers/formats/examined_file.h"

namespace ringfeed {
namespace {

// It stays in the processor's second level cache, and a call costs little beside it.
constexpr std::size_t kReadBytes = std::size_t{256} << 10;

}  // namespace

RecordWalk::RecordWalk(const std::string& file, const OpenOptions& open, ElementCheck check)
    : file_(ShownAddress(file)), on_damage_(open.on_damage), need_bytes_(kReadBytes) {
  ExaminedFile examined = ExamineFile(file, nullptr, open.format, kReadBytes);
  if (!examined.status.ok()) throw Error(examined.status);
  OpenInputResult opened = examined.object != nullptr
                               ? OpenSequentialSource(examined.object)
                               : OpenSequentialInput(examined.name, {}, "in a plain loop");
  if (!opened.status.ok()) throw Error(opened.status);
  input_ = std::move(opened.file);
  file_bytes_ = input_->size();
  format_ = std::move(examined.format);
  FramerOptions options;
  options.file = file_;
  options.on_damage = open.on_damage;
  options.max_record_bytes = open.max_record_bytes;
  options.check_elements = std::move(check);
  if (examined.compression == Compression::kNone) {
    options.file_bytes = file_bytes_;
  } else {
    decompressed_ = std::make_unique<DecompressedReader>(
        examined.compression,
        [this](std::span<std::byte> buffer, std::size_t* some) { return ReadFile(buffer, some); });
  }
  framer_ = format_->NewFramer(options);
}

Status RecordWalk::ReadFile(std::span<std::byte> to, std::size_t* got) {
  // No more than there was: the file may grow.
  const std::uint64_t left = file_bytes_ - std::min(file_bytes_, read_offset_);
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), left));
  Status status = input_->ReadAt(read_offset_, to.first(bytes), got);
  read_offset_ += *got;
  return status;
}

Status RecordWalk::Fill(std::size_t bytes) {
  const auto used = static_cast<std::size_t>(offset_ - buffer_offset_);
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(used),
            buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
  filled_ -= used;
  buffer_offset_ = offset_;
  // No more than there is: clearing a large buffer costs more than reading a small file.
  const std::uint64_t left = decompressed_ != nullptr ? bytes : file_bytes_ - read_offset_;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, filled_ + left));
  Status status;
  while (filled_ < wanted && !all_read_ && status.ok()) {
    if (filled_ == buffer_.size()) {
      // Content has no known end to check a length against: a length with no bytes after it takes
      // no memory.
      const std::size_t most =
          decompressed_ != nullptr ? std::max(2 * filled_, kReadBytes) : wanted;
      buffer_.resize(std::min(wanted, most));
    }
    const std::span<std::byte> room =
        std::span(buffer_).first(std::min(buffer_.size(), wanted)).subspan(filled_);
    std::size_t got = 0;
    status = decompressed_ != nullptr ? decompressed_->Read(room, &got) : ReadFile(room, &got);
    all_read_ = status.ok() && got == 0;
    filled_ += got;
  }
  all_read_ = all_read_ || (decompressed_ == nullptr && read_offset_ == file_bytes_);
  return status;
}

void RecordWalk::CountUntrusted() {
  const std::uint64_t member = decompressed_->member_begin();
  if (member != member_) untrusted_ = 0;
  member_ = member;
  const std::byte* const begin = buffer_.data();
  for (const RecordSpan& record : output_.records) {
    // A chunk's records are in other memory.
    const bool inside =
        !std::less<>()(record.data, begin) && !std::greater<>()(record.data, begin + filled_);
    const bool before =
        inside && buffer_offset_ + static_cast<std::uint64_t>(record.data - begin) < member;
    if (!record.damaged() && !before) ++untrusted_;
  }
}

bool RecordWalk::SkipRest(Status* read) {
  if (decompressed_ == nullptr || !decompressed_->damaged() || read->ok()) return false;
  const std::uint64_t end = buffer_offset_ + filled_;
  *read = Status(read->code(), read->message() + UntrustedBytes(member_, end, untrusted_),
                 read->place());
  if (on_damage_ == OnDamage::kFail) return false;
  damage_.push_back({file_, std::min(member_, end), end, read->message()});
  return true;
}

ReadResult RecordWalk::Next(std::span<const RecordSpan>* records) {
  if (ended_) return status_.ok() ? ReadResult::kEnd : ReadResult::kFailed;
  output_.records.clear();
  memory_.Clear();
  while (output_.records.empty() && !ended_) {
    Status read = Fill(need_bytes_);
    const FrameInput input{std::span(buffer_).first(filled_), buffer_offset_, ~std::uint64_t{0},
                           all_read_, &memory_};
    const FrameResult result = framer_->Frame(input, &output_);
    if (decompressed_ != nullptr) CountUntrusted();
    offset_ += result.consumed;
    need_bytes_ = std::max(result.need_bytes, kReadBytes);
    damage_.insert(damage_.end(), output_.damage.begin(), output_.damage.end());
    output_.damage.clear();
    warnings_.insert(warnings_.end(), output_.warnings.begin(), output_.warnings.end());
    output_.warnings.clear();
    status_ = !result.status.ok() || SkipRest(&read) ? result.status : read;
    ended_ = !status_.ok() || !read.ok() ||
             (all_read_ && (result.need_bytes == 0 || result.consumed == 0));
  }
  *records = output_.records;
  if (!output_.records.empty()) return ReadResult::kRecord;
  return status_.ok() ? ReadResult::kEnd : ReadResult::kFailed;
}

}  // namespace ringfeed
