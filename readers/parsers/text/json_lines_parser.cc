#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/example/feature_index.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "readers/parsers/text/json_scanner.h"
#include "readers/parsers/text/text_field.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kChunkRows = 64;
constexpr std::size_t kStageBytes = 8 * 1024;
constexpr const char* kEmptyLine = "it is empty (the format jsonl passes over empty lines)";

struct JsonScratch final : Parser::Scratch {
  explicit JsonScratch(std::size_t fields) : columns(fields, kStageBytes) {}

  StagedColumns columns;
  LocatedStorage storage;
  std::vector<FieldLocation> locations;  // of a chunk, if there is one phase
  KeyOrder order;
  std::vector<std::byte> elements;   // of an array
  std::vector<std::int64_t> counts;  // of the items in each open bracket of it
  std::vector<std::byte> zeros;      // in place of a row that failed
  std::string key;                   // a key that had escapes
  std::string wrong;                 // why the last row failed
};

class ObjectsParser final : public Parser {
 public:
  explicit ObjectsParser(const std::vector<FeatureSpec>& features);

  std::string name() const override { return "jsonl"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<JsonScratch>(text_fields_.size());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  Refusal Explain(const RecordSpan& record, const Status& why) const override;
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return static_cast<JsonScratch*>(scratch)->storage.Take();
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  bool ParseRow(const RecordSpan& row, FieldLocation* locations, JsonScratch* scratch) const;
  bool Member(JsonScanner* json, std::size_t number, FieldLocation* locations,
              JsonScratch* scratch) const;
  bool Value(const TextField& field, JsonScanner* json, FieldLocation* at,
             JsonScratch* scratch) const;
  bool String(const TextField& field, JsonScanner* json, FieldLocation* at,
              JsonScratch* scratch) const;
  bool Array(const TextField& field, JsonScanner* json, FieldLocation* at,
             JsonScratch* scratch) const;
  bool Defaults(FieldLocation* locations, JsonScratch* scratch) const;
  void ZeroRow(FieldLocation* locations, JsonScratch* scratch) const;

  std::vector<TextField> text_fields_;
  FeatureIndex index_;
};

std::vector<std::string> KeysOf(const std::vector<FeatureSpec>& features) {
  std::vector<std::string> keys;
  for (const FeatureSpec& feature : features) keys.push_back(feature.name);
  return keys;
}

ObjectsParser::ObjectsParser(const std::vector<FeatureSpec>& features) : index_(KeysOf(features)) {
  const auto refuse = [](const std::string& why) { Refuse("JSON lines parser: " + why); };
  if (features.empty()) refuse("name at least one key");
  units_alike_ = true;
  for (const FeatureSpec& feature : features) {
    if (!AddField({feature.name, feature.dtype, feature.shape})) {
      refuse("\"" + feature.name + "\" is named twice");
    }
    text_fields_.push_back(MakeTextField("JSON lines", fields_.back(), feature.missing));
  }
}

bool Malformed(const JsonScanner& json, const std::string& what, JsonScratch* scratch) {
  scratch->wrong =
      "the line is no JSON object: " + what + " at byte " + std::to_string(json.offset());
  return false;
}

bool WrongValue(const TextField& field, const std::string& why, JsonScratch* scratch) {
  scratch->wrong = "key \"" + field.name + "\" " + why;
  return false;
}

// One number or boolean of the field's type.
bool ReadElementAt(const TextField& field, JsonScanner* json, std::byte* to, JsonScratch* scratch) {
  const char first = json->Peek();
  const bool real = field.dtype == DType::kFloat32 || field.dtype == DType::kFloat64;
  const char* after = nullptr;
  if (field.read == nullptr || first == 't' || first == 'f') {
    const bool truth = json->TakeWord("true");
    if (truth || json->TakeWord("false")) {
      if (field.read == nullptr) {
        *to = truth ? std::byte{1} : std::byte{0};
      } else {
        const char digit = truth ? '1' : '0';
        field.read(&digit, &digit + 1, to);
      }
      after = json->at();
    }
  } else if (first == '-' || (first >= '0' && first <= '9') ||
             (real && (first == 'N' || first == 'I'))) {
    after = field.read(json->at(), json->end(), to);
  }
  const auto ends = [&](char c) {
    return std::string_view(",]} \t\r\n").find(c) != std::string_view::npos;
  };
  if (after != nullptr && (after == json->end() || ends(*after))) {
    json->MoveTo(after);
    return true;
  }
  const std::string_view rest(json->at(), std::min<std::size_t>(json->rest(), 41));
  return WrongValue(field,
                    "holds " + Shown(rest.substr(0, rest.find_first_of(",]} \t"))) + " where " +
                        std::string(DTypeName(field.dtype)) + " is expected",
                    scratch);
}

bool ObjectsParser::String(const TextField& field, JsonScanner* json, FieldLocation* at,
                           JsonScratch* scratch) const {
  if (json->Peek() != '"') return WrongValue(field, "holds no string", scratch);
  std::string_view raw;
  bool escaped = false;
  if (!json->TakeString(&raw, &escaped)) return Malformed(*json, "an open string", scratch);
  const auto* data = reinterpret_cast<const std::byte*>(raw.data());
  std::size_t size = raw.size();
  if (escaped) {
    std::byte* to = scratch->storage.Allocate(raw.size());
    if (!UnescapeJson(raw, reinterpret_cast<char*>(to), &size)) {
      return WrongValue(field, "holds a malformed escape", scratch);
    }
    data = to;
  }
  if (LocateAt(data, size, size, at)) return true;
  return WrongValue(field, "holds a string of 4 GiB or more", scratch);
}

// Numbers in as many brackets as the field has dimensions, each with its dimension's count.
bool ObjectsParser::Array(const TextField& field, JsonScanner* json, FieldLocation* at,
                          JsonScratch* scratch) const {
  const std::size_t rank = field.shape.size();
  const std::size_t size = DTypeBytes(field.dtype);
  std::vector<std::byte>& elements = scratch->elements;
  elements.clear();
  std::vector<std::int64_t>& counts = scratch->counts;
  counts.clear();
  do {
    if (!counts.empty() && json->Take(']')) {
      const std::int64_t wanted = field.shape[counts.size() - 1];
      if (wanted >= 0 && counts.back() != wanted) {
        return WrongValue(field,
                          "holds an array of " + std::to_string(counts.back()) + " where " +
                              std::to_string(wanted) + " are expected",
                          scratch);
      }
      counts.pop_back();
      continue;
    }
    if (!counts.empty() && counts.back()++ > 0 && !json->Take(',')) {
      return Malformed(*json, "an array without a comma", scratch);
    }
    if (counts.size() < rank) {
      if (!json->Take('[')) return WrongValue(field, "holds no array of its rank", scratch);
      counts.push_back(0);
      continue;
    }
    elements.resize(elements.size() + size);
    if (!ReadElementAt(field, json, elements.data() + elements.size() - size, scratch)) {
      return false;
    }
  } while (!counts.empty());
  std::byte* to = scratch->storage.Allocate(elements.size());
  std::copy(elements.begin(), elements.end(), to);
  if (LocateAt(to, elements.size(), elements.size() / field.unit_bytes, at)) return true;
  return WrongValue(field, "holds an array of 4 GiB or more", scratch);
}

bool ObjectsParser::Value(const TextField& field, JsonScanner* json, FieldLocation* at,
                          JsonScratch* scratch) const {
  if (json->Peek() == 'n' && json->TakeWord("null")) {
    at->data = nullptr;
    return true;
  }
  if (field.text) return String(field, json, at, scratch);
  if (!field.shape.empty()) return Array(field, json, at, scratch);
  std::byte* to = scratch->storage.Allocate(field.unit_bytes);
  return ReadElementAt(field, json, to, scratch) && LocateAt(to, field.unit_bytes, 1, at);
}

bool ObjectsParser::Member(JsonScanner* json, std::size_t number, FieldLocation* locations,
                           JsonScratch* scratch) const {
  std::string_view key;
  bool escaped = false;
  if (!json->TakeString(&key, &escaped)) return Malformed(*json, "no key", scratch);
  if (escaped) {
    scratch->key.resize(key.size());
    std::size_t size = 0;
    if (!UnescapeJson(key, scratch->key.data(), &size)) {
      return Malformed(*json, "a malformed escape in the key", scratch);
    }
    key = std::string_view(scratch->key).substr(0, size);
  }
  if (!json->Take(':')) return Malformed(*json, "no colon", scratch);
  const std::uint32_t field = scratch->order.Find(index_, number, std::as_bytes(std::span(key)));
  if (field != FeatureIndex::kNone) {
    if (locations[field].data != nullptr) [[unlikely]] {
      return WrongValue(text_fields_[field], "stands twice", scratch);
    }
    return Value(text_fields_[field], json, &locations[field], scratch);
  }
  if (json->SkipValue()) return true;
  return Malformed(*json,
                   "a value that is open, or nested deeper than " +
                       std::to_string(JsonScanner::kMostDepth) + ",",
                   scratch);
}

bool ObjectsParser::ParseRow(const RecordSpan& row, FieldLocation* locations,
                             JsonScratch* scratch) const {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  JsonScanner json({reinterpret_cast<const char*>(row.data), row.size});
  json.TakeWord(kByteOrderMark);
  std::fill_n(locations, text_fields_.size(), FieldLocation());
  if (!json.Take('{')) {
    return Malformed(json, json.rest() == 0 ? kEmptyLine : "no \"{\"", scratch);
  }
  if (!json.Take('}')) {
    for (std::size_t number = 0; number == 0 || json.Take(','); ++number) {
      if (!Member(&json, number, locations, scratch)) return false;
    }
    if (!json.Take('}')) return Malformed(json, "no comma and no \"}\"", scratch);
  }
  json.SkipBlanks();
  if (json.rest() != 0) {
    const std::string_view text(reinterpret_cast<const char*>(row.data), row.size);
    const bool returns = text.find('\r') < json.offset() && *json.at() == '{';
    return Malformed(
        json, returns ? "another one behind a CR, which ends no line," : "more after it", scratch);
  }
  return Defaults(locations, scratch);
}

bool ObjectsParser::Defaults(FieldLocation* locations, JsonScratch* scratch) const {
  for (std::size_t f = 0; f < text_fields_.size(); ++f) {
    if (locations[f].data != nullptr) continue;
    const TextField& field = text_fields_[f];
    if (!field.has_default) {
      return WrongValue(field, "is missing or null, and has no default", scratch);
    }
    const std::size_t bytes = field.missing.size();
    LocateAt(field.missing.data(), bytes, bytes / field.unit_bytes, &locations[f]);
  }
  return true;
}

void ObjectsParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                           Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<JsonScratch*>(scratch);
  for (std::size_t row = 0; row < rows.size(); ++row, locations += fields_.size()) {
    if (row + 1 < rows.size()) FetchRow(rows[row + 1]);
    if (ParseRow(rows[row], locations, own)) continue;
    failures->push_back({row, Status(StatusCode::kDamaged, own->wrong)});
  }
}

// The keys of the object, up to the first place that is malformed.
std::vector<std::string> KeysIn(const RecordSpan& record) {
  std::vector<std::string> keys;
  JsonScanner json({reinterpret_cast<const char*>(record.data), record.size});
  std::string_view raw;
  bool escaped = false;
  for (bool goes_on = json.Take('{'); goes_on && json.Peek() == '"'; goes_on = json.Take(',')) {
    if (!json.TakeString(&raw, &escaped)) break;
    std::string key(raw);
    std::size_t size = raw.size();
    if (escaped && !UnescapeJson(raw, key.data(), &size)) break;
    key.resize(size);
    keys.push_back(std::move(key));
    if (!json.Take(':') || !json.SkipValue()) break;
  }
  return keys;
}

Refusal ObjectsParser::Explain(const RecordSpan& record, const Status& why) const {
  const std::vector<std::string> keys = KeysIn(record);
  for (const TextField& field : text_fields_) {
    if (keys.empty() || field.has_default) continue;
    if (std::find(keys.begin(), keys.end(), field.name) != keys.end()) continue;
    return MissingName("key \"" + field.name + "\"", field.name, keys);
  }
  return RefusalOf(why, fields_);
}

void ObjectsParser::ZeroRow(FieldLocation* locations, JsonScratch* scratch) const {
  for (std::size_t f = 0; f < text_fields_.size(); ++f) {
    const std::size_t bytes = text_fields_[f].unit_bytes;
    if (scratch->zeros.size() < bytes) scratch->zeros.resize(bytes);
  }
  for (std::size_t f = 0; f < text_fields_.size(); ++f) {
    LocateAt(scratch->zeros.data(), text_fields_[f].unit_bytes, 1, &locations[f]);
  }
}

void ObjectsParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                          std::span<const ColumnTarget> targets, Scratch* scratch,
                          std::vector<RowFailure>* failures) const {
  auto* own = static_cast<JsonScratch*>(scratch);
  const std::size_t stride = fields_.size();
  if (locations == nullptr) own->locations.resize(kChunkRows * stride);
  own->columns.Start(text_fields_, targets);
  for (std::size_t first = 0; first < rows.size(); first += kChunkRows) {
    const std::size_t count = std::min(kChunkRows, rows.size() - first);
    const FieldLocation* chunk =
        locations == nullptr ? own->locations.data() : locations + first * stride;
    if (locations == nullptr) {
      own->storage.Clear();
      for (std::size_t row = 0; row < count; ++row) {
        FieldLocation* at = own->locations.data() + row * stride;
        if (ParseRow(rows[first + row], at, own)) continue;
        failures->push_back({first + row, Status(StatusCode::kDamaged, own->wrong)});
        ZeroRow(at, own);
      }
    }
    own->columns.AppendLocated(targets, chunk, first, count);
  }
  own->columns.Finish();
}

}  // namespace

std::shared_ptr<const Parser> JsonLinesParser(std::vector<FeatureSpec> features) {
  return std::make_shared<const ObjectsParser>(features);
}

}  // namespace ringfeed
