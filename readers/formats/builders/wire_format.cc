#include "readers/formats/builders/wire_format.h"

#include <array>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr int kMostVarintBytes = 10;
constexpr int kMostTagBytes = 5;
constexpr std::size_t kMostGroups = 100;  // Protobuf's default limit of nesting

WireType TypeOf(std::uint32_t tag) { return static_cast<WireType>(tag & 7); }

}  // namespace

bool WireReader::ReadVarint(std::uint64_t* value) {
  std::uint64_t read = 0;
  for (int i = 0; i < kMostVarintBytes && at_ != end_; ++i) {
    const auto byte = std::to_integer<std::uint64_t>(*at_++);
    read |= (byte & 0x7f) << (7 * i);  // of the tenth byte one bit has a place
    if (byte < 0x80) {
      *value = Settled(read);
      return true;
    }
  }
  return false;
}

bool WireReader::ReadTag(std::uint32_t* tag) {
  const std::byte* start = at_;
  std::uint64_t read = 0;
  if (!ReadVarint(&read) || at_ - start > kMostTagBytes) return false;
  *tag = static_cast<std::uint32_t>(read);
  return *tag >> 3 != 0;
}

bool WireReader::Advance(std::uint64_t bytes) {
  if (bytes > left()) return false;
  at_ += bytes;
  return true;
}

bool WireReader::ReadDelimited(std::span<const std::byte>* bytes) {
  std::uint64_t size = 0;
  if (!ReadVarint(&size) || size > left()) return false;
  *bytes = {at_, static_cast<std::size_t>(size)};
  at_ += size;
  return true;
}

bool WireReader::SkipScalar(std::uint32_t tag) {
  std::uint64_t unused = 0;
  switch (TypeOf(tag)) {
    case WireType::kVarint:
      return ReadVarint(&unused);
    case WireType::kFixed64:
      return Advance(8);
    case WireType::kDelimited:
      return ReadVarint(&unused) && Advance(unused);
    case WireType::kFixed32:
      return Advance(4);
    default:
      return false;
  }
}

bool WireReader::SkipGroup(std::uint32_t tag) {
  std::array<std::uint32_t, kMostGroups> open;
  std::size_t depth = 0;
  open[depth++] = tag >> 3;
  while (depth != 0) {
    if (!ReadTag(&tag)) return false;
    if (TypeOf(tag) == WireType::kStartGroup) {
      if (depth == open.size()) return false;
      open[depth++] = tag >> 3;
    } else if (TypeOf(tag) == WireType::kEndGroup) {
      if (open[--depth] != tag >> 3) return false;
    } else if (!SkipScalar(tag)) {
      return false;
    }
  }
  return true;
}

bool WireReader::Skip(std::uint32_t tag) {
  return TypeOf(tag) == WireType::kStartGroup ? SkipGroup(tag) : SkipScalar(tag);
}

}  // namespace ringfeed
