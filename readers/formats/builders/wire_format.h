#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// Reads one message, field by field, as leniently as Protobuf's own parser: overlong varints up to
/// 10 bytes, unknown fields and groups. Every call returns false if the bytes cannot be such a
/// field. It never reads outside the message.
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

inline void AppendVarint(std::uint64_t value, std::vector<std::byte>* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<std::byte>(value | 0x80));
  out->push_back(static_cast<std::byte>(value));
}

inline std::size_t VarintBytes(std::uint64_t value) {
  std::size_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

/// A whole field that is a number.
inline void AppendVarintField(std::uint32_t field, std::uint64_t value,
                              std::vector<std::byte>* out) {
  AppendVarint(WireTag(field, WireType::kVarint), out);
  AppendVarint(value, out);
}

/// What stands before `size` bytes of a field.
inline void AppendDelimitedHead(std::uint32_t field, std::size_t size,
                                std::vector<std::byte>* out) {
  AppendVarint(WireTag(field, WireType::kDelimited), out);
  AppendVarint(size, out);
}

/// How many bytes a field of `size` has with its head; its number is at most 15.
inline std::size_t DelimitedFieldBytes(std::size_t size) { return 1 + VarintBytes(size) + size; }

}  // namespace ringfeed
