#include "tools/convert/record_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/little_endian.h"
#include "readers/formats/builders/wire_format.h"
#include "ringfeed/detail/elements.h"
#include "ringfeed/formats.h"
#include "ringfeed/tensor.h"
#include "tools/base64.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

// Values as JSON, appended to a line. NaN and the infinities are NaN, Infinity and -Infinity, as
// Python's json reads and writes them; numbers have as many digits as tell them apart in their
// type.

template <typename T>
void AppendDigits(T value, std::string* json) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  json->append(text.data(), end);
}

template <typename T>
void AppendFloating(T value, std::string* json) {
  if (std::isnan(value)) {
    *json += "NaN";
  } else if (std::isinf(value)) {
    *json += value > 0 ? "Infinity" : "-Infinity";
  } else {
    const std::size_t start = json->size();
    AppendDigits(value, json);
    // Readers that tell integers from other numbers must take it for a float.
    if (json->find_first_of(".e", start) == std::string::npos) *json += ".0";
  }
}

void AppendElement(DType dtype, const std::byte* from, std::string* json) {
  WithElement(dtype, from, [json](auto value) {
    if constexpr (std::is_same_v<decltype(value), bool>) {
      *json += value ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<decltype(value)>) {
      AppendFloating(value, json);
    } else {
      AppendDigits(value, json);
    }
  });
}

// An array of `shape` as nested arrays, a number for the shape of a scalar. Moves *from past the
// appended values.
void AppendNested(DType dtype, std::span<const std::int64_t> shape, const std::byte** from,
                  std::string* json) {
  if (shape.empty()) {
    AppendElement(dtype, *from, json);
    *from += DTypeBytes(dtype);
    return;
  }
  *json += '[';
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    if (i > 0) *json += ", ";
    AppendNested(dtype, shape.subspan(1), from, json);
  }
  *json += ']';
}

// For a tensor with LoD: an array for each sequence of each level. Entries [begin, end) of the
// level below: sequences of the next one, or rows.
void AppendLevel(const Tensor& tensor, std::size_t level, std::int64_t begin, std::int64_t end,
                 std::string* json) {
  const bool rows = level == tensor.lod.size();
  const std::span<const std::int64_t> row_shape = std::span(tensor.shape).subspan(1);
  const std::byte* from = tensor.data;
  if (rows && begin < end) {
    from +=
        tensor.bytes / static_cast<std::size_t>(tensor.shape[0]) * static_cast<std::size_t>(begin);
  }
  *json += '[';
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) *json += ", ";
    if (rows) {
      AppendNested(tensor.dtype, row_shape, &from, json);
    } else {
      const auto at = static_cast<std::size_t>(i);
      AppendLevel(tensor, level + 1, tensor.lod[level][at], tensor.lod[level][at + 1], json);
    }
  }
  *json += ']';
}

// A key; bytes that are no UTF-8 are replaced.
void AppendJsonKey(std::string_view key, std::string* json) {
  *json += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A string if the bytes are UTF-8, else {"base64": "…"}.
void AppendJsonBytes(std::span<const std::byte> bytes, std::string* json) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    *json += Json(text).dump();
  } catch (const Json::type_error&) {  // it is no UTF-8
    *json += "{\"base64\": \"";
    AppendBase64(bytes, json);
    *json += "\"}";
  }
}

using RecordBytes = std::span<const std::byte>;

enum class ListKind : std::uint8_t { kBytes, kFloat, kDouble, kInt };

// The list kind of a field of the message Feature, by its number from 1.
constexpr std::array kExampleLists = {ListKind::kBytes, ListKind::kFloat, ListKind::kInt};
constexpr std::array kOFRecordLists = {ListKind::kBytes, ListKind::kFloat, ListKind::kDouble,
                                       ListKind::kInt, ListKind::kInt};

constexpr std::uint32_t Delimited(std::uint32_t field) {
  return WireTag(field, WireType::kDelimited);
}

// Calls take(tag, reader) for each field of a message, which reads or skips its value. False if
// that fails, or the bytes are no message.
template <typename Take>
bool ForEachField(RecordBytes message, const Take& take) {
  WireReader reader(message);
  while (!reader.done()) {
    std::uint32_t tag = 0;
    if (!reader.ReadTag(&tag) || !take(tag, &reader)) return false;
  }
  return true;
}

// Calls take(number of the field, bytes) for each field of bytes; others are skipped.
template <typename Take>
bool ForEachDelimited(RecordBytes message, const Take& take) {
  return ForEachField(message, [&](std::uint32_t tag, WireReader* reader) {
    const std::uint32_t field = tag >> 3;
    RecordBytes bytes;
    if (tag != Delimited(field)) return reader->Skip(tag);
    return reader->ReadDelimited(&bytes) && take(field, bytes);
  });
}

// Before a value or an entry; neither ends with an opening bracket.
void AppendSeparator(std::string* json) {
  if (json->back() != '[' && json->back() != '{') *json += ", ";
}

template <typename T>
void AppendFixed(const std::byte* from, std::string* json) {
  AppendSeparator(json);
  AppendFloating(LoadLe<T>(from), json);
}

template <typename T>
bool AppendPackedFixed(RecordBytes packed, std::string* json) {
  for (std::size_t at = 0; at < packed.size() / sizeof(T) * sizeof(T); at += sizeof(T)) {
    AppendFixed<T>(packed.data() + at, json);
  }
  return packed.size() % sizeof(T) == 0;
}

bool AppendVarint(WireReader* reader, std::string* json) {
  std::uint64_t value = 0;
  if (!reader->ReadVarint(&value)) return false;
  AppendSeparator(json);
  AppendDigits(static_cast<std::int64_t>(value), json);
  return true;
}

bool AppendPacked(ListKind kind, RecordBytes packed, std::string* json) {
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

bool AppendList(ListKind kind, RecordBytes list, std::string* json) {
  return ForEachField(list, [&](std::uint32_t tag, WireReader* reader) {
    RecordBytes bytes;
    if (tag != Delimited(1)) return AppendSingle(kind, tag, reader, json);
    return reader->ReadDelimited(&bytes) && AppendPacked(kind, bytes, json);
  });
}

bool AppendFeature(std::span<const ListKind> lists, RecordBytes feature, std::string* json) {
  *json += '[';
  const bool fine = ForEachDelimited(feature, [&](std::uint32_t field, RecordBytes list) {
    return field > lists.size() || AppendList(lists[field - 1], list, json);
  });
  *json += ']';
  return fine;
}

// A list of features, each for one step of a sequence.
bool AppendFeatureList(std::span<const ListKind> lists, RecordBytes message, std::string* json) {
  *json += '[';
  const bool fine = ForEachDelimited(message, [&](std::uint32_t field, RecordBytes feature) {
    if (field != 1) return true;
    AppendSeparator(json);
    return AppendFeature(lists, feature, json);
  });
  *json += ']';
  return fine;
}

using AppendValue = bool(std::span<const ListKind> lists, RecordBytes value, std::string* json);

// An entry of a map from names to features or lists of them.
bool AppendEntry(std::span<const ListKind> lists, AppendValue* append, RecordBytes entry,
                 std::string* json) {
  RecordBytes name;
  RecordBytes value;
  const bool fine = ForEachDelimited(entry, [&](std::uint32_t field, RecordBytes bytes) {
    if (field == 1) name = bytes;
    if (field == 2) value = bytes;
    return true;
  });
  if (!fine) return false;
  AppendSeparator(json);
  AppendJsonKey({reinterpret_cast<const char*>(name.data()), name.size()}, json);
  *json += ": ";
  return append(lists, value, json);
}

bool AppendEntries(std::span<const ListKind> lists, AppendValue* append, RecordBytes message,
                   std::string* json) {
  return ForEachDelimited(message, [&](std::uint32_t field, RecordBytes entry) {
    return field != 1 || AppendEntry(lists, append, entry, json);
  });
}

bool AppendSequences(RecordBytes feature_lists, std::string* json) {
  AppendSeparator(json);
  *json += "\"feature_lists\": {";
  if (!AppendEntries(kExampleLists, AppendFeatureList, feature_lists, json)) return false;
  *json += '}';
  return true;
}

// Appends all features of a serialised tf.Example as an object of lists; of a tf.SequenceExample
// those of its context, and under "feature_lists" a list of lists for each sequence. False if the
// bytes are neither; *json then holds a part of it.
bool AppendExampleJson(RecordBytes record, std::string* json) {
  *json += '{';
  const bool fine = ForEachDelimited(record, [&](std::uint32_t field, RecordBytes bytes) {
    if (field == 1) return AppendEntries(kExampleLists, AppendFeature, bytes, json);
    return field != 2 || AppendSequences(bytes, json);
  });
  *json += '}';
  return fine;
}

// The same for OneFlow's OFRecord.
bool AppendOFRecordJson(RecordBytes record, std::string* json) {
  *json += '{';
  if (!AppendEntries(kOFRecordLists, AppendFeature, record, json)) return false;
  *json += '}';
  return true;
}

Status NotOne(const char* what) {
  return Status(StatusCode::kDamaged, std::string("the record is no ") + what +
                                          "; name its fields by --parse, or print it --as text");
}

Status ExampleToJson(RecordBytes record, std::string* json) {
  return AppendExampleJson(record, json) ? Status() : NotOne("tf.Example");
}

Status OFRecordToJson(RecordBytes record, std::string* json) {
  return AppendOFRecordJson(record, json) ? Status() : NotOne("OFRecord");
}

Status LineToJson(RecordBytes record, std::string* json) {
  const std::string_view line(reinterpret_cast<const char*>(record.data()), record.size());
  if (!Json::accept(line)) return NotOne("JSON");
  *json += line;
  return {};
}

Status SampleToJson(RecordBytes record, std::string* json) {
  TarSample sample;
  Status status = SplitTarSample(record, &sample);
  if (!status.ok()) return status;
  *json += "{\"__key__\": ";
  AppendJsonKey(sample.key, json);
  for (const TarMember& member : sample.members) {
    *json += ", ";
    AppendJsonKey(member.extension, json);
    *json += ": ";
    AppendJsonBytes(member.bytes, json);
  }
  *json += '}';
  return {};
}

bool IsBytes(const FieldSpec& field) {
  return field.dtype == DType::kUInt8 && field.shape == Shape{-1};
}

}  // namespace

RecordToJson JsonOfFormat(std::string_view format) {
  const std::string_view family = format.substr(0, format.find(':'));
  if (family == "tfrecord") return ExampleToJson;
  if (family == "ofrecord") return OFRecordToJson;
  if (family == "jsonl") return LineToJson;
  if (family == "tar") return SampleToJson;
  return nullptr;
}

void AppendRowJson(const std::vector<FieldSpec>& fields, const Instance& row, std::string* json) {
  *json += '{';
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (f > 0) *json += ", ";
    AppendJsonKey(fields[f].name, json);
    *json += ": ";
    if (!row[f].lod.empty()) {
      const auto sequences = static_cast<std::int64_t>(row[f].lod[0].size()) - 1;
      AppendLevel(row[f], 0, 0, sequences, json);
    } else if (IsBytes(fields[f])) {
      AppendJsonBytes({row[f].data, row[f].bytes}, json);
    } else {
      const std::byte* from = row[f].data;
      AppendNested(row[f].dtype, row[f].shape, &from, json);
    }
  }
  *json += '}';
}

}  // namespace ringfeed::tools
