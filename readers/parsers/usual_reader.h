#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/little_endian.h"
#include "readers/formats/builders/wire_format.h"

namespace ringfeed {

/// Reads a message of whose fields each has a tag of one byte and a length of at most five, as all
/// writers write them; anything else is WireReader's.
class UsualReader {
 public:
  explicit UsualReader(std::span<const std::byte> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool done() const { return at_ == end_; }
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
      length = Settled(length);
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

/// The slow way over the field that stands next, whatever it is: where it ends, null where it is
/// malformed. *found tells whether it is a delimited one of that number, whose contents *bytes are.
const std::byte* PassField(std::span<const std::byte> rest, std::uint32_t number, bool* found,
                           std::span<const std::byte>* bytes);

/// Likewise the quick way, where it can be gone; false where the field is malformed.
inline bool NextField(UsualReader* reader, std::uint32_t number, bool* found,
                      std::span<const std::byte>* bytes) {
  *found = true;
  if (reader->Enter(static_cast<std::byte>(WireTag(number, WireType::kDelimited)), bytes)) {
    return true;
  }
  const std::byte* const end = PassField(reader->rest(), number, found, bytes);
  if (end == nullptr) return false;
  reader->MoveTo(end);
  return true;
}

/// Calls `take` with the contents of every delimited field of that number, which fits into a tag of
/// one byte, and passes over others. False where the message is malformed, or where `take` says so.
template <typename Take>
bool ForEachDelimited(std::span<const std::byte> message, std::uint32_t number, Take take) {
  UsualReader reader(message);
  std::span<const std::byte> bytes;
  bool found = false;
  while (!reader.done()) {
    if (!NextField(&reader, number, &found, &bytes)) return false;
    if (found && !take(bytes)) return false;
  }
  return true;
}

}  // namespace ringfeed
