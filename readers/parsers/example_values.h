#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringfeed {

/// The kinds of a tf.Example's feature; the values are the field numbers of the oneof in Feature
/// (TensorFlow's feature.proto).
enum class FeatureKind : std::uint32_t { kUnset = 0, kBytes = 1, kFloats = 2, kInts = 3 };

/// "bytes", "floats", "int64s", "nothing".
const char* FeatureKindName(FeatureKind kind);

/// A feature, whatever way it was written: packed or not, in pieces, merged as Protobuf merges.
struct FeatureValues {
  FeatureKind kind = FeatureKind::kUnset;
  std::vector<std::span<const std::byte>> bytes;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;

  void Clear();
};

/// Reads an entry of the map in Features: its key and its feature. The slow way that takes
/// everything that Protobuf takes; false where the bytes are no such entry.
bool ReadFeatureEntry(std::span<const std::byte> entry, std::span<const std::byte>* key,
                      FeatureValues* values);

/// Only the key of an entry (the last one, if there are several).
bool ReadFeatureKey(std::span<const std::byte> entry, std::span<const std::byte>* key);

}  // namespace ringfeed
