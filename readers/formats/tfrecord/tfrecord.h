#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "readers/formats/format.h"
#include "ringfeed/formats.h"

namespace ringfeed {

/// TFRecord, as TensorFlow's record_writer.h describes it: per record
///   u64 length, u32 masked CRC-32C of those eight bytes, payload, u32 masked CRC-32C of it,
/// little-endian, without a file header, a sync marker or an index.
struct TfRecordLayout {
  static constexpr std::size_t kHeaderBytes = 12;
  static constexpr std::size_t kFooterBytes = 4;
  static constexpr std::size_t kFrameBytes = kHeaderBytes + kFooterBytes;
};

/// What is wrong with a record whose payload's checksum does not match.
inline constexpr std::string_view kBadTfRecordPayload = "the payload's checksum does not match";

/// True if `header` (at least 12 bytes) holds a length with its own checksum; *length is it.
bool ReadTfRecordHeader(std::span<const std::byte> header, std::uint64_t* length);
inline bool TfRecordHeaderMatches(std::span<const std::byte> header) {
  std::uint64_t length = 0;
  return ReadTfRecordHeader(header, &length);
}

std::shared_ptr<const Format> TfRecordFormat();

}  // namespace ringfeed
