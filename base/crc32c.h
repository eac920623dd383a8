#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringfeed/record.h"

namespace ringfeed {

/// CRC-32C (Castagnoli; polynomial 0x1EDC6F41, reflected), as in RFC 3720 appendix B.4.
std::uint32_t Crc32c(std::span<const std::byte> data);

/// The CRC-32C of a text that ends with `data`; `before` is the CRC-32C of what comes before it.
std::uint32_t ExtendCrc32c(std::uint32_t before, std::span<const std::byte> data);

/// The CRC-32C of each record's payload into crcs[i]. Short records are taken four at a time: one
/// record alone waits for the latency of the crc32 instruction, four keep it busy.
void Crc32cEach(std::span<const RecordSpan> records, std::uint32_t* crcs);

/// The CRC-32C of each value's eight little-endian bytes into crcs[i].
void Crc32cOfEachU64(std::span<const std::uint64_t> values, std::uint32_t* crcs);

/// The part of a text's CRC-32C that comes from a piece with CRC `crc` and `bytes` more bytes after
/// it: the CRC of a and b together is ShiftCrc32c(crc of a, bytes of b) ^ crc of b.
std::uint32_t ShiftCrc32c(std::uint32_t crc, std::uint64_t bytes);

/// TFRecord's masked form: a CRC of bytes that hold CRCs is weak, so stored ones are rotated and
/// shifted by a constant.
constexpr std::uint32_t MaskCrc32c(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}
constexpr std::uint32_t UnmaskCrc32c(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8U;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace ringfeed
