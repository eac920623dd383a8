#include "readers/formats/compression/gzip_header.h"

#include <algorithm>
#include <iterator>

#include "base/crc32.h"
#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr unsigned kHasChecksum = 2;
constexpr unsigned kHasExtra = 4;
constexpr unsigned kHasName = 8;
constexpr unsigned kHasComment = 16;
constexpr unsigned kReserved = 0xe0;

}  // namespace

bool GzipHeader::Read(std::span<const std::byte>* input) {
  while (problem_.empty() && !complete() && !input->empty()) {
    const bool covered = part_ != Part::kChecksum;
    const std::size_t taken = Take(*input);
    if (covered) crc_ = Crc32(input->first(taken), crc_);
    *input = input->subspan(taken);
  }
  return problem_.empty();
}

std::size_t GzipHeader::Take(std::span<const std::byte> input) {
  switch (part_) {
    case Part::kFixed:
      return TakeNumbers(input, kFixedBytes);
    case Part::kExtraSize:
    case Part::kChecksum:
      return TakeNumbers(input, 2);
    case Part::kExtra: {
      const std::size_t taken = std::min(input.size(), extra_bytes_);
      extra_bytes_ -= taken;
      if (extra_bytes_ == 0) GoTo(Part::kName);
      return taken;
    }
    case Part::kName:
      return TakeText(input, Part::kComment);
    case Part::kComment:
      return TakeText(input, Part::kChecksum);
    case Part::kEnd:
      break;
  }
  return 0;
}

std::size_t GzipHeader::TakeNumbers(std::span<const std::byte> input, std::size_t bytes) {
  const std::size_t taken = std::min(input.size(), bytes - filled_);
  std::copy_n(input.begin(), taken, numbers_.begin() + static_cast<std::ptrdiff_t>(filled_));
  filled_ += taken;
  if (filled_ == bytes) {
    filled_ = 0;
    EndNumbers();
  }
  return taken;
}

void GzipHeader::EndNumbers() {
  const auto first = LoadLe<std::uint16_t>(numbers_.data());
  switch (part_) {
    case Part::kFixed:
      flags_ = std::to_integer<unsigned>(numbers_[3]);
      problem_ = first != 0x8b1f               ? "no header of gzip"
                 : numbers_[2] != std::byte{8} ? "an unknown method"
                 : (flags_ & kReserved) != 0   ? "reserved flags are set"
                                               : "";
      GoTo(Part::kExtraSize);
      break;
    case Part::kExtraSize:
      extra_bytes_ = first;
      GoTo(first == 0 ? Part::kName : Part::kExtra);
      break;
    default:  // the checksum
      if (first != (crc_ & 0xffff)) problem_ = "the checksum of its header does not match";
      part_ = Part::kEnd;
  }
}

std::size_t GzipHeader::TakeText(std::span<const std::byte> input, Part next) {
  const auto end = std::find(input.begin(), input.end(), std::byte{0});
  if (end == input.end()) return input.size();
  GoTo(next);
  return static_cast<std::size_t>(end - input.begin()) + 1;
}

void GzipHeader::GoTo(Part part) {
  // In the order of Part.
  constexpr unsigned kAnnouncedBy[] = {0,        kHasExtra,   kHasExtra,
                                       kHasName, kHasComment, kHasChecksum};
  auto next = static_cast<std::size_t>(part);
  while (next < std::size(kAnnouncedBy) && (flags_ & kAnnouncedBy[next]) == 0) ++next;
  part_ = static_cast<Part>(next);
}

}  // namespace ringfeed
