#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/little_endian.h"
#include "readers/formats/builders/wire_format.h"
#include "readers/parsers/parser.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Reads a message whose fields each have a tag of one byte and a length of at most five, as all
/// writers write them. WireReader reads anything else.
class UsualReader {
 public:
  explicit UsualReader(std::span<const std::byte> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool done() const { return at_ == end_; }
  std::span<const std::byte> rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }
  void MoveTo(const std::byte* at) { at_ = at; }

  /// Reads the next tag's contents, whatever the tag. Returns false, and reads nothing, if they are
  /// not whole.
  bool Enter(std::span<const std::byte>* bytes) {
    const std::byte* p = at_ + 1;
    std::uint64_t length = 0;
    for (unsigned shift = 0; shift < 35 && p < end_; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(*p++);
      length |= (byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      length = Settled(length);
      if (length > static_cast<std::uint64_t>(end_ - p)) return false;
      *bytes = {p, static_cast<std::size_t>(length)};
      at_ = p + length;
      return true;
    }
    return false;
  }
  /// The same, if the next tag is `tag`.
  bool Enter(std::byte tag, std::span<const std::byte>* bytes) {
    return !done() && *at_ == tag && Enter(bytes);
  }

 private:
  const std::byte* at_;
  const std::byte* end_;
};

/// The slow way over the next field, whatever it is. Returns its end; null if it is malformed.
/// *found tells whether it is a delimited one of that number with the contents *bytes.
const std::byte* PassField(std::span<const std::byte> rest, std::uint32_t number, bool* found,
                           std::span<const std::byte>* bytes);

/// The same by the quick way if possible; false if the field is malformed.
inline bool NextField(UsualReader* reader, std::uint32_t number, bool* found,
                      std::span<const std::byte>* bytes) {
  *found = true;
  if (reader->Enter(static_cast<std::byte>(WireTag(number, WireType::kDelimited)), bytes)) {
    return true;
  }
  const std::byte* const end = PassField(reader->rest(), number, found, bytes);
  if (end == nullptr) return false;
  reader->MoveTo(end);
  return true;
}

/// Calls `take` with the contents of every delimited field of that number, which fits into a tag of
/// one byte, and passes over others. False if the message is malformed or `take` returns false.
template <typename Take>
bool ForEachDelimited(std::span<const std::byte> message, std::uint32_t number, Take take) {
  UsualReader reader(message);
  std::span<const std::byte> bytes;
  bool found = false;
  while (!reader.done()) {
    if (!NextField(&reader, number, &found, &bytes)) return false;
    if (found && !take(bytes)) return false;
  }
  return true;
}

/// What a feature's list holds.
enum class FeatureKind : std::uint32_t { kUnset, kBytes, kFloats, kDoubles, kInt32s, kInt64s };

/// "bytes", "floats", "doubles", "int32s", "int64s", "nothing".
const char* FeatureKindName(FeatureKind kind);

/// A kind of records that are maps from names to features, and what its parser's messages say.
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
/// Only the vector of its kind is filled; of a list of bytes only the first value is kept, unless
/// all are asked for.
struct FeatureValues {
  FeatureKind kind = FeatureKind::kUnset;
  std::size_t count = 0;  ///< of the list, also of numbers that were not kept
  std::span<const std::byte> bytes;
  bool keeps_all_bytes = false;  ///< all values of a list of bytes go here:
  std::vector<std::span<const std::byte>> all_bytes;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> ints;

  void Clear();
};

/// Reads a feature, of which the first `most_numbers` are kept. The slow way, which takes
/// everything that Protobuf takes; false if the bytes are no feature.
bool ReadFeature(const FeatureDialect& dialect, std::span<const std::byte> feature,
                 std::size_t most_numbers, FeatureValues* values);

/// The same for an entry of the map.
bool ReadFeatureEntry(const FeatureDialect& dialect, std::span<const std::byte> entry,
                      std::size_t most_numbers, FeatureValues* values);

/// The key of an entry (the last one, if there are several).
bool ReadFeatureKey(std::span<const std::byte> entry, std::span<const std::byte>* key);

/// Reads a list that is one run: the packed numbers, or the one value of bytes.
bool ReadFeatureRun(FeatureKind kind, std::span<const std::byte> run, std::size_t most_numbers,
                    FeatureValues* values);

/// How a field's values are in the record, as FieldLocation::form says. The forms of runs have the
/// numbers of their kinds.
enum FeatureForm : std::uint32_t {
  kFormMissing,  ///< no entry, or one without a kind: the default
  kFormBytes,    ///< data and bytes are the one value of a list of bytes
  kFormFloats,   ///< … the packed run of a list of numbers
  kFormDoubles,
  kFormInt32s,
  kFormInt64s,
  kFormNoBytes,  ///< a list of bytes without a value
  kFormSteps,    ///< a list of features
  kFormFeature,  ///< a whole feature, to be read the slow way
  kFormEntry,    ///< the map's whole entry, to be read the slow way
  kFormFailed,   ///< the row failed; zeros
  kFormNone,     ///< no location has it
};

constexpr FeatureForm FormOf(FeatureKind kind) { return static_cast<FeatureForm>(kind); }

/// Locates the values of a feature as all writers write it: one list, the list one run. False if it
/// is written in another way.
bool LocateUsualFeature(const FeatureDialect& dialect, std::span<const std::byte> feature,
                        FieldLocation* location);

/// The value of a varint of at most eight bytes: seven bits of each, moved together in three steps.
inline std::uint64_t JoinSevens(std::uint64_t word) {
  word = (word & 0x007f007f007f007fU) | (word & 0x7f007f007f007f00U) >> 1;
  word = (word & 0x00003fff00003fffU) | (word & 0x3fff00003fff0000U) >> 2;
  return (word & 0x000000000fffffffU) | (word & 0x0fffffff00000000U) >> 4;
}

/// Stores what a run of that form holds if it is one varint of at most eight bytes that T can hold:
/// its first stop is the last of its bytes. There are always eight bytes of the record up to its
/// end, since tags and lengths are in front of it.
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
