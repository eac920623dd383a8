#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringfeed {

/// Wire types of Protocol Buffers (https://protobuf.dev/programming-guides/encoding).
enum class WireType : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr std::uint32_t WireTag(std::uint32_t field, WireType type) {
  return field << 3 | static_cast<std::uint32_t>(type);
}

/// Reads one message, field by field, with the leniency of Protobuf's own parser: overlong varints
/// up to 10 bytes, unknown fields and groups. Every call returns false where the bytes cannot be
/// such a field; nothing outside them is ever read.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool done() const { return at_ == end_; }
  const std::byte* at() const { return at_; }

  /// A tag, which has a field number of at least 1.
  bool ReadTag(std::uint32_t* tag);
  bool ReadVarint(std::uint64_t* value);
  /// A length and as many bytes.
  bool ReadDelimited(std::span<const std::byte>* bytes);
  /// What follows `tag`, whatever it is.
  bool Skip(std::uint32_t tag);

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  bool Advance(std::uint64_t bytes);
  bool SkipScalar(std::uint32_t tag);
  bool SkipGroup(std::uint32_t tag);

  const std::byte* at_;
  const std::byte* end_;
};

}  // namespace ringfeed
