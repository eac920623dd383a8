#include "io/careful_reads.h"

#include <algorithm>
#include <iterator>

namespace ringfeed {

namespace {

// The page cache reads at least this much, and a medium's sector is not larger.
constexpr std::uint64_t kPageBytes = 4096;

}  // namespace

Status CarefulReads::ReadAll(std::uint64_t offset, std::span<std::byte> buffer,
                             std::size_t* bytes_read) {
  return Read(offset, buffer, true, bytes_read);
}

Status CarefulReads::ReadToFirst(std::uint64_t offset, std::span<std::byte> buffer,
                                 std::size_t* bytes_read) {
  return Read(offset, buffer, false, bytes_read);
}

Status CarefulReads::Read(std::uint64_t offset, std::span<std::byte> buffer, bool all,
                          std::size_t* bytes_read) {
  const std::uint64_t unit = std::max<std::uint64_t>(kPageBytes, file_->alignment());
  Status status = file_->ReadAt(offset, buffer, bytes_read);
  if (!IsOfMedium(status)) return status;
  ++failures_;
  const std::size_t had = *bytes_read / file_->alignment() * file_->alignment();
  const std::uint64_t begin = offset + had;
  const std::uint64_t end = offset + buffer.size();
  const std::uint64_t next_page = (begin / unit + 1) * unit;
  if (next_page >= end || failures_ >= kMostFailures) {
    *bytes_read = had;
    if (!all) return status;
    const std::uint64_t noted = std::min(end, file_->size());
    Note(begin, noted, status);
    *bytes_read = static_cast<std::size_t>(noted - offset);
    std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(had),
              buffer.begin() + static_cast<std::ptrdiff_t>(*bytes_read), std::byte{0});
    return {};
  }
  // A read that returned some bytes ended at the page that failed.
  const std::uint64_t half = (begin + (end - begin) / 2) / unit * unit;
  std::uint64_t cut = had > 0 ? next_page : std::max(next_page, half);
  *bytes_read = had;
  for (const std::uint64_t to : {cut, end}) {
    const std::uint64_t from = offset + *bytes_read;
    std::size_t got = 0;
    status =
        Read(from, buffer.subspan(*bytes_read, static_cast<std::size_t>(to - from)), all, &got);
    *bytes_read += got;
    if (!status.ok() || from + got < to) return status;
  }
  return {};
}

void CarefulReads::Note(std::uint64_t begin, std::uint64_t end, const Status& why) {
  auto place = std::find_if(ranges_.begin(), ranges_.end(),
                            [begin](const UnreadableRange& range) { return range.end >= begin; });
  if (place == ranges_.end() || place->begin > end) {
    ranges_.insert(place, {begin, end, why});
    return;
  }
  place->begin = std::min(place->begin, begin);
  place->end = std::max(place->end, end);
  const auto next = std::next(place);
  if (next == ranges_.end() || next->begin > place->end) return;
  place->end = std::max(place->end, next->end);
  ranges_.erase(next);
}

void CarefulReads::Forget(std::uint64_t offset) {
  std::erase_if(ranges_, [offset](const UnreadableRange& range) { return range.end <= offset; });
}

}  // namespace ringfeed
