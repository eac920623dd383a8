#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringfeed {

/// The kinds of an OFRecord's feature; the values are the field numbers of the oneof in OneFlow's
/// message Feature (oneflow.record_pb2).
enum class OFRecordKind : std::uint32_t {
  kUnset = 0,
  kBytes = 1,
  kFloats = 2,
  kDoubles = 3,
  kInt32s = 4,
  kInt64s = 5,
};

/// "bytes", "floats", "doubles", "int32s", "int64s", "nothing".
const char* OFRecordKindName(OFRecordKind kind);

/// A feature, whatever way it was written: packed or not, in pieces, merged as Protobuf merges.
/// Only the vector of its kind is filled; of a list of bytes only the first value is kept.
struct OFRecordValues {
  OFRecordKind kind = OFRecordKind::kUnset;
  std::size_t count = 0;  ///< of the list, also of numbers that were not kept
  std::span<const std::byte> bytes;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> ints;

  void Clear();
};

/// Reads an entry of the map in an OFRecord: its key and its feature, of which the first
/// `most_numbers` are kept. The slow way that takes everything that Protobuf takes; false where the
/// bytes are no such entry.
bool ReadOFRecordEntry(std::span<const std::byte> entry, std::size_t most_numbers,
                       std::span<const std::byte>* key, OFRecordValues* values);

/// Reads a list that is one run: the packed numbers, or the one value of bytes.
bool ReadOFRecordRun(OFRecordKind kind, std::span<const std::byte> run, std::size_t most_numbers,
                     OFRecordValues* values);

}  // namespace ringfeed
