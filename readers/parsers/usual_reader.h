#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringfeed {

/// Reads a message of whose fields each has a tag of one byte and a length of at most five, as all
/// writers write them; anything else is WireReader's.
class UsualReader {
 public:
  explicit UsualReader(std::span<const std::byte> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool done() const { return at_ == end_; }
  const std::byte* at() const { return at_; }
  std::span<const std::byte> rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }
  void MoveTo(const std::byte* at) { at_ = at; }

  /// What the tag that stands next is the length of. False, and nothing is read, where it is not
  /// here whole.
  bool Enter(std::span<const std::byte>* bytes) {
    const std::byte* p = at_ + 1;
    std::uint64_t length = 0;
    for (unsigned shift = 0; shift < 35 && p < end_; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(*p++);
      length |= (byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      if (length > static_cast<std::uint64_t>(end_ - p)) return false;
      *bytes = {p, static_cast<std::size_t>(length)};
      at_ = p + length;
      return true;
    }
    return false;
  }
  /// Likewise, where that tag stands next.
  bool Enter(std::byte tag, std::span<const std::byte>* bytes) {
    return !done() && *at_ == tag && Enter(bytes);
  }

 private:
  const std::byte* at_;
  const std::byte* end_;
};

}  // namespace ringfeed
