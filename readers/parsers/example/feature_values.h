#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// What a feature's list holds.
enum class FeatureKind : std::uint32_t { kUnset, kBytes, kFloats, kDoubles, kInt32s, kInt64s };

/// "bytes", "floats", "doubles", "int32s", "int64s", "nothing".
const char* FeatureKindName(FeatureKind kind);

/// A make of records that are maps from names to features, and what its parser says of itself.
struct FeatureDialect {
  struct Type {
    DType dtype = DType::kBool;
    FeatureKind kind = FeatureKind::kUnset;  ///< that such a field has, or mostly has
  };

  const char* parser = "";        ///< its name
  const char* record = "";        ///< "tf.Example"
  const char* types_are = "";     ///< "a tf.Example holds uint8 (bytes), …"
  std::uint32_t map_field = 0;    ///< the field that holds the map; 0: the record is the map itself
  std::uint32_t lists_field = 0;  ///< that holds a map to lists of features; 0: there is none
  std::array<FeatureKind, 6> kinds{};  ///< by the field numbers of the oneof in Feature
  std::array<Type, 6> types{};         ///< that a field may have
  bool converts = false;               ///< a field takes every kind, not its type's alone

  FeatureKind KindOf(std::uint32_t number) const {
    return number < kinds.size() ? kinds[number] : FeatureKind::kUnset;
  }
};

/// A feature, whatever way it was written: packed or not, in pieces, merged as Protobuf merges.
/// Only the vector of its kind is filled; of a list of bytes only the first value is kept.
struct FeatureValues {
  FeatureKind kind = FeatureKind::kUnset;
  std::size_t count = 0;  ///< of the list, also of numbers that were not kept
  std::span<const std::byte> bytes;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> ints;

  void Clear();
};

/// Reads a feature, of which the first `most_numbers` are kept. The slow way that takes everything
/// that Protobuf takes; false where the bytes are none.
bool ReadFeature(const FeatureDialect& dialect, std::span<const std::byte> feature,
                 std::size_t most_numbers, FeatureValues* values);

/// Likewise, of an entry of the map.
bool ReadFeatureEntry(const FeatureDialect& dialect, std::span<const std::byte> entry,
                      std::size_t most_numbers, FeatureValues* values);

/// The key of an entry (the last one, if there are several).
bool ReadFeatureKey(std::span<const std::byte> entry, std::span<const std::byte>* key);

/// Reads a list that is one run: the packed numbers, or the one value of bytes.
bool ReadFeatureRun(FeatureKind kind, std::span<const std::byte> run, std::size_t most_numbers,
                    FeatureValues* values);

}  // namespace ringfeed
