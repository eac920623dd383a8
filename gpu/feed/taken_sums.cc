#include "gpu/feed/taken_sums.h"

#include <cstring>

#include "base/crc32c.h"

namespace ringfeed {

std::vector<std::uint32_t> MismatchesOf(std::span<const PendingSum> sums,
                                        std::span<const TakenSum> parts, const std::byte* taken) {
  // The part of the stored sum that each still lacks.
  std::vector<std::uint32_t> missing;
  missing.reserve(sums.size());
  for (const PendingSum& sum : sums) missing.push_back(sum.of_copies);
  for (const TakenSum& part : parts) {
    std::uint32_t crc = 0;
    std::memcpy(&crc, taken, sizeof(crc));
    missing[part.sum] ^= ShiftCrc32c(crc, part.behind);
    taken += sizeof(crc);
  }
  std::vector<std::uint32_t> bad;
  for (std::uint32_t i = 0; i < missing.size(); ++i) {
    if (missing[i] != 0) bad.push_back(i);
  }
  return bad;
}

std::vector<std::uint32_t> MismatchesByCpu(std::span<const PendingSum> sums) {
  std::vector<std::uint32_t> bad;
  for (std::uint32_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].Matches()) bad.push_back(i);
  }
  return bad;
}

}  // namespace ringfeed
