#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/field_text.h"
#include "readers/parsers/lod_columns.h"
#include "readers/parsers/text/json_fields.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kChunkRows = 64;

struct JsonScratch final : LoDScratch {
  using LoDScratch::LoDScratch;

  LocatedStorage storage;
  JsonMemory memory;
  std::vector<FieldLocation> locations;  // of a chunk, if there is one phase
  std::vector<std::byte> zeros;          // in place of a row that failed
};

std::string_view TextOf(const RecordSpan& row) {
  return {reinterpret_cast<const char*>(row.data), row.size};
}

class ObjectsParser final : public LoDColumnsParser {
 public:
  explicit ObjectsParser(const std::vector<FeatureSpec>& features);

  std::string name() const override { return "jsonl"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<JsonScratch>(fields_.size());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  Refusal Explain(const RecordSpan& record, const Status& why) const override {
    return json_.Explain(TextOf(record)).value_or(RefusalOf(why, fields_));
  }
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return static_cast<JsonScratch*>(scratch)->storage.Take();
  }
  FieldLengths LengthsOf(std::size_t field) const override {
    const FeatureSpec* const spec = FindSpec(std::span(features_), fields_[field].name);
    if (spec == nullptr) return {};
    return {"jsonl: " + FieldText(*spec), JsonLinesParser({*spec})};
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  std::vector<JsonField> AddFields(const std::vector<FeatureSpec>& features);
  bool ParseRow(const RecordSpan& row, FieldLocation* locations, JsonScratch* scratch) const {
    return json_.Read(TextOf(row), locations, &scratch->storage, &scratch->memory);
  }
  void ZeroRow(FieldLocation* locations, JsonScratch* scratch) const;

  const std::vector<FeatureSpec> features_;
  const JsonFields json_;
};

ObjectsParser::ObjectsParser(const std::vector<FeatureSpec>& features)
    : features_(features), json_("the line", AddFields(features)) {}

std::vector<JsonField> ObjectsParser::AddFields(const std::vector<FeatureSpec>& features) {
  const auto refuse = [](const std::string& why) { Refuse("JSON lines parser: " + why); };
  if (features.empty()) refuse("name at least one key");
  two_phase_ = false;  // unless a field is ragged
  std::vector<JsonField> fields;
  for (const FeatureSpec& feature : features) {
    const FieldSpec spec{feature.name, feature.dtype, feature.shape};
    const TextField field = MakeTextField("JSON lines", spec, feature.missing);
    fields.push_back({field, feature.name, fields_.size()});
    if (!AddRows(spec, field.strings)) refuse("\"" + feature.name + "\" is named twice");
  }
  return fields;
}

Status Failure(const RecordSpan& row, const std::string& wrong) {
  const bool blank = TextOf(row).find_first_not_of(" \t\r\n") == std::string_view::npos;
  return Status(StatusCode::kDamaged,
                wrong + (blank ? " (the format jsonl passes over empty lines)" : ""));
}

void ObjectsParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                           Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<JsonScratch*>(scratch);
  for (std::size_t row = 0; row < rows.size(); ++row, locations += fields_.size()) {
    if (row + 1 < rows.size()) FetchRow(rows[row + 1]);
    if (ParseRow(rows[row], locations, own)) continue;
    failures->push_back({row, Failure(rows[row], own->memory.wrong)});
  }
}

// Only of fields that are not ragged.
void ObjectsParser::ZeroRow(FieldLocation* locations, JsonScratch* scratch) const {
  for (const JsonField& field : json_.fields()) {
    if (scratch->zeros.size() < field.unit_bytes) scratch->zeros.resize(field.unit_bytes);
  }
  for (const JsonField& field : json_.fields()) {
    LocateAt(scratch->zeros.data(), field.unit_bytes, 1, &locations[field.column]);
  }
}

void ObjectsParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                          std::span<const ColumnTarget> targets, Scratch* scratch,
                          std::vector<RowFailure>* failures) const {
  if (has_lod()) return LoDColumnsParser::Write(rows, locations, targets, scratch, failures);
  auto* own = static_cast<JsonScratch*>(scratch);
  const std::size_t stride = fields_.size();
  if (!two_phase_) own->locations.resize(kChunkRows * stride);
  own->columns.Start(json_.fields(), targets);
  for (std::size_t first = 0; first < rows.size(); first += kChunkRows) {
    const std::size_t count = std::min(kChunkRows, rows.size() - first);
    if (two_phase_) {
      own->columns.AppendLocated(targets, locations + first * stride, first, count);
      continue;
    }
    own->storage.Clear();
    for (std::size_t row = 0; row < count; ++row) {
      FieldLocation* at = own->locations.data() + row * stride;
      if (ParseRow(rows[first + row], at, own)) continue;
      failures->push_back({first + row, Failure(rows[first + row], own->memory.wrong)});
      ZeroRow(at, own);
    }
    own->columns.AppendLocated(targets, own->locations.data(), first, count);
  }
  own->columns.Finish();
}

}  // namespace

std::shared_ptr<const Parser> JsonLinesParser(std::vector<FeatureSpec> features) {
  return std::make_shared<const ObjectsParser>(features);
}

}  // namespace ringfeed
