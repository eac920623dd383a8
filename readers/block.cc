#include "readers/block.h"

#include <functional>

namespace ringfeed {

DataPlace Block::PlaceOf(std::uint32_t row) const {
  if (file_name.empty()) return {};  // a user's reader
  DataPlace place{file_name, -1, static_cast<std::int64_t>(first_record + row)};
  const std::byte* const data = frame.records[row].data;
  for (const Framed& part : framed) {
    const std::byte* const begin = part.bytes.data();
    // Unlike <, these compare pointers into different arrays.
    if (std::less<>()(data, begin) || std::greater<>()(data, begin + part.bytes.size())) continue;
    place.offset = static_cast<std::int64_t>(part.offset) + (data - begin);
  }
  return place;
}

void Block::NoteFramed(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (bytes.empty()) return;
  if (!framed.empty()) {
    Framed& last = framed.back();
    const std::byte* const end = last.bytes.data() + last.bytes.size();
    if (end == bytes.data() && last.offset + last.bytes.size() == offset) {
      last.bytes = {last.bytes.data(), last.bytes.size() + bytes.size()};
      return;
    }
  }
  framed.push_back({bytes, offset});
}

}  // namespace ringfeed
