#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "base/stream_copy.h"
#include "readers/parsers/column_stager.h"
#include "readers/parsers/example_fields.h"
#include "readers/parsers/example_scanner.h"
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

struct ExampleScratch final : Parser::Scratch {
  struct alignas(ColumnStager::kLine) Stage {
    std::byte bytes[kStageBytes + ColumnStager::kLine];
  };
  explicit ExampleScratch(std::size_t fields) : stages(fields) {
    for (Stage& stage : stages) stagers.emplace_back(stage.bytes, kStageBytes);
  }
  std::vector<Stage> stages;  // of each field: of a short one little is ever touched
  std::vector<ColumnStager> stagers;
  ExampleScanner::KeyOrder order;
  std::vector<FieldLocation> locations;  // of a chunk, where there is one phase
  std::vector<std::byte> elements;       // of a field that is read the slow way
  std::vector<std::int64_t> ints;        // of a run that does not go straight to the stage
};

// A run of rows of one field on its way to its column.
struct ColumnRun {
  const ExampleField* field = nullptr;
  std::span<const RecordSpan> rows;
  const FieldLocation* locations = nullptr;  // of the first row; `stride` of them a row
  std::size_t stride = 0;
  std::size_t first_row = 0;  // its index in the call
  std::vector<RowFailure>* failures = nullptr;

  const FieldLocation& at(std::size_t row) const { return locations[row * stride]; }
};

class FeaturesParser final : public Parser {
 public:
  explicit FeaturesParser(const std::vector<FeatureSpec>& features)
      : example_fields_(MakeFields(features)), scanner_(example_fields_) {
    for (const FeatureSpec& feature : features) {
      fields_.push_back({feature.name, feature.dtype, feature.shape});
      two_phase_ = two_phase_ || fields_.back().ragged();
    }
    chunk_rows_ = std::clamp(kChunkLocations / fields_.size(), kFewestChunkRows, kMostChunkRows);
  }

  std::string name() const override { return "example"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<ExampleScratch>(fields_.size());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  static std::vector<ExampleField> MakeFields(const std::vector<FeatureSpec>& features);
  Status CheckRow(FieldLocation* locations) const;
  void ScanChunk(std::span<const RecordSpan> rows, std::size_t first_row, ExampleScratch* scratch,
                 std::vector<RowFailure>* failures) const;
  template <typename T, typename Take>
  void WriteSingles(const ColumnRun& run, ColumnStager* stager, ExampleScratch* scratch,
                    Take take) const;
  void WriteFixed(const ColumnRun& run, ColumnStager* stager, ExampleScratch* scratch) const;
  bool WriteFast(const ExampleField& field, const FieldLocation& at, ColumnStager* stager,
                 ExampleScratch* scratch) const;
  void WriteSlow(const ColumnRun& run, std::size_t row, ColumnStager* stager,
                 ExampleScratch* scratch) const;
  void WriteRagged(const ColumnRun& run, std::int64_t* offsets, ColumnStager* stager,
                   ExampleScratch* scratch) const;

  const std::vector<ExampleField> example_fields_;
  const ExampleScanner scanner_;
  std::size_t chunk_rows_ = kMostChunkRows;
};

std::vector<ExampleField> FeaturesParser::MakeFields(const std::vector<FeatureSpec>& features) {
  const auto refuse = [](const std::string& why) {
    throw Error(Status(StatusCode::kInvalidArgument, "tf.Example parser: " + why));
  };
  if (features.empty()) refuse("name at least one feature");
  std::set<std::string> names;
  std::vector<ExampleField> fields;
  for (const FeatureSpec& feature : features) {
    if (!names.insert(feature.name).second) refuse("\"" + feature.name + "\" is named twice");
    fields.push_back(MakeExampleField(feature));
  }
  return fields;
}

// The value of a varint of at most eight bytes: seven bits of each, moved together in three steps.
inline std::uint64_t JoinSevens(std::uint64_t word) {
  word = (word & 0x007f007f007f007fU) | (word & 0x7f007f007f007f00U) >> 1;
  word = (word & 0x00003fff00003fffU) | (word & 0x3fff00003fff0000U) >> 2;
  return (word & 0x000000000fffffffU) | (word & 0x0fffffff00000000U) >> 4;
}

Status Malformed() { return Status(StatusCode::kDamaged, "the record is no tf.Example"); }

// True where a location needs no look at its bytes to be known to be right.
bool PlainlyRight(const ExampleField& field, const FieldLocation& at) {
  if (field.kind == FeatureKind::kBytes
          ? at.form != kFormBytes
          : field.kind != FeatureKind::kFloats || at.form != kFormFloats) {
    return false;
  }
  return field.ragged ? at.bytes % field.unit_bytes == 0 : at.bytes == field.unit_bytes;
}

Status FeaturesParser::CheckRow(FieldLocation* locations) const {
  for (std::size_t f = 0; f < example_fields_.size(); ++f) {
    const ExampleField& field = example_fields_[f];
    FieldLocation& at = locations[f];
    if (PlainlyRight(field, at)) {
      at.units = static_cast<std::uint32_t>(at.bytes / field.unit_bytes);
      continue;
    }
    std::size_t count = 0;
    Status status = ReadExampleField(field, at, nullptr, &count);
    if (!status.ok()) return status;
    at.units = static_cast<std::uint32_t>(count / field.elements);
  }
  return {};
}

void FeaturesParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                            Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<ExampleScratch*>(scratch);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    FieldLocation* at = locations + row * fields_.size();
    Status status = scanner_.Scan(rows[row], at, &own->order) ? CheckRow(at) : Malformed();
    if (!status.ok()) failures->push_back({row, std::move(status)});
  }
}

void FeaturesParser::ScanChunk(std::span<const RecordSpan> rows, std::size_t first_row,
                               ExampleScratch* scratch, std::vector<RowFailure>* failures) const {
  constexpr std::size_t kRowsAhead = 6;
  scratch->locations.resize(chunk_rows_ * fields_.size());
  for (const RecordSpan& row : rows.first(std::min(kRowsAhead, rows.size()))) FetchRow(row);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (row + kRowsAhead < rows.size()) FetchRow(rows[row + kRowsAhead]);
    FieldLocation* at = scratch->locations.data() + row * fields_.size();
    if (scanner_.Scan(rows[row], at, &scratch->order)) continue;
    failures->push_back({first_row + row, Malformed()});
    for (std::size_t f = 0; f < fields_.size(); ++f) at[f].form = kFormFailed;
  }
}

// The usual forms with the right length, straight to the stage; false where it is not such a one.
bool FeaturesParser::WriteFast(const ExampleField& field, const FieldLocation& at,
                               ColumnStager* stager, ExampleScratch* scratch) const {
  if (field.kind != FeatureKind::kInts) {
    if (!PlainlyRight(field, at)) return false;
    stager->Append(at.data, at.bytes);
    return true;
  }
  if (at.form != kFormInts) return false;
  const std::span<const std::byte> run{at.data, at.bytes};
  if (field.dtype == DType::kInt64 && field.unit_bytes <= kStageBytes / 2) {
    if (field.unit_bytes > stager->room()) stager->Flush();
    auto* to = reinterpret_cast<std::int64_t*>(stager->next());
    if (!DecodeVarints(run, field.elements, to)) return false;
    stager->Advance(field.unit_bytes);
    return true;
  }
  scratch->ints.resize(field.elements);
  if (!DecodeVarints(run, field.elements, scratch->ints.data())) return false;
  const auto wide = std::as_bytes(std::span(scratch->ints));
  if (field.dtype == DType::kInt64) {
    stager->Append(wide.data(), wide.size());
    return true;
  }
  // In place: element i is written at or before where it was read.
  auto* narrow = reinterpret_cast<std::byte*>(scratch->ints.data());
  for (std::size_t i = 0; i < field.elements; ++i) {
    const std::int64_t value = scratch->ints[i];
    if (value != static_cast<std::int32_t>(value)) return false;
    StoreLe(narrow + i * sizeof(std::int32_t), static_cast<std::int32_t>(value));
  }
  stager->Append(narrow, field.unit_bytes);
  return true;
}

// Whatever else the row has there; zeros where it fails.
void FeaturesParser::WriteSlow(const ColumnRun& run, std::size_t row, ColumnStager* stager,
                               ExampleScratch* scratch) const {
  std::vector<std::byte>& elements = scratch->elements;
  elements.clear();
  if (run.at(row).form != kFormFailed) {
    std::size_t count = 0;
    Status status = ReadExampleField(*run.field, run.at(row), &elements, &count);
    if (!status.ok()) run.failures->push_back({run.first_row + row, std::move(status)});
    if (!status.ok()) elements.clear();
  }
  if (!run.field->ragged) elements.resize(run.field->unit_bytes);
  stager->Append(elements.data(), elements.size());
}

// One value a row: rows are independent of each other, so nothing waits for the one before. `take`
// writes the value to where it is told, or returns false where it has another form. A chunk's rows
// fit into the stage.
template <typename T, typename Take>
void FeaturesParser::WriteSingles(const ColumnRun& run, ColumnStager* stager,
                                  ExampleScratch* scratch, Take take) const {
  const FieldLocation* at = run.locations;
  std::byte* to = stager->next();
  for (std::size_t row = 0; row < run.rows.size(); ++row, at += run.stride) {
    if (take(*at, run.rows[row], to)) [[likely]] {
      to += sizeof(T);
      continue;
    }
    stager->Advance(static_cast<std::size_t>(to - stager->next()));
    if (!WriteFast(*run.field, *at, stager, scratch)) WriteSlow(run, row, stager, scratch);
    to = stager->next();
  }
  stager->Advance(static_cast<std::size_t>(to - stager->next()));
}

// A run of at most eight bytes that is one varint: its first stop is the last of its bytes.
inline bool TakeInt(const FieldLocation& at, const RecordSpan& record, std::byte* to) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  const bool readable = record.data + record.size - at.data >= 8;
  if (at.form != kFormInts || at.bytes - 1U >= 8U || !readable) return false;
  const auto word = LoadLe<std::uint64_t>(at.data);
  const unsigned beyond = 64 - 8 * at.bytes;
  if ((~word & kHighBits) << beyond != std::uint64_t{1} << 63) return false;
  StoreLe(to, JoinSevens(word << beyond >> beyond));
  return true;
}

inline bool TakeFloat(const FieldLocation& at, const RecordSpan&, std::byte* to) {
  if (at.form != kFormFloats || at.bytes != sizeof(float)) return false;
  StoreLe(to, LoadLe<std::uint32_t>(at.data));
  return true;
}

void FeaturesParser::WriteFixed(const ColumnRun& run, ColumnStager* stager,
                                ExampleScratch* scratch) const {
  const ExampleField& field = *run.field;
  if (field.dtype == DType::kInt64 && field.elements == 1) {
    return WriteSingles<std::int64_t>(run, stager, scratch, TakeInt);
  }
  if (field.dtype == DType::kFloat32 && field.elements == 1) {
    return WriteSingles<float>(run, stager, scratch, TakeFloat);
  }
  for (std::size_t row = 0; row < run.rows.size(); ++row) {
    if (!WriteFast(*run.field, run.at(row), stager, scratch)) {
      WriteSlow(run, row, stager, scratch);
    }
  }
}

void FeaturesParser::WriteRagged(const ColumnRun& run, std::int64_t* offsets, ColumnStager* stager,
                                 ExampleScratch* scratch) const {
  for (std::size_t row = 0; row < run.rows.size(); ++row) {
    const FieldLocation& at = run.at(row);
    offsets[row + 1] = offsets[row] + at.units;
    if (PlainlyRight(*run.field, at)) {
      stager->Append(at.data, at.bytes);
    } else {
      WriteSlow(run, row, stager, scratch);
    }
  }
}

void FeaturesParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                           std::span<const ColumnTarget> targets, Scratch* scratch,
                           std::vector<RowFailure>* failures) const {
  auto* own = static_cast<ExampleScratch*>(scratch);
  const std::size_t stride = fields_.size();
  for (std::size_t f = 0; f < stride; ++f) {
    const ColumnTarget& target = targets[f];
    const auto unit = static_cast<std::size_t>(target.offsets != nullptr ? target.offsets[0] : 0);
    own->stagers[f].Start(target.data + unit * example_fields_[f].unit_bytes);
  }
  for (std::size_t first = 0; first < rows.size(); first += chunk_rows_) {
    const auto chunk = rows.subspan(first, std::min(chunk_rows_, rows.size() - first));
    if (locations == nullptr) ScanChunk(chunk, first, own, failures);
    const FieldLocation* base =
        locations == nullptr ? own->locations.data() : locations + first * stride;
    for (std::size_t f = 0; f < stride; ++f) {
      const ColumnRun run{&example_fields_[f], chunk, base + f, stride, first, failures};
      ColumnStager& stager = own->stagers[f];
      if (example_fields_[f].ragged) {
        WriteRagged(run, targets[f].offsets + first, &stager, own);
      } else {
        WriteFixed(run, &stager, own);
      }
      stager.Flush();
    }
  }
  for (ColumnStager& stager : own->stagers) stager.Finish();
  StreamFence();
}

}  // namespace

std::shared_ptr<const Parser> ExampleParser(std::vector<FeatureSpec> features) {
  return std::make_shared<const FeaturesParser>(features);
}

}  // namespace ringfeed
