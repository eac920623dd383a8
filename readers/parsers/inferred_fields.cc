#include "readers/parsers/inferred_fields.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/builders/wire_format.h"
#include "readers/formats/tar/tar_unit.h"
#include "readers/formats/text/csv_order.h"
#include "readers/parsers/text/json_scanner.h"
#include "readers/parsers/text/text_field.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

using WireBytes = std::span<const std::byte>;

// One field of a serialised message.
struct WireField {
  std::uint32_t number = 0;
  bool delimited = false;
  WireBytes bytes;  // of a length-delimited one
};

// Walks the fields of a message; ok() turns false at the first byte that begins no field, or at a
// group.
class WireWalk {
 public:
  explicit WireWalk(WireBytes message) : reader_(message) {}
  bool ok() const { return ok_; }

  bool Next(WireField* field) {
    if (reader_.done() || !ok_) return false;
    std::uint32_t tag = 0;
    ok_ = reader_.ReadTag(&tag) && (tag & 7) != static_cast<std::uint32_t>(WireType::kStartGroup);
    field->number = tag >> 3;
    field->delimited = tag == WireTag(field->number, WireType::kDelimited);
    ok_ = ok_ && (field->delimited ? reader_.ReadDelimited(&field->bytes) : reader_.Skip(tag));
    return ok_;
  }

 private:
  WireReader reader_;
  bool ok_ = true;
};

std::optional<std::size_t> CountPacked(WireBytes packed, char kind) {
  if (kind == 'f') return packed.size() / 4;
  WireReader reader(packed);
  std::size_t values = 0;
  for (std::uint64_t value = 0; !reader.done(); ++values) {
    if (!reader.ReadVarint(&value)) return std::nullopt;
  }
  return values;
}

// The values of a BytesList, FloatList or Int64List.
std::optional<std::size_t> CountValues(WireBytes list, char kind) {
  WireWalk walk(list);
  WireField field;
  std::size_t values = 0;
  while (walk.Next(&field)) {
    const bool packed = kind != 'b' && field.delimited;
    const std::optional<std::size_t> more = packed ? CountPacked(field.bytes, kind) : 1;
    if (!more) return std::nullopt;
    values += *more;
  }
  return walk.ok() ? std::optional(values) : std::nullopt;
}

struct Entry {
  std::string name;
  char kind = '?';  // no list: as if the record lacked it
  std::size_t values = 0;
};

// A Feature: at most one list of one kind.
bool PeekFeature(WireBytes feature, Entry* entry) {
  static constexpr std::string_view kKinds = "?bfi";
  WireWalk walk(feature);
  WireField field;
  while (walk.Next(&field)) {
    if (field.number >= kKinds.size() || !field.delimited) return false;
    entry->kind = kKinds[field.number];
    const std::optional<std::size_t> values = CountValues(field.bytes, entry->kind);
    if (!values) return false;
    entry->values = *values;
  }
  return walk.ok();
}

bool PeekEntry(WireBytes message, Entry* entry) {
  WireWalk walk(message);
  WireField field;
  while (walk.Next(&field)) {
    if (!field.delimited) return false;
    if (field.number == 1) {
      entry->name.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    } else if (field.number != 2 || !PeekFeature(field.bytes, entry)) {
      return false;
    }
  }
  return walk.ok() && !entry->name.empty();
}

bool PeekRecord(WireBytes record, std::map<std::string, PeekedFeature>* features) {
  WireWalk example(record);
  WireField outer;
  while (example.Next(&outer)) {
    if (outer.number != 1 || !outer.delimited) return false;
    WireWalk walk(outer.bytes);
    WireField field;
    while (walk.Next(&field)) {
      Entry entry;
      if (field.number != 1 || !field.delimited || !PeekEntry(field.bytes, &entry)) return false;
      if (entry.kind == '?') continue;
      const auto [place, is_new] =
          features->try_emplace(entry.name, PeekedFeature{entry.kind, 0, entry.values, 0});
      PeekedFeature& peeked = place->second;
      peeked.records += 1;
      peeked.fewest_values = std::min(peeked.fewest_values, entry.values);
      peeked.most_values = std::max(peeked.most_values, entry.values);
    }
    if (!walk.ok()) return false;
  }
  return example.ok();
}

std::string_view TextOf(const RecordSpan& record) {
  return {reinterpret_cast<const char*>(record.data), record.size};
}

/// What the values of one key, column or member are.
struct SeenValues {
  enum Kind : unsigned { kInteger = 1, kReal = 2, kTruth = 4, kText = 8, kList = 16, kOther = 32 };

  std::string name;
  unsigned kinds = 0;
  unsigned elements = 0;                                         ///< kinds of those of lists
  std::size_t there = 0;                                         ///< how many records have it
  std::size_t fewest = std::numeric_limits<std::size_t>::max();  ///< elements of a list
  std::size_t most = 0;
};

/// Those of several names, in the order in which they came.
class SeenFields {
 public:
  SeenValues& operator[](std::string_view name) {
    const auto [place, is_new] = places_.try_emplace(std::string(name), seen_.size());
    if (is_new) seen_.push_back({.name = std::string(name)});
    return seen_[place->second];
  }
  /// The fields of values that are alike in all of `records`.
  std::vector<FeatureSpec> Fields(std::size_t records) const;

 private:
  std::vector<SeenValues> seen_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

std::optional<FeatureSpec> FieldOf(const SeenValues& seen, bool always) {
  FeatureSpec field{seen.name, DType::kUInt8, {-1}, {}};
  if (!always) field.missing = std::string();
  if (seen.kinds == SeenValues::kText) return field;
  const bool list = seen.kinds == SeenValues::kList;
  const unsigned numbers = list ? seen.elements : seen.kinds;
  if (list && numbers == SeenValues::kText) {
    field.shape = {-1, -1};
    return field;
  }
  constexpr unsigned kNumbers = SeenValues::kInteger | SeenValues::kReal | SeenValues::kTruth;
  if (numbers == 0 || (numbers & ~kNumbers) != 0) return std::nullopt;
  field.dtype = (numbers & SeenValues::kReal) != 0 ? DType::kFloat64 : DType::kInt64;
  if (list) {
    if (always && seen.fewest == seen.most) field.shape = {static_cast<std::int64_t>(seen.most)};
    return field;
  }
  field.shape = {};
  if (!always) {  // no integer says that there is none
    field.dtype = DType::kFloat64;
    field.missing = std::numeric_limits<double>::quiet_NaN();
  } else if (numbers == SeenValues::kTruth) {
    field.dtype = DType::kBool;
  }
  return field;
}

std::vector<FeatureSpec> SeenFields::Fields(std::size_t records) const {
  std::vector<FeatureSpec> fields;
  for (const SeenValues& seen : seen_) {
    if (!IsUtf8(seen.name)) continue;
    if (auto field = FieldOf(seen, seen.there == records)) fields.push_back(*std::move(field));
  }
  return fields;
}

// What a text is if it is a number as a whole, as parsers read it; else 0.
unsigned NumberKind(std::string_view text) {
  std::byte element[sizeof(double)];
  const char* const end = text.data() + text.size();
  if (text.empty()) return 0;
  if (ReaderOf(DType::kInt64)(text.data(), end, element) == end) return SeenValues::kInteger;
  const bool real = ReaderOf(DType::kFloat64)(text.data(), end, element) == end;
  return real ? unsigned{SeenValues::kReal} : 0U;
}

// The same for a cell of CSV, which may also be a truth value by its word, or any other text.
unsigned CellKind(std::string_view cell) {
  std::byte truth{};
  const char* const end = cell.data() + cell.size();
  if (const unsigned kind = NumberKind(cell); kind != 0) return kind;
  const bool is_truth = ReadTruth(cell.data(), end, &truth) == end;
  return is_truth ? SeenValues::kTruth : SeenValues::kText;
}

std::string_view WithoutBlanks(std::string_view text, std::string_view blanks) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

unsigned ScalarKind(JsonScanner* json) {
  const char* const begin = json->at();
  if (json->TakeWord("true") || json->TakeWord("false")) return SeenValues::kTruth;
  if (!json->SkipValue()) return SeenValues::kOther;
  const unsigned kind = NumberKind({begin, static_cast<std::size_t>(json->at() - begin)});
  return kind != 0 ? kind : unsigned{SeenValues::kOther};
}

// Passes a value; false if it is malformed.
bool AddValue(JsonScanner* json, SeenValues* seen) {
  const char first = json->Peek();
  if (first == '"') {
    seen->kinds |= SeenValues::kText;
    return json->SkipValue();
  }
  if (first == '{') {
    seen->kinds |= SeenValues::kOther;
    return json->SkipValue();
  }
  if (!json->Take('[')) {
    seen->kinds |= ScalarKind(json);
    return true;
  }
  std::size_t elements = 0;
  for (bool more = json->Peek() != ']'; more; more = json->Take(',')) {
    const char element = json->Peek();
    const bool number = element == '-' || (element >= '0' && element <= '9');
    const unsigned kind = element == '"' ? SeenValues::kText : SeenValues::kOther;
    seen->elements |= number ? ScalarKind(json) : kind;
    if (!number && !json->SkipValue()) return false;
    ++elements;
  }
  seen->kinds |= SeenValues::kList;
  seen->fewest = std::min(seen->fewest, elements);
  seen->most = std::max(seen->most, elements);
  return json->Take(']');
}

// The field of a key as JsonLinesParser names it: one that begins with a slash is a JSON Pointer.
std::string FieldOfKey(const std::string& key) {
  if (!key.starts_with('/')) return key;
  std::string pointer = "/";
  for (const char c : key) {
    if (c == '~' || c == '/') {
      pointer += c == '~' ? "~0" : "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

// False if the line is no object.
bool AddObject(std::string_view line, SeenFields* seen) {
  JsonScanner json(line);
  if (!json.Take('{')) return false;
  for (bool more = json.Peek() != '}'; more; more = json.Take(',')) {
    std::string_view raw;
    bool escaped = false;
    if (json.Peek() != '"' || !json.TakeString(&raw, &escaped) || !json.Take(':')) return false;
    std::string name(raw);
    std::size_t size = name.size();
    if (escaped && !UnescapeJson(raw, name.data(), &size)) return false;
    name.resize(size);
    if (json.Peek() == 'n' && json.TakeWord("null")) continue;
    SeenValues& values = (*seen)[FieldOfKey(name)];
    ++values.there;
    if (!AddValue(&json, &values)) return false;
  }
  return json.Take('}');
}

std::size_t CountIntact(std::span<const RecordSpan> records) {
  return static_cast<std::size_t>(std::count_if(
      records.begin(), records.end(), [](const RecordSpan& record) { return !record.damaged(); }));
}

}  // namespace

std::map<std::string, PeekedFeature> PeekExamples(std::span<const RecordSpan> records) {
  std::map<std::string, PeekedFeature> features;
  for (const RecordSpan& record : records) {
    if (!record.damaged() && !PeekRecord(record.bytes(), &features)) return {};
  }
  return features;
}

std::vector<FeatureSpec> InferExampleFields(std::span<const RecordSpan> records) {
  const std::size_t intact = CountIntact(records);
  std::vector<FeatureSpec> fields;
  for (const auto& [name, feature] : PeekExamples(records)) {
    if (!IsUtf8(name)) continue;
    const bool always = feature.records == intact;
    FeatureSpec field{name, DType::kUInt8, {-1}, {}};
    if (feature.kind == 'b') {
      if (feature.fewest_values != 1 || feature.most_values != 1) field.shape = {-1, -1};
    } else {
      field.dtype = feature.kind == 'f' ? DType::kFloat32 : DType::kInt64;
      if (always && feature.fewest_values == feature.most_values && feature.most_values > 0) {
        field.shape = {static_cast<std::int64_t>(feature.most_values)};
        if (feature.most_values == 1) field.shape = {};
      }
    }
    if (!always) field.missing = std::string();
    fields.push_back(std::move(field));
  }
  return fields;
}

std::vector<FeatureSpec> InferJsonFields(std::span<const RecordSpan> records) {
  SeenFields seen;
  for (const RecordSpan& record : records) {
    if (!record.damaged() && !AddObject(TextOf(record), &seen)) return {};
  }
  return seen.Fields(CountIntact(records));
}

namespace {

/// The arrays of one member of several samples: what they have in common, if anything.
struct SeenArrays {
  std::optional<FeatureSpec> field;  ///< of the first
  std::size_t there = 0;
  bool alike = true;

  void Add(const std::string& name, std::span<const std::byte> file) {
    const ArrayHeader header = ReadNpyHeader(file);
    ++there;
    alike = alike && header.status.ok() && header.elements && !header.elements->types.empty();
    if (!alike) return;
    FeatureSpec own{name, header.elements->types.front(), {}, {}};
    for (const std::uint64_t size : header.shape) {
      own.shape.push_back(static_cast<std::int64_t>(size));
    }
    if (!field) field = own;
    alike = own.dtype == field->dtype && own.shape.size() == field->shape.size();
    for (std::size_t i = 0; alike && i < own.shape.size(); ++i) {
      if (own.shape[i] == field->shape[i] || field->shape[i] == -1) continue;
      if (i == 0) field->shape[0] = -1;
      alike = i == 0;
    }
  }
};

}  // namespace

std::vector<FeatureSpec> InferTarFields(std::span<const RecordSpan> samples) {
  // The extensions that WebDataset's autodecode takes for integers.
  static const std::set<std::string, std::less<>> kIntegers = {"cls",   "cls2", "class", "count",
                                                               "index", "inx",  "id"};
  SeenFields seen;
  std::map<std::string, SeenArrays> arrays;
  std::vector<std::string> names;
  for (const RecordSpan& record : samples) {
    TarSample sample;
    if (record.damaged() || !SplitTarSample(record.bytes(), &sample).ok()) continue;
    for (const TarMember& member : sample.members) {
      // "JPG" is found as "jpg", and ";" stands between several extensions.
      const auto known = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
        return sample.Find(name) == &member;
      });
      const std::string name = known == names.end() ? member.extension : *known;
      if (name.find(';') != std::string::npos) continue;
      if (IsNpyExtension(name)) {
        arrays[name].Add(name, member.bytes);
        continue;
      }
      if (known == names.end()) names.push_back(name);
      SeenValues& values = seen[name];
      const std::string_view text = WithoutBlanks(
          {reinterpret_cast<const char*>(member.bytes.data()), member.bytes.size()}, " \t\r\n");
      const bool number =
          kIntegers.contains(values.name) && NumberKind(text) == SeenValues::kInteger;
      values.kinds |= number ? SeenValues::kInteger : SeenValues::kText;
      ++values.there;
    }
  }
  for (const std::string& name : names) {
    // A member that is not always a number, or not always there, is its bytes.
    const bool always = seen[name].there == CountIntact(samples);
    if (!always || seen[name].kinds != SeenValues::kInteger) seen[name].kinds = SeenValues::kText;
  }
  std::vector<FeatureSpec> fields = seen.Fields(CountIntact(samples));
  for (const auto& [name, seen_arrays] : arrays) {
    // Nothing says that an array is missing. TarParser takes uint8 [-1] for the member's bytes.
    const bool always = seen_arrays.alike && seen_arrays.there == CountIntact(samples);
    if (!always || !IsUtf8(name)) continue;
    const FeatureSpec& field = *seen_arrays.field;
    if (field.dtype != DType::kUInt8 || field.shape != Shape{-1}) fields.push_back(field);
  }
  return fields;
}

std::vector<FeatureSpec> InferCsvFields(const std::vector<std::string>& names,
                                        std::span<const RecordSpan> rows,
                                        const CsvOptions& options) {
  SeenFields seen;
  std::size_t whole = 0;
  for (const std::string& name : names) {
    if (!name.empty() && seen[name].there++ != 0) return {};  // which of the two?
  }
  for (const std::string& name : names) seen[name].there = 0;
  for (const RecordSpan& row : rows) {
    if (row.damaged()) continue;
    const std::vector<std::string> cells = CsvTexts(TextOf(row), options.delimiter, options.quotes);
    if (cells.size() != names.size()) continue;  // the parser refuses it
    ++whole;
    for (std::size_t column = 0; column < names.size(); ++column) {
      const std::string_view cell = WithoutBlanks(cells[column], " \t");
      if (cell.empty() || names[column].empty() || IsMissing(cell)) continue;
      seen[names[column]].kinds |= CellKind(cell);
      ++seen[names[column]].there;
    }
  }
  for (const std::string& name : names) {
    SeenValues& values = seen[name];
    if (name.empty()) continue;
    // Nothing says that a truth value is missing.
    const bool truth = values.kinds == SeenValues::kTruth && values.there == whole;
    constexpr unsigned kNoNumber = SeenValues::kText | SeenValues::kTruth;
    if (truth || (values.kinds != 0 && (values.kinds & kNoNumber) == 0)) continue;
    values.kinds = SeenValues::kText;
    values.there = whole;  // an empty cell is an empty text
  }
  return whole > 0 ? seen.Fields(whole) : std::vector<FeatureSpec>();
}

bool IsCsvHeader(std::span<const RecordSpan> rows, const CsvOptions& options) {
  if (rows.empty() || rows.front().damaged()) return false;
  const std::vector<std::string> names =
      CsvTexts(TextOf(rows.front()), options.delimiter, options.quotes);
  for (const std::string& name : names) {
    if (NumberKind(WithoutBlanks(name, " \t")) != 0) return false;
  }
  const auto fields = InferCsvFields(names, rows.subspan(1), options);
  return std::any_of(fields.begin(), fields.end(),
                     [](const FeatureSpec& field) { return field.dtype != DType::kUInt8; });
}

std::vector<FeatureSpec> InferArrayField(const FileElements& elements, std::string name) {
  if (elements.types.empty()) return {};
  return {{std::move(name), elements.types.front(), elements.shape, {}}};
}

}  // namespace ringfeed
