#include "readers/parsers/usual_reader.h"

namespace ringfeed {

const std::byte* PassField(std::span<const std::byte> rest, std::uint32_t number, bool* found,
                           std::span<const std::byte>* bytes) {
  WireReader reader(rest);
  std::uint32_t tag = 0;
  if (!reader.ReadTag(&tag)) return nullptr;
  *found = tag == WireTag(number, WireType::kDelimited);
  return (*found ? reader.ReadDelimited(bytes) : reader.Skip(tag)) ? reader.at() : nullptr;
}

}  // namespace ringfeed
