#include "readers/parsers/ofrecord_values.h"

#include <algorithm>
#include <cstring>

#include "base/little_endian.h"
#include "readers/parsers/varint_list.h"
#include "readers/parsers/wire_reader.h"

namespace ringfeed {
namespace {

constexpr std::uint32_t kDelimited1 = WireTag(1, WireType::kDelimited);
constexpr std::uint32_t kDelimited2 = WireTag(2, WireType::kDelimited);
constexpr std::uint32_t kLastKind = static_cast<std::uint32_t>(OFRecordKind::kInt64s);

template <typename T>
bool AppendFixed(std::span<const std::byte> run, std::size_t most, std::vector<T>* numbers,
                 std::size_t* count) {
  if (run.size() % sizeof(T) != 0) return false;
  const std::size_t found = run.size() / sizeof(T);
  const std::size_t kept = std::min(found, most - numbers->size());
  const std::size_t before = numbers->size();
  numbers->resize(before + kept);
  if (kept != 0) std::memcpy(numbers->data() + before, run.data(), kept * sizeof(T));
  *count += found;
  return true;
}

bool AppendVarints(std::span<const std::byte> run, std::size_t most, OFRecordValues* values) {
  std::size_t found = 0;
  if (!CountVarints(run, &found)) return false;
  const std::size_t before = values->ints.size();
  const std::size_t kept = std::min(found, most - before);
  values->ints.resize(before + kept);
  std::int64_t* const to = values->ints.data() + before;
  if (kept == found) {
    if (!DecodeVarints(run, found, to)) return false;
  } else {
    WireReader reader(run);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      if (!reader.ReadVarint(&value)) return false;
      to[i] = static_cast<std::int64_t>(value);
    }
  }
  // As Protobuf reads an int32: by its lower half.
  if (values->kind == OFRecordKind::kInt32s) {
    for (std::size_t i = 0; i < kept; ++i) to[i] = static_cast<std::int32_t>(to[i]);
  }
  values->count += found;
  return true;
}

// A piece of the list whose kind was set: packed numbers, one number, or one value of bytes.
bool AppendPiece(std::span<const std::byte> piece, std::size_t most, OFRecordValues* values) {
  switch (values->kind) {
    case OFRecordKind::kBytes:
      if (values->count++ == 0) values->bytes = piece;
      return true;
    case OFRecordKind::kFloats:
      return AppendFixed(piece, most, &values->floats, &values->count);
    case OFRecordKind::kDoubles:
      return AppendFixed(piece, most, &values->doubles, &values->count);
    default:
      return AppendVarints(piece, most, values);
  }
}

// How a number of the kind stands alone.
std::uint32_t SingleTag(OFRecordKind kind) {
  switch (kind) {
    case OFRecordKind::kBytes:
      return kDelimited1;
    case OFRecordKind::kFloats:
      return WireTag(1, WireType::kFixed32);
    case OFRecordKind::kDoubles:
      return WireTag(1, WireType::kFixed64);
    default:
      return WireTag(1, WireType::kVarint);
  }
}

bool ReadList(WireReader list, std::size_t most, OFRecordValues* values) {
  const std::uint32_t single = SingleTag(values->kind);
  std::uint32_t tag = 0;
  std::span<const std::byte> piece;
  while (!list.done()) {
    if (!list.ReadTag(&tag)) return false;
    if (tag == kDelimited1) {
      if (!list.ReadDelimited(&piece)) return false;
    } else {
      const std::byte* const from = list.at();
      if (!list.Skip(tag)) return false;
      if (tag != single) continue;
      piece = {from, static_cast<std::size_t>(list.at() - from)};
    }
    if (!AppendPiece(piece, most, values)) return false;
  }
  return true;
}

bool ReadFeature(std::span<const std::byte> feature, std::size_t most, OFRecordValues* values) {
  WireReader reader(feature);
  std::uint32_t tag = 0;
  std::span<const std::byte> list;
  while (!reader.done()) {
    if (!reader.ReadTag(&tag)) return false;
    const std::uint32_t field = tag >> 3;
    if (field > kLastKind || tag != WireTag(field, WireType::kDelimited)) {
      if (!reader.Skip(tag)) return false;
      continue;
    }
    // A kind that is set clears another one before it, and is merged with itself.
    const auto kind = static_cast<OFRecordKind>(field);
    if (values->kind != kind) values->Clear();
    values->kind = kind;
    if (!reader.ReadDelimited(&list) || !ReadList(WireReader(list), most, values)) return false;
  }
  return true;
}

}  // namespace

const char* OFRecordKindName(OFRecordKind kind) {
  switch (kind) {
    case OFRecordKind::kBytes:
      return "bytes";
    case OFRecordKind::kFloats:
      return "floats";
    case OFRecordKind::kDoubles:
      return "doubles";
    case OFRecordKind::kInt32s:
      return "int32s";
    case OFRecordKind::kInt64s:
      return "int64s";
    case OFRecordKind::kUnset:
      break;
  }
  return "nothing";
}

void OFRecordValues::Clear() {
  kind = OFRecordKind::kUnset;
  count = 0;
  bytes = {};
  floats.clear();
  doubles.clear();
  ints.clear();
}

bool ReadOFRecordEntry(std::span<const std::byte> entry, std::size_t most_numbers,
                       std::span<const std::byte>* key, OFRecordValues* values) {
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
      if (!reader.ReadDelimited(&feature)) return false;
      if (!ReadFeature(feature, most_numbers, values)) return false;
    } else if (!reader.Skip(tag)) {
      return false;
    }
  }
  return true;
}

bool ReadOFRecordRun(OFRecordKind kind, std::span<const std::byte> run, std::size_t most_numbers,
                     OFRecordValues* values) {
  values->Clear();
  values->kind = kind;
  return AppendPiece(run, most_numbers, values);
}

}  // namespace ringfeed
