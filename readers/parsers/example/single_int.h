#pragma once

#include <cstddef>
#include <cstdint>

#include "base/little_endian.h"
#include "readers/parsers/example/feature_location.h"

namespace ringfeed {

/// The value of a varint of at most eight bytes: seven bits of each, moved together in three steps.
inline std::uint64_t JoinSevens(std::uint64_t word) {
  word = (word & 0x007f007f007f007fU) | (word & 0x7f007f007f007f00U) >> 1;
  word = (word & 0x00003fff00003fffU) | (word & 0x3fff00003fff0000U) >> 2;
  return (word & 0x000000000fffffffU) | (word & 0x0fffffff00000000U) >> 4;
}

/// Stores what a run of that form holds where it is one varint of at most eight bytes that T can
/// hold: its first stop is the last of its bytes. There are always eight bytes of the record up to
/// its end, since tags and lengths stand in front of it.
template <typename T, FeatureForm kForm>
inline bool TakeInt(const FieldLocation& at, std::byte* to) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  if (at.form != kForm || at.bytes - 1U >= 8U) return false;
  const unsigned beyond = 64 - 8 * at.bytes;
  const std::uint64_t word = LoadLe<std::uint64_t>(at.data + at.bytes - 8) >> beyond;
  if ((~word & kHighBits) << beyond != std::uint64_t{1} << 63) return false;
  const auto value = static_cast<std::int64_t>(JoinSevens(word));
  if (kForm == kFormInt64s && value != static_cast<T>(value)) return false;
  StoreLe(to, static_cast<T>(value));
  return true;
}

}  // namespace ringfeed
