#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "readers/formats/format.h"
#include "ringfeed/formats.h"

namespace ringfeed {

/// OneFlow's OFRecord files, as OneFlow's own record_pb2 and struct.pack("<q") write them: per
/// record
///   i64 length (at least 1), the serialised message oneflow.OFRecord of that length,
/// little-endian, without a file header, a checksum, a sync marker or an index. The message is one
/// map, field 1: at its top level it is entries, each 0x0a, a varint length and as many bytes.
struct OfRecordLayout {
  static constexpr std::size_t kLengthBytes = 8;
  static constexpr std::byte kEntryTag{0x0a};
};

std::shared_ptr<const Format> OfRecordFormat();

}  // namespace ringfeed
