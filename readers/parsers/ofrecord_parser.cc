#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "base/stream_copy.h"
#include "readers/parsers/column_stager.h"
#include "readers/parsers/ofrecord_fields.h"
#include "readers/parsers/ofrecord_scanner.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/row_fetch.h"
#include "readers/parsers/varint_list.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kStageBytes = 16 * 1024;
// Rows are taken to their columns in chunks whose bytes and locations stay in L1 and L2.
constexpr std::size_t kMostChunkRows = 128;
constexpr std::size_t kFewestChunkRows = 16;
constexpr std::size_t kChunkLocations = 1024;

struct OFRecordScratch final : Parser::Scratch {
  struct alignas(ColumnStager::kLine) Stage {
    std::byte bytes[kStageBytes + ColumnStager::kLine];
  };
  explicit OFRecordScratch(std::size_t fields) : stages(fields) {
    for (Stage& stage : stages) stagers.emplace_back(stage.bytes, kStageBytes);
  }
  std::vector<Stage> stages;  // of each field: of a short one little is ever touched
  std::vector<ColumnStager> stagers;
  OFRecordScanner::KeyOrder order;
  std::vector<FieldLocation> locations;  // of a chunk, where there is one phase
  std::vector<std::byte> elements;       // of a field that is converted
  OFRecordValues values;                 // before they are
};

// A run of rows of one field on its way to its column.
struct ColumnRun {
  const OFRecordField* field = nullptr;
  std::size_t rows = 0;
  const FieldLocation* locations = nullptr;  // of the first row; `stride` of them a row
  std::size_t stride = 0;
  std::size_t first_row = 0;  // its index in the call
  std::vector<RowFailure>* failures = nullptr;

  const FieldLocation& at(std::size_t row) const { return locations[row * stride]; }
};

class OFRecordFeatures final : public Parser {
 public:
  explicit OFRecordFeatures(const std::vector<OFRecordFeatureSpec>& features)
      : record_fields_(MakeFields(features)), scanner_(record_fields_) {
    for (const OFRecordFeatureSpec& feature : features) {
      fields_.push_back({feature.name, feature.dtype, feature.shape});
      two_phase_ = two_phase_ || fields_.back().ragged();
    }
    chunk_rows_ = std::clamp(kChunkLocations / fields_.size(), kFewestChunkRows, kMostChunkRows);
  }

  std::string name() const override { return "ofrecord"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<OFRecordScratch>(fields_.size());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  static std::vector<OFRecordField> MakeFields(const std::vector<OFRecordFeatureSpec>& features);
  Status CheckRow(FieldLocation* locations, OFRecordScratch* scratch) const;
  void ScanChunk(std::span<const RecordSpan> rows, std::size_t first_row, OFRecordScratch* scratch,
                 std::vector<RowFailure>* failures) const;
  bool WriteFast(const OFRecordField& field, const FieldLocation& at, ColumnStager* stager) const;
  void WriteSlow(const ColumnRun& run, std::size_t row, ColumnStager* stager,
                 OFRecordScratch* scratch) const;
  void WriteRun(const ColumnRun& run, std::int64_t* offsets, ColumnStager* stager,
                OFRecordScratch* scratch) const;

  const std::vector<OFRecordField> record_fields_;
  const OFRecordScanner scanner_;
  std::size_t chunk_rows_ = kMostChunkRows;
};

std::vector<OFRecordField> OFRecordFeatures::MakeFields(
    const std::vector<OFRecordFeatureSpec>& features) {
  const auto refuse = [](const std::string& why) {
    throw Error(Status(StatusCode::kInvalidArgument, "OFRecord parser: " + why));
  };
  if (features.empty()) refuse("name at least one feature");
  std::set<std::string> names;
  std::vector<OFRecordField> fields;
  for (const OFRecordFeatureSpec& feature : features) {
    if (!names.insert(feature.name).second) refuse("\"" + feature.name + "\" is named twice");
    fields.push_back(MakeOFRecordField(feature));
  }
  return fields;
}

Status Malformed() { return Status(StatusCode::kDamaged, "the record is no OFRecord"); }

Status OFRecordFeatures::CheckRow(FieldLocation* locations, OFRecordScratch* scratch) const {
  for (std::size_t f = 0; f < record_fields_.size(); ++f) {
    const OFRecordField& field = record_fields_[f];
    FieldLocation& at = locations[f];
    if (StandsAsItIs(field, at)) {
      at.units = static_cast<std::uint32_t>(at.bytes / field.unit_bytes);
      continue;
    }
    std::size_t count = 0;
    Status status = ReadOFRecordField(field, at, &scratch->values, nullptr, &count);
    if (!status.ok()) return status;
    at.units = static_cast<std::uint32_t>(count / field.elements);
  }
  return {};
}

void OFRecordFeatures::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                              Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<OFRecordScratch*>(scratch);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    FieldLocation* at = locations + row * fields_.size();
    Status status = scanner_.Scan(rows[row], at, &own->order) ? CheckRow(at, own) : Malformed();
    if (!status.ok()) failures->push_back({row, std::move(status)});
  }
}

void OFRecordFeatures::ScanChunk(std::span<const RecordSpan> rows, std::size_t first_row,
                                 OFRecordScratch* scratch,
                                 std::vector<RowFailure>* failures) const {
  constexpr std::size_t kRowsAhead = 6;
  scratch->locations.resize(chunk_rows_ * fields_.size());
  for (const RecordSpan& row : rows.first(std::min(kRowsAhead, rows.size()))) FetchRow(row);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (row + kRowsAhead < rows.size()) FetchRow(rows[row + kRowsAhead]);
    FieldLocation* at = scratch->locations.data() + row * fields_.size();
    if (scanner_.Scan(rows[row], at, &scratch->order)) continue;
    failures->push_back({first_row + row, Malformed()});
    for (std::size_t f = 0; f < fields_.size(); ++f) at[f].form = kOFRecordFailed;
  }
}

// What needs no conversion and has the right length, straight to the stage; false where it does, or
// has not.
bool OFRecordFeatures::WriteFast(const OFRecordField& field, const FieldLocation& at,
                                 ColumnStager* stager) const {
  if (StandsAsItIs(field, at)) {
    stager->Append(at.data, at.bytes);
    return true;
  }
  if (at.form != static_cast<std::uint32_t>(OFRecordKind::kInt64s) || field.ragged ||
      field.dtype != DType::kInt64 || field.unit_bytes > kStageBytes / 2) {
    return false;
  }
  if (field.unit_bytes > stager->room()) stager->Flush();
  auto* to = reinterpret_cast<std::int64_t*>(stager->next());
  if (!DecodeVarints({at.data, at.bytes}, field.elements, to)) return false;
  stager->Advance(field.unit_bytes);
  return true;
}

// Whatever else the row has there; zeros where it fails.
void OFRecordFeatures::WriteSlow(const ColumnRun& run, std::size_t row, ColumnStager* stager,
                                 OFRecordScratch* scratch) const {
  std::vector<std::byte>& elements = scratch->elements;
  elements.clear();
  if (run.at(row).form != kOFRecordFailed) {
    std::size_t count = 0;
    Status status = ReadOFRecordField(*run.field, run.at(row), &scratch->values, &elements, &count);
    if (!status.ok()) {
      run.failures->push_back({run.first_row + row, std::move(status)});
      elements.clear();
    }
  }
  if (!run.field->ragged) elements.resize(run.field->unit_bytes);
  stager->Append(elements.data(), elements.size());
}

// `offsets` is null where the field is fixed.
void OFRecordFeatures::WriteRun(const ColumnRun& run, std::int64_t* offsets, ColumnStager* stager,
                                OFRecordScratch* scratch) const {
  for (std::size_t row = 0; row < run.rows; ++row) {
    const FieldLocation& at = run.at(row);
    if (offsets != nullptr) offsets[row + 1] = offsets[row] + at.units;
    if (!WriteFast(*run.field, at, stager)) WriteSlow(run, row, stager, scratch);
  }
}

void OFRecordFeatures::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                             std::span<const ColumnTarget> targets, Scratch* scratch,
                             std::vector<RowFailure>* failures) const {
  auto* own = static_cast<OFRecordScratch*>(scratch);
  const std::size_t stride = fields_.size();
  for (std::size_t f = 0; f < stride; ++f) {
    const ColumnTarget& target = targets[f];
    const auto unit = static_cast<std::size_t>(target.offsets != nullptr ? target.offsets[0] : 0);
    own->stagers[f].Start(target.data + unit * record_fields_[f].unit_bytes);
  }
  for (std::size_t first = 0; first < rows.size(); first += chunk_rows_) {
    const auto chunk = rows.subspan(first, std::min(chunk_rows_, rows.size() - first));
    if (locations == nullptr) ScanChunk(chunk, first, own, failures);
    const FieldLocation* base =
        locations == nullptr ? own->locations.data() : locations + first * stride;
    for (std::size_t f = 0; f < stride; ++f) {
      const ColumnRun run{&record_fields_[f], chunk.size(), base + f, stride, first, failures};
      std::int64_t* const offsets = record_fields_[f].ragged ? targets[f].offsets + first : nullptr;
      WriteRun(run, offsets, &own->stagers[f], own);
      own->stagers[f].Flush();
    }
  }
  for (ColumnStager& stager : own->stagers) stager.Finish();
  StreamFence();
}

}  // namespace

std::shared_ptr<const Parser> OFRecordParser(std::vector<OFRecordFeatureSpec> features) {
  return std::make_shared<const OFRecordFeatures>(features);
}

}  // namespace ringfeed
