#include "readers/parsers/example_values.h"

#include <bit>

#include "base/little_endian.h"
#include "readers/parsers/wire_reader.h"

namespace ringfeed {
namespace {

constexpr std::uint32_t kDelimited1 = WireTag(1, WireType::kDelimited);
constexpr std::uint32_t kDelimited2 = WireTag(2, WireType::kDelimited);
constexpr std::uint32_t kVarint1 = WireTag(1, WireType::kVarint);
constexpr std::uint32_t kFixed32_1 = WireTag(1, WireType::kFixed32);

bool ReadBytesList(WireReader list, FeatureValues* values) {
  std::uint32_t tag = 0;
  std::span<const std::byte> value;
  while (!list.done()) {
    if (!list.ReadTag(&tag)) return false;
    if (tag == kDelimited1) {
      if (!list.ReadDelimited(&value)) return false;
      values->bytes.push_back(value);
    } else if (!list.Skip(tag)) {
      return false;
    }
  }
  return true;
}

bool AppendPackedFloats(std::span<const std::byte> run, FeatureValues* values) {
  if (run.size() % sizeof(float) != 0) return false;
  for (std::size_t at = 0; at < run.size(); at += sizeof(float)) {
    values->floats.push_back(LoadLe<float>(run.data() + at));
  }
  return true;
}

bool ReadFloatList(WireReader list, FeatureValues* values) {
  std::uint32_t tag = 0;
  std::uint32_t bits = 0;
  std::span<const std::byte> run;
  while (!list.done()) {
    if (!list.ReadTag(&tag)) return false;
    if (tag == kDelimited1) {
      if (!list.ReadDelimited(&run) || !AppendPackedFloats(run, values)) return false;
    } else if (tag == kFixed32_1) {
      if (!list.ReadFixed32(&bits)) return false;
      values->floats.push_back(std::bit_cast<float>(bits));
    } else if (!list.Skip(tag)) {
      return false;
    }
  }
  return true;
}

bool AppendVarint(WireReader* reader, FeatureValues* values) {
  std::uint64_t value = 0;
  if (!reader->ReadVarint(&value)) return false;
  values->ints.push_back(static_cast<std::int64_t>(value));
  return true;
}

bool ReadInt64List(WireReader list, FeatureValues* values) {
  std::uint32_t tag = 0;
  std::span<const std::byte> run;
  while (!list.done()) {
    if (!list.ReadTag(&tag)) return false;
    if (tag == kDelimited1) {
      if (!list.ReadDelimited(&run)) return false;
      WireReader packed(run);
      while (!packed.done()) {
        if (!AppendVarint(&packed, values)) return false;
      }
    } else if (tag == kVarint1) {
      if (!AppendVarint(&list, values)) return false;
    } else if (!list.Skip(tag)) {
      return false;
    }
  }
  return true;
}

// A kind that is set clears another one before it, and is merged with itself.
bool ReadList(FeatureKind kind, std::span<const std::byte> list, FeatureValues* values) {
  if (values->kind != kind) values->Clear();
  values->kind = kind;
  switch (kind) {
    case FeatureKind::kBytes:
      return ReadBytesList(WireReader(list), values);
    case FeatureKind::kFloats:
      return ReadFloatList(WireReader(list), values);
    default:
      return ReadInt64List(WireReader(list), values);
  }
}

bool ReadFeature(std::span<const std::byte> feature, FeatureValues* values) {
  WireReader reader(feature);
  std::uint32_t tag = 0;
  std::span<const std::byte> list;
  while (!reader.done()) {
    if (!reader.ReadTag(&tag)) return false;
    const std::uint32_t field = tag >> 3;
    if (field <= 3 && tag == WireTag(field, WireType::kDelimited)) {
      if (!reader.ReadDelimited(&list)) return false;
      if (!ReadList(static_cast<FeatureKind>(field), list, values)) return false;
    } else if (!reader.Skip(tag)) {
      return false;
    }
  }
  return true;
}

}  // namespace

const char* FeatureKindName(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloats:
      return "floats";
    case FeatureKind::kInts:
      return "int64s";
    case FeatureKind::kUnset:
      break;
  }
  return "nothing";
}

void FeatureValues::Clear() {
  kind = FeatureKind::kUnset;
  bytes.clear();
  floats.clear();
  ints.clear();
}

bool ReadFeatureEntry(std::span<const std::byte> entry, std::span<const std::byte>* key,
                      FeatureValues* values) {
  values->Clear();
  *key = {};
  WireReader reader(entry);
  std::uint32_t tag = 0;
  std::span<const std::byte> feature;
  while (!reader.done()) {
    if (!reader.ReadTag(&tag)) return false;
    if (tag == kDelimited1) {
      if (!reader.ReadDelimited(key)) return false;
    } else if (tag == kDelimited2) {
      if (!reader.ReadDelimited(&feature) || !ReadFeature(feature, values)) return false;
    } else if (!reader.Skip(tag)) {
      return false;
    }
  }
  return true;
}

bool ReadFeatureKey(std::span<const std::byte> entry, std::span<const std::byte>* key) {
  *key = {};
  WireReader reader(entry);
  std::uint32_t tag = 0;
  while (!reader.done()) {
    if (!reader.ReadTag(&tag)) return false;
    if (tag == kDelimited1) {
      if (!reader.ReadDelimited(key)) return false;
    } else if (!reader.Skip(tag)) {
      return false;
    }
  }
  return true;
}

}  // namespace ringfeed
