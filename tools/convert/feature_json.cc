#include "tools/convert/feature_json.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "readers/formats/builders/wire_format.h"
#include "tools/json_value.h"

namespace ringfeed::tools {
namespace {

using Bytes = std::span<const std::byte>;

enum class ListKind : std::uint8_t { kBytes, kFloat, kDouble, kInt };

// The list that a field of the message Feature is, by its number from 1.
constexpr std::array kExampleLists = {ListKind::kBytes, ListKind::kFloat, ListKind::kInt};
constexpr std::array kOFRecordLists = {ListKind::kBytes, ListKind::kFloat, ListKind::kDouble,
                                       ListKind::kInt, ListKind::kInt};

constexpr std::uint32_t Delimited(std::uint32_t field) {
  return WireTag(field, WireType::kDelimited);
}

// Before a value or an entry; none has a bracket for its last byte.
void AppendSeparator(std::string* json) {
  if (json->back() != '[' && json->back() != '{') *json += ", ";
}

template <typename T>
void AppendFixed(const std::byte* from, std::string* json) {
  T value;
  std::memcpy(&value, from, sizeof value);
  AppendSeparator(json);
  AppendJsonNumber(value, json);
}

template <typename T>
bool AppendPackedFixed(Bytes packed, std::string* json) {
  for (std::size_t at = 0; at < packed.size() / sizeof(T) * sizeof(T); at += sizeof(T)) {
    AppendFixed<T>(packed.data() + at, json);
  }
  return packed.size() % sizeof(T) == 0;
}

bool AppendVarint(WireReader* reader, std::string* json) {
  std::uint64_t value = 0;
  if (!reader->ReadVarint(&value)) return false;
  AppendSeparator(json);
  AppendJsonNumber(static_cast<std::int64_t>(value), json);
  return true;
}

bool AppendPacked(ListKind kind, Bytes packed, std::string* json) {
  switch (kind) {
    case ListKind::kBytes:
      AppendSeparator(json);
      AppendJsonBytes(packed, json);
      return true;
    case ListKind::kFloat:
      return AppendPackedFixed<float>(packed, json);
    case ListKind::kDouble:
      return AppendPackedFixed<double>(packed, json);
    case ListKind::kInt:
      break;
  }
  WireReader reader(packed);
  while (!reader.done()) {
    if (!AppendVarint(&reader, json)) return false;
  }
  return true;
}

// A value that is not packed.
bool AppendSingle(ListKind kind, std::uint32_t tag, WireReader* reader, std::string* json) {
  if (kind == ListKind::kInt && tag == WireTag(1, WireType::kVarint)) {
    return AppendVarint(reader, json);
  }
  const std::byte* const at = reader->at();
  if (!reader->Skip(tag)) return false;
  if (kind == ListKind::kFloat && tag == WireTag(1, WireType::kFixed32)) {
    AppendFixed<float>(at, json);
  } else if (kind == ListKind::kDouble && tag == WireTag(1, WireType::kFixed64)) {
    AppendFixed<double>(at, json);
  }
  return true;
}

bool AppendList(ListKind kind, Bytes list, std::string* json) {
  WireReader reader(list);
  while (!reader.done()) {
    std::uint32_t tag = 0;
    Bytes bytes;
    if (!reader.ReadTag(&tag)) return false;
    const bool fine = tag == Delimited(1)
                          ? reader.ReadDelimited(&bytes) && AppendPacked(kind, bytes, json)
                          : AppendSingle(kind, tag, &reader, json);
    if (!fine) return false;
  }
  return true;
}

bool AppendFeature(std::span<const ListKind> lists, Bytes feature, std::string* json) {
  WireReader reader(feature);
  *json += '[';
  while (!reader.done()) {
    std::uint32_t tag = 0;
    Bytes list;
    if (!reader.ReadTag(&tag)) return false;
    const std::uint32_t field = tag >> 3;
    const bool known = field >= 1 && field <= lists.size() && tag == Delimited(field);
    const bool fine = known
                          ? reader.ReadDelimited(&list) && AppendList(lists[field - 1], list, json)
                          : reader.Skip(tag);
    if (!fine) return false;
  }
  *json += ']';
  return true;
}

// A list of features, each for one step of a sequence.
bool AppendFeatureList(std::span<const ListKind> lists, Bytes message, std::string* json) {
  WireReader reader(message);
  *json += '[';
  while (!reader.done()) {
    std::uint32_t tag = 0;
    Bytes feature;
    if (!reader.ReadTag(&tag)) return false;
    if (tag == Delimited(1)) AppendSeparator(json);
    const bool fine = tag == Delimited(1)
                          ? reader.ReadDelimited(&feature) && AppendFeature(lists, feature, json)
                          : reader.Skip(tag);
    if (!fine) return false;
  }
  *json += ']';
  return true;
}

using AppendValue = bool(std::span<const ListKind> lists, Bytes value, std::string* json);

// An entry of a map from names to features or lists of them.
bool AppendEntry(std::span<const ListKind> lists, AppendValue* append, Bytes entry,
                 std::string* json) {
  WireReader reader(entry);
  Bytes name;
  Bytes value;
  while (!reader.done()) {
    std::uint32_t tag = 0;
    if (!reader.ReadTag(&tag)) return false;
    const bool fine = tag == Delimited(1)   ? reader.ReadDelimited(&name)
                      : tag == Delimited(2) ? reader.ReadDelimited(&value)
                                            : reader.Skip(tag);
    if (!fine) return false;
  }
  AppendSeparator(json);
  AppendJsonKey({reinterpret_cast<const char*>(name.data()), name.size()}, json);
  *json += ": ";
  return append(lists, value, json);
}

bool AppendEntries(std::span<const ListKind> lists, AppendValue* append, Bytes message,
                   std::string* json) {
  WireReader reader(message);
  while (!reader.done()) {
    std::uint32_t tag = 0;
    Bytes entry;
    if (!reader.ReadTag(&tag)) return false;
    const bool fine = tag == Delimited(1)
                          ? reader.ReadDelimited(&entry) && AppendEntry(lists, append, entry, json)
                          : reader.Skip(tag);
    if (!fine) return false;
  }
  return true;
}

bool AppendSequences(Bytes feature_lists, std::string* json) {
  AppendSeparator(json);
  *json += "\"feature_lists\": {";
  if (!AppendEntries(kExampleLists, AppendFeatureList, feature_lists, json)) return false;
  *json += '}';
  return true;
}

}  // namespace

bool AppendExampleJson(Bytes record, std::string* json) {
  WireReader reader(record);
  *json += '{';
  while (!reader.done()) {
    std::uint32_t tag = 0;
    Bytes bytes;
    if (!reader.ReadTag(&tag)) return false;
    bool fine = false;
    if (tag == Delimited(1)) {
      fine =
          reader.ReadDelimited(&bytes) && AppendEntries(kExampleLists, AppendFeature, bytes, json);
    } else if (tag == Delimited(2)) {
      fine = reader.ReadDelimited(&bytes) && AppendSequences(bytes, json);
    } else {
      fine = reader.Skip(tag);
    }
    if (!fine) return false;
  }
  *json += '}';
  return true;
}

bool AppendOFRecordJson(Bytes record, std::string* json) {
  *json += '{';
  if (!AppendEntries(kOFRecordLists, AppendFeature, record, json)) return false;
  *json += '}';
  return true;
}

}  // namespace ringfeed::tools
