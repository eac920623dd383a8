#include "readers/parsers/example/feature_values.h"

#include <algorithm>
#include <cstring>

#include "readers/parsers/example/varint_list.h"

namespace ringfeed {

const std::byte* PassField(std::span<const std::byte> rest, std::uint32_t number, bool* found,
                           std::span<const std::byte>* bytes) {
  WireReader reader(rest);
  std::uint32_t tag = 0;
  if (!reader.ReadTag(&tag)) return nullptr;
  *found = tag == WireTag(number, WireType::kDelimited);
  return (*found ? reader.ReadDelimited(bytes) : reader.Skip(tag)) ? reader.at() : nullptr;
}

namespace {

constexpr std::uint32_t kDelimited1 = WireTag(1, WireType::kDelimited);

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

bool AppendVarints(std::span<const std::byte> run, std::size_t most, FeatureValues* values) {
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
  if (values->kind == FeatureKind::kInt32s) {
    for (std::size_t i = 0; i < kept; ++i) to[i] = static_cast<std::int32_t>(to[i]);
  }
  values->count += found;
  return true;
}

// A piece of the list whose kind was set: packed numbers, one number, or one value of bytes.
bool AppendPiece(std::span<const std::byte> piece, std::size_t most, FeatureValues* values) {
  switch (values->kind) {
    case FeatureKind::kBytes:
      if (values->count++ == 0) values->bytes = piece;
      if (values->keeps_all_bytes) values->all_bytes.push_back(piece);
      return true;
    case FeatureKind::kFloats:
      return AppendFixed(piece, most, &values->floats, &values->count);
    case FeatureKind::kDoubles:
      return AppendFixed(piece, most, &values->doubles, &values->count);
    default:
      return AppendVarints(piece, most, values);
  }
}

// The tag of a single number of the kind.
std::uint32_t SingleTag(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return kDelimited1;
    case FeatureKind::kFloats:
      return WireTag(1, WireType::kFixed32);
    case FeatureKind::kDoubles:
      return WireTag(1, WireType::kFixed64);
    default:
      return WireTag(1, WireType::kVarint);
  }
}

bool ReadList(WireReader list, std::size_t most, FeatureValues* values) {
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

// Merges the feature into `values`.
bool MergeFeature(const FeatureDialect& dialect, std::span<const std::byte> feature,
                  std::size_t most, FeatureValues* values) {
  WireReader reader(feature);
  std::uint32_t tag = 0;
  std::span<const std::byte> list;
  while (!reader.done()) {
    if (!reader.ReadTag(&tag)) return false;
    const FeatureKind kind = dialect.KindOf(tag >> 3);
    if (kind == FeatureKind::kUnset || tag != WireTag(tag >> 3, WireType::kDelimited)) {
      if (!reader.Skip(tag)) return false;
      continue;
    }
    // A kind that is set clears another kind before it, and merges with itself.
    if (values->kind != kind) values->Clear();
    values->kind = kind;
    if (!reader.ReadDelimited(&list) || !ReadList(WireReader(list), most, values)) return false;
  }
  return true;
}

}  // namespace

const char* FeatureKindName(FeatureKind kind) {
  constexpr std::array<const char*, 6> kNames = {"nothing", "bytes",  "floats",
                                                 "doubles", "int32s", "int64s"};
  return kNames[static_cast<std::size_t>(kind)];
}

void FeatureValues::Clear() {
  kind = FeatureKind::kUnset;
  count = 0;
  bytes = {};
  all_bytes.clear();
  floats.clear();
  doubles.clear();
  ints.clear();
}

bool ReadFeature(const FeatureDialect& dialect, std::span<const std::byte> feature,
                 std::size_t most_numbers, FeatureValues* values) {
  values->Clear();
  return MergeFeature(dialect, feature, most_numbers, values);
}

bool ReadFeatureEntry(const FeatureDialect& dialect, std::span<const std::byte> entry,
                      std::size_t most_numbers, FeatureValues* values) {
  values->Clear();
  return ForEachDelimited(entry, 2, [&](std::span<const std::byte> feature) {
    return MergeFeature(dialect, feature, most_numbers, values);
  });
}

bool ReadFeatureKey(std::span<const std::byte> entry, std::span<const std::byte>* key) {
  *key = {};
  return ForEachDelimited(entry, 1, [&](std::span<const std::byte> found) {
    *key = found;
    return true;
  });
}

bool ReadFeatureRun(FeatureKind kind, std::span<const std::byte> run, std::size_t most_numbers,
                    FeatureValues* values) {
  values->Clear();
  values->kind = kind;
  return AppendPiece(run, most_numbers, values);
}

bool LocateUsualFeature(const FeatureDialect& dialect, std::span<const std::byte> feature,
                        FieldLocation* location) {
  UsualReader reader(feature);
  *location = {feature.data(), 0, 0, kFormMissing};
  if (reader.done()) return true;
  const auto tag = std::to_integer<std::uint32_t>(feature[0]);
  const FeatureKind kind = dialect.KindOf(tag >> 3);
  std::span<const std::byte> run;
  if (kind == FeatureKind::kUnset || tag != WireTag(tag >> 3, WireType::kDelimited)) return false;
  if (!reader.Enter(&run) || !reader.done()) return false;
  location->form = kind == FeatureKind::kBytes && run.empty() ? kFormNoBytes : FormOf(kind);
  if (run.empty()) return true;
  UsualReader list(run);
  constexpr std::byte kRun{WireTag(1, WireType::kDelimited)};
  if (!list.Enter(kRun, &run) || !list.done()) return false;
  location->data = run.data();
  location->bytes = static_cast<std::uint32_t>(run.size());
  return true;
}

}  // namespace ringfeed
