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

/// True where a message of `length` bytes that starts with `head` (at most all of it) is entries of
/// the map from its start to its end, as far as `head` shows. Nothing inside an entry is looked at.
bool OfRecordEntriesChain(std::span<const std::byte> head, std::uint64_t length);

std::shared_ptr<const Format> OfRecordFormat();
std::unique_ptr<Framer> NewOfRecordFramer(const FramerOptions& options);
std::unique_ptr<UnitFramer> NewOfRecordUnitFramer(const FramerOptions& options);
std::unique_ptr<RecordWriter> NewOfRecordWriter(std::unique_ptr<OutputFile> file);

}  // namespace ringfeed
