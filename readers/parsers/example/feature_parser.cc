#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/parsers/example/feature_field.h"
#include "readers/parsers/example/feature_names.h"
#include "readers/parsers/example/feature_scanner.h"
#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/example/nested_features.h"
#include "readers/parsers/example/varint_list.h"
#include "readers/parsers/field_text.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kStageBytes = 16 * 1024;
// Rows go to their columns in chunks whose bytes and locations stay in L1 and L2.
constexpr std::size_t kMostChunkRows = 128;
constexpr std::size_t kFewestChunkRows = 16;
constexpr std::size_t kChunkLocations = 1024;

struct FeatureScratch final : Parser::Scratch {
  FeatureScratch(std::size_t fields, std::size_t maps)
      : columns(fields, kStageBytes), scans(maps) {}

  StagedColumns columns;
  std::vector<FeatureScanner::Memory> scans;  // of each map
  std::vector<FieldLocation> locations;       // of a chunk, if there is one phase
  FeatureValues values;                       // of a field that is read the slow way
  std::vector<std::byte> elements;            // it, converted
  std::vector<std::int64_t> ints;             // of a run that does not go straight to the stage
};

// A run of rows of one field on its way to its column.
struct ColumnRun {
  const FeatureField* field = nullptr;
  std::span<const RecordSpan> rows;
  const RecordLayout::Run* alike = nullptr;  // if all rows have the field, or null, and:
  const FieldLocation* locations = nullptr;  // of the first row; `stride` of them a row
  std::size_t stride = 0;
  std::size_t first_row = 0;  // its index in the call
  ColumnStager* stager = nullptr;
  std::vector<RowFailure>* failures = nullptr;

  FieldLocation at(std::size_t row) const {
    return alike != nullptr ? alike->In(rows[row]) : locations[row * stride];
  }
};

class FeaturesParser final : public Parser {
 public:
  FeaturesParser(const FeatureDialect& dialect, const std::vector<WantedFeature>& features)
      : dialect_(dialect), wanted_(features), feature_fields_(AddFields(features)) {
    using Map = FeatureScanner::Map;
    const std::span<const FeatureField> fields(feature_fields_);
    const auto lists = static_cast<std::size_t>(
        std::count_if(fields.begin(), fields.end(),
                      [](const FeatureField& field) { return field.step != nullptr; }));
    scanners_.emplace_back(dialect, Map::kFeatures, fields.first(fields.size() - lists));
    if (dialect.lists_field != 0) scanners_.emplace_back(dialect, Map::kLists, fields.last(lists));
    chunk_rows_ = std::clamp(kChunkLocations / fields_.size(), kFewestChunkRows, kMostChunkRows);
  }

  std::string name() const override { return dialect_.parser; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<FeatureScratch>(fields_.size(), scanners_.size());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  Refusal Explain(const RecordSpan& record, const Status& why) const override;
  bool Cut(std::size_t field, std::uint32_t units, FieldLocation* location) const override;
  bool CopiesBytesOf(std::size_t field) const override {
    return feature_fields_[field].as_it_is != kFormNone && feature_fields_[field].step == nullptr;
  }
  std::span<const std::byte> BytesOf(std::size_t field, const RecordSpan&,
                                     const FieldLocation& at) const override {
    if (!StandsAsItIs(feature_fields_[field], at)) return {};
    return {at.data, at.bytes};
  }
  FieldLengths LengthsOf(std::size_t field) const override {
    const WantedFeature& wanted = wanted_[field];
    const std::string list = wanted.sequence ? " | " : " ";
    return {std::string(dialect_.parser) + ":" + list + FieldText(wanted.spec),
            std::make_shared<const FeaturesParser>(dialect_, std::vector<WantedFeature>{wanted})};
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  std::vector<FeatureField> AddFields(const std::vector<WantedFeature>& features);
  bool Scan(const RecordSpan& record, FieldLocation* locations, FeatureScratch* scratch) const;
  Status Malformed() const;
  Status CheckRow(FieldLocation* locations, FeatureScratch* scratch) const;
  const RecordLayout* ScanChunk(std::span<const RecordSpan> rows, std::size_t first_row,
                                FeatureScratch* scratch, std::vector<RowFailure>* failures) const;
  void WriteRows(const ColumnRun& run, FeatureScratch* scratch) const;
  void WriteRow(const ColumnRun& run, std::size_t row, FeatureScratch* scratch) const;
  void WriteSlow(const ColumnRun& run, std::size_t row, FeatureScratch* scratch) const;
  template <typename Next, typename Take>
  void WriteShort(const ColumnRun& run, FeatureScratch* scratch, Next next, Take take) const;
  template <typename Take>
  void WriteShort(const ColumnRun& run, FeatureScratch* scratch, Take take) const;
  template <typename T, FeatureForm kForm>
  void WriteSingleInts(const ColumnRun& run, FeatureScratch* scratch) const;

  const FeatureDialect& dialect_;
  const std::vector<WantedFeature> wanted_;  // of each field
  const std::vector<FeatureField> feature_fields_;
  std::vector<FeatureScanner> scanners_;  // of each map, in the order of their fields
  std::size_t chunk_rows_ = kMostChunkRows;
};

std::vector<FeatureField> FeaturesParser::AddFields(const std::vector<WantedFeature>& features) {
  const auto refuse = [&](const std::string& why) {
    Refuse(dialect_.record + (" parser: " + why));
  };
  if (features.empty()) refuse("name at least one feature");
  std::vector<FeatureField> fields;
  for (const WantedFeature& feature : features) {
    const auto& [name, dtype, shape, missing] = feature.spec;
    if (!AddField({name, dtype, shape})) refuse("\"" + name + "\" is named twice");
    fields.push_back(MakeFeatureField(dialect_, feature));
  }
  return fields;
}

inline bool FeaturesParser::Scan(const RecordSpan& record, FieldLocation* locations,
                                 FeatureScratch* scratch) const {
  for (std::size_t i = 0; i < scanners_.size(); ++i) {
    if (!scanners_[i].Scan(record, locations, &scratch->scans[i])) return false;
    locations += scanners_[i].fields();
  }
  return true;
}

Status FeaturesParser::Malformed() const {
  return Status(StatusCode::kDamaged, std::string("the record is no ") + dialect_.record);
}

Status FeaturesParser::CheckRow(FieldLocation* locations, FeatureScratch* scratch) const {
  for (std::size_t f = 0; f < feature_fields_.size(); ++f) {
    const FeatureField& field = feature_fields_[f];
    FieldLocation& at = locations[f];
    if (StandsAsItIs(field, at)) {
      at.units = static_cast<std::uint32_t>(at.bytes / field.unit_bytes);
      continue;
    }
    std::size_t count = 0;
    Status status = ReadFeatureField(dialect_, field, at, &scratch->values, nullptr, &count);
    if (!status.ok()) return status;
    at.units = static_cast<std::uint32_t>(count / field.elements);
  }
  return {};
}

void FeaturesParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                            Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<FeatureScratch*>(scratch);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    FieldLocation* at = locations + row * fields_.size();
    Status status = Scan(rows[row], at, own) ? CheckRow(at, own) : Malformed();
    if (!status.ok()) failures->push_back({row, std::move(status)});
  }
}

Refusal FeaturesParser::Explain(const RecordSpan& record, const Status& why) const {
  const std::span<const FeatureField> fields(feature_fields_);
  const std::size_t lists = scanners_.front().fields();
  return ExplainMissingFeature(dialect_, fields.first(lists), fields.subspan(lists), record, why,
                               fields_);
}

// Cuts a run that is the elements as they are, or one of varints, after the last unit that counts.
bool FeaturesParser::Cut(std::size_t field, std::uint32_t units, FieldLocation* location) const {
  const FeatureField& own = feature_fields_[field];
  std::size_t bytes = 0;
  if (StandsAsItIs(own, *location)) {
    bytes = units * own.unit_bytes;
  } else if (location->form == kFormInt64s || location->form == kFormInt32s) {
    for (std::size_t left = units * own.elements; left > 0; ++bytes) {
      constexpr std::byte kMore{0x80};
      // They may have changed since they were counted.
      if (bytes == location->bytes) return false;
      if ((location->data[bytes] & kMore) == std::byte{0}) --left;
    }
  } else {
    return false;
  }
  location->bytes = static_cast<std::uint32_t>(bytes);
  location->units = units;
  return true;
}

// Finds the fields of a chunk's rows. If all have one layout, it returns that layout, which has
// their places, and writes down no location; else it returns null.
const RecordLayout* FeaturesParser::ScanChunk(std::span<const RecordSpan> rows,
                                              std::size_t first_row, FeatureScratch* scratch,
                                              std::vector<RowFailure>* failures) const {
  constexpr std::size_t kRowsAhead = 6;
  scratch->locations.resize(chunk_rows_ * fields_.size());
  RecordLayout& layout = scratch->scans[0].layout;
  bool alike = scanners_.size() == 1;  // that layout is of all fields
  for (const RecordSpan& row : rows.first(std::min(kRowsAhead, rows.size()))) FetchRow(row);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (row + kRowsAhead < rows.size())
      FetchRowBehind(rows[row + kRowsAhead - 1], rows[row + kRowsAhead]);
    if (alike && layout.Match(rows[row])) continue;
    if (std::exchange(alike, false)) layout.Locate(rows.first(row), scratch->locations.data());
    FieldLocation* at = scratch->locations.data() + row * fields_.size();
    if (Scan(rows[row], at, scratch)) continue;
    failures->push_back({first_row + row, Malformed()});
    for (std::size_t f = 0; f < fields_.size(); ++f) at[f].form = kFormFailed;
  }
  if (!alike) return nullptr;
  layout.Matched(rows.size());
  return &layout;
}

// As Protobuf reads an int32: by its lower half.
bool DecodeInts(const FieldLocation& at, std::size_t count, std::int64_t* to) {
  if (!DecodeVarints({at.data, at.bytes}, count, to)) return false;
  if (at.form == kFormInt32s) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::int32_t>(to[i]);
  }
  return true;
}

// Writes a run of integers as integers; false if it is none, or has another length or range.
bool WriteInts(const FeatureField& field, const FieldLocation& at, ColumnStager* stager,
               std::vector<std::int64_t>* ints) {
  const bool wide = field.dtype == DType::kInt64;
  const std::size_t count = field.ragged ? field.elements * at.units : field.elements;
  if (at.form != kFormInt64s && at.form != kFormInt32s) return false;
  if (count > at.bytes || (!wide && field.dtype != DType::kInt32)) return false;
  const std::size_t bytes = count * sizeof(std::int64_t);
  if (wide && bytes <= kStageBytes / 2) {
    if (bytes > stager->room()) stager->Flush();
    if (!DecodeInts(at, count, reinterpret_cast<std::int64_t*>(stager->next()))) return false;
    stager->Advance(bytes);
    return true;
  }
  ints->resize(count);
  if (!DecodeInts(at, count, ints->data())) return false;
  auto* const decoded = reinterpret_cast<std::byte*>(ints->data());
  if (wide) {
    stager->Append(decoded, bytes);
    return true;
  }
  // In place: element i is written at or before the place it is read from.
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t value = (*ints)[i];
    if (value != static_cast<std::int32_t>(value)) return false;
    StoreLe(decoded + i * sizeof(std::int32_t), static_cast<std::int32_t>(value));
  }
  stager->Append(decoded, bytes / 2);
  return true;
}

// Writes whatever other form the row has; zeros if that fails. It appends exactly the located
// units, even if the record's bytes have changed since.
void FeaturesParser::WriteSlow(const ColumnRun& run, std::size_t row,
                               FeatureScratch* scratch) const {
  std::vector<std::byte>& elements = scratch->elements;
  elements.clear();
  const FieldLocation at = run.at(row);
  const std::size_t bytes = (run.field->ragged ? at.units : 1) * run.field->unit_bytes;
  if (at.form != kFormFailed) {
    std::size_t count = 0;
    Status status = ReadFeatureField(dialect_, *run.field, at, &scratch->values, &elements, &count);
    if (status.ok() && elements.size() != bytes) status = ChangedSinceLocated();
    if (!status.ok()) {
      run.failures->push_back({run.first_row + row, std::move(status)});
      elements.clear();
    }
  }
  elements.resize(bytes);
  run.stager->Append(elements.data(), elements.size());
}

// The usual forms with the right length go straight to the stage.
void FeaturesParser::WriteRow(const ColumnRun& run, std::size_t row,
                              FeatureScratch* scratch) const {
  const FieldLocation at = run.at(row);
  if (StandsAsItIs(*run.field, at)) {
    run.stager->Append(at.data, at.bytes);
  } else if (!WriteInts(*run.field, at, run.stager, &scratch->ints)) {
    WriteSlow(run, row, scratch);
  }
}

// Short rows of one length. `next` gives their locations one after the other. `take` writes a row
// to the given place, or returns false if it has another form than the usual. The rows do not
// depend on each other, so none waits for the one before. A chunk's rows fit into the stage.
template <typename Next, typename Take>
void FeaturesParser::WriteShort(const ColumnRun& run, FeatureScratch* scratch, Next next,
                                Take take) const {
  ColumnStager* const stager = run.stager;
  const std::size_t bytes = run.field->unit_bytes;
  const std::size_t rows = run.rows.size();
  std::byte* to = stager->next();
  for (std::size_t row = 0; row < rows; ++row) {
    if (take(next(), to)) [[likely]] {
      to += bytes;
      continue;
    }
    stager->Advance(static_cast<std::size_t>(to - stager->next()));
    WriteRow(run, row, scratch);
    to = stager->next();
  }
  stager->Advance(static_cast<std::size_t>(to - stager->next()));
}

// If all rows have the field in one place, only the record is read.
template <typename Take>
void FeaturesParser::WriteShort(const ColumnRun& run, FeatureScratch* scratch, Take take) const {
  if (run.alike != nullptr) {
    const auto next = [record = run.rows.data(), alike = *run.alike]() mutable {
      return alike.In(*record++);
    };
    return WriteShort(run, scratch, next, take);
  }
  const auto next = [at = run.locations, stride = run.stride]() mutable -> const FieldLocation& {
    return *std::exchange(at, at + stride);
  };
  WriteShort(run, scratch, next, take);
}

template <typename T, FeatureForm kForm>
void FeaturesParser::WriteSingleInts(const ColumnRun& run, FeatureScratch* scratch) const {
  WriteShort(run, scratch,
             [](const FieldLocation& at, std::byte* to) { return TakeInt<T, kForm>(at, to); });
}

void FeaturesParser::WriteRows(const ColumnRun& run, FeatureScratch* scratch) const {
  const FeatureField& field = *run.field;
  const bool short_rows = !field.ragged && field.unit_bytes <= kStageBytes / kMostChunkRows;
  if (short_rows && field.as_it_is != kFormNone) {
    return WithCopyOf(field.unit_bytes, [&](auto copy) {
      WriteShort(run, scratch,
                 [copy, form = field.as_it_is, bytes = field.unit_bytes](const FieldLocation& at,
                                                                         std::byte* to) {
                   if (at.form != form || at.bytes != bytes) return false;
                   copy(to, at.data);
                   return true;
                 });
    });
  }
  if (short_rows && field.elements == 1 && field.kind == FeatureKind::kInt32s) {
    return WriteSingleInts<std::int32_t, kFormInt32s>(run, scratch);
  }
  if (short_rows && field.elements == 1) {
    return field.dtype == DType::kInt64 ? WriteSingleInts<std::int64_t, kFormInt64s>(run, scratch)
                                        : WriteSingleInts<std::int32_t, kFormInt64s>(run, scratch);
  }
  for (std::size_t row = 0; row < run.rows.size(); ++row) WriteRow(run, row, scratch);
}

void SetOffsets(const ColumnRun& run, std::int64_t* offsets) {
  for (std::size_t row = 0; row < run.rows.size(); ++row)
    offsets[row + 1] = offsets[row] + run.at(row).units;
}

void FeaturesParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                           std::span<const ColumnTarget> targets, Scratch* scratch,
                           std::vector<RowFailure>* failures) const {
  auto* own = static_cast<FeatureScratch*>(scratch);
  const std::size_t stride = fields_.size();
  own->columns.Start(feature_fields_, targets);
  for (std::size_t first = 0; first < rows.size(); first += chunk_rows_) {
    const auto chunk = rows.subspan(first, std::min(chunk_rows_, rows.size() - first));
    const RecordLayout* alike = nullptr;
    if (locations == nullptr) alike = ScanChunk(chunk, first, own, failures);
    const FieldLocation* base =
        locations == nullptr ? own->locations.data() : locations + first * stride;
    for (std::size_t f = 0; f < stride; ++f) {
      const ColumnRun run{.field = &feature_fields_[f],
                          .rows = chunk,
                          .alike = alike != nullptr ? &alike->runs()[f] : nullptr,
                          .locations = base + f,
                          .stride = stride,
                          .first_row = first,
                          .stager = &own->columns[f],
                          .failures = failures};
      if (feature_fields_[f].ragged) SetOffsets(run, targets[f].offsets + first);
      if (targets[f].data == nullptr) continue;
      WriteRows(run, own);
      own->columns[f].Flush();
    }
  }
  own->columns.Finish();
}

/// Parses records of the dialect, which must live as long as the parser. Throws
/// Error(kInvalidArgument) if there is no feature, one is named twice or one cannot be a field.
/// Sequences come after all others.
std::shared_ptr<const Parser> MakeFeatureParser(const FeatureDialect& dialect,
                                                const std::vector<WantedFeature>& features) {
  if (std::any_of(features.begin(), features.end(), IsNested)) {
    return MakeNestedFeatureParser(dialect, features);
  }
  return std::make_shared<const FeaturesParser>(dialect, features);
}

// TensorFlow's example.proto and feature.proto.
constexpr FeatureDialect kExample = {
    .parser = "example",
    .record = "tf.Example",
    .types_are = "a tf.Example holds uint8 (bytes), float32, int64 or int32",
    .map_field = 1,
    .kinds = {FeatureKind::kUnset, FeatureKind::kBytes, FeatureKind::kFloats, FeatureKind::kInt64s},
    .types = {{{DType::kUInt8, FeatureKind::kBytes},
               {DType::kFloat32, FeatureKind::kFloats},
               {DType::kInt64, FeatureKind::kInt64s},
               {DType::kInt32, FeatureKind::kInt64s}}}};

constexpr FeatureDialect kSequenceExample = [] {
  FeatureDialect dialect = kExample;
  dialect.parser = "sequence";
  dialect.record = "tf.SequenceExample";
  dialect.types_are = "a tf.SequenceExample holds uint8 (bytes), float32, int64 or int32";
  dialect.lists_field = 2;
  return dialect;
}();

// OneFlow's oneflow.record_pb2.
constexpr FeatureDialect kOFRecord = {
    .parser = "ofrecord",
    .record = "OFRecord",
    .types_are = "an OFRecord gives float32, float64, int8, int32, int64 or uint8",
    .map_field = 0,
    .kinds = {FeatureKind::kUnset, FeatureKind::kBytes, FeatureKind::kFloats, FeatureKind::kDoubles,
              FeatureKind::kInt32s, FeatureKind::kInt64s},
    .types = {{{DType::kUInt8, FeatureKind::kBytes},
               {DType::kInt8, FeatureKind::kBytes},
               {DType::kFloat32, FeatureKind::kFloats},
               {DType::kFloat64, FeatureKind::kDoubles},
               {DType::kInt32, FeatureKind::kInt32s},
               {DType::kInt64, FeatureKind::kInt64s}}},
    .converts = true};

}  // namespace

std::shared_ptr<const Parser> ExampleParser(std::vector<FeatureSpec> features) {
  std::vector<WantedFeature> wanted;
  for (FeatureSpec& feature : features) wanted.push_back({std::move(feature)});
  return MakeFeatureParser(kExample, wanted);
}

std::shared_ptr<const Parser> SequenceExampleParser(std::vector<FeatureSpec> context,
                                                    std::vector<FeatureSpec> sequences) {
  std::vector<WantedFeature> wanted;
  for (FeatureSpec& feature : context) wanted.push_back({std::move(feature)});
  for (FeatureSpec& feature : sequences) {
    wanted.push_back({.spec = std::move(feature), .sequence = true});
  }
  return MakeFeatureParser(kSequenceExample, wanted);
}

std::shared_ptr<const Parser> OFRecordParser(std::vector<OFRecordFeatureSpec> features) {
  std::vector<WantedFeature> wanted;
  for (OFRecordFeatureSpec& feature : features) {
    wanted.push_back({{std::move(feature.name), feature.dtype, std::move(feature.shape),
                       std::move(feature.missing)},
                      feature.truncate});
  }
  return MakeFeatureParser(kOFRecord, wanted);
}

}  // namespace ringfeed
