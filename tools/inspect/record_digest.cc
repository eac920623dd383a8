#include "tools/inspect/record_digest.h"

#include <array>
#include <cstddef>

namespace ringfeed::tools {

void RecordDigest::Add(std::span<const std::byte> payload) {
  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(static_cast<std::uint64_t>(payload.size()) >> (8 * i));
  }
  sequence_.Append(length);
  sequence_.Append(payload);
  multiset_.Add(single_.Of(payload));
  ++records_;
  payload_bytes_ += payload.size();
}

}  // namespace ringfeed::tools
