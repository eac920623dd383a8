#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/lod_tensor_layout.h"
#include "readers/parsers/field_row.h"
#include "readers/parsers/lod_tensor_record.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kStageBytes = 16 * 1024;
// Rows that are taken to their columns together: their locations stay in L1, and small records too.
constexpr std::size_t kChunkRows = 64;
constexpr std::size_t kMostLevels = 16;
// A row stays far below what a count of bytes can hold.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

struct Column {
  std::size_t unit_bytes = 0;
  bool level = false;
};

struct LoDScratch final : Parser::Scratch {
  explicit LoDScratch(std::size_t fields) : columns(fields, kStageBytes) {}

  StagedColumns columns;
};

[[noreturn]] void Refuse(const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument, "lod parser: " + why));
}

LoDTensorField MakeField(const LoDTensorSpec& spec) {
  const auto refuse = [&](const std::string& why) {
    Refuse("tensor \"" + spec.name + "\": " + why);
  };
  FieldRow row;
  if (const char* why = SetFieldRow({spec.name, spec.dtype, spec.shape}, kMostElements, &row)) {
    refuse(why);
  }
  if (!LoDTensorTypeOf(spec.dtype)) {
    refuse("Paddle has no tensors of " + std::string(DTypeName(spec.dtype)));
  }
  if (spec.lod_levels > kMostLevels) {
    refuse("it has at most " + std::to_string(kMostLevels) + " levels of LoD");
  }
  if (spec.lod_levels > 0 && !row.ragged) {
    refuse("with LoD its first dimension is -1, the rows of all sequences");
  }
  return {spec.name, spec.dtype, spec.shape, spec.lod_levels, row.unit_bytes};
}

// The ends of a record's sequences, counted from the batch's start.
void AppendEnds(const FieldLocation& at, std::int64_t base, ColumnStager* stager) {
  constexpr std::size_t kOffsetBytes = sizeof(std::int64_t);
  constexpr std::size_t kMost = 256;
  std::array<std::int64_t, kMost> ends;
  for (std::size_t done = 0; done < at.units;) {
    const std::size_t count = std::min<std::size_t>(kMost, at.units - done);
    for (std::size_t i = 0; i < count; ++i) {
      ends[i] = base + LoadLe<std::int64_t>(at.data + (done + i) * kOffsetBytes);
    }
    stager->Append(reinterpret_cast<const std::byte*>(ends.data()), count * kOffsetBytes);
    done += count;
  }
}

class LoDRecordParser final : public Parser {
 public:
  explicit LoDRecordParser(const std::vector<LoDTensorSpec>& tensors) {
    if (tensors.empty()) Refuse("name at least one tensor");
    for (const LoDTensorSpec& spec : tensors) AddTensor(spec);
    two_phase_ = true;
  }

  std::string name() const override { return "lod"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<LoDScratch>(columns_.size());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch*,
              std::vector<RowFailure>* failures) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Status status =
          LocateLoDTensors(rows[row].bytes(), tensors_, locations + row * columns_.size());
      if (!status.ok()) failures->push_back({row, std::move(status)});
    }
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  void AddTensor(const LoDTensorSpec& spec);
  void AddColumn(FieldSpec field, FieldRole role) {
    columns_.push_back({field.unit_bytes(), role == FieldRole::kLodLevel});
    roles_.push_back(role);
    fields_.push_back(std::move(field));
  }
  void SetOffsets(const FieldLocation* locations, std::size_t first, std::size_t rows,
                  std::span<const ColumnTarget> targets) const;
  void WriteColumn(const FieldLocation* locations, std::size_t first, std::size_t rows,
                   std::span<const ColumnTarget> targets, std::size_t column,
                   ColumnStager* stager) const;

  std::vector<LoDTensorField> tensors_;
  std::vector<Column> columns_;
};

void LoDRecordParser::AddTensor(const LoDTensorSpec& spec) {
  const auto same = [&](const LoDTensorField& other) { return other.name == spec.name; };
  if (std::any_of(tensors_.begin(), tensors_.end(), same)) {
    Refuse("\"" + spec.name + "\" is named twice");
  }
  tensors_.push_back(MakeField(spec));
  for (std::size_t level = 0; level < spec.lod_levels; ++level) {
    const std::string name = spec.name + "'s LoD, level " + std::to_string(level);
    AddColumn({name, DType::kInt64, {-1}}, FieldRole::kLodLevel);
  }
  const FieldSpec values{spec.name, spec.dtype, spec.shape};
  AddColumn(values, values.ragged() ? FieldRole::kLodValues : FieldRole::kTensor);
}

void LoDRecordParser::SetOffsets(const FieldLocation* locations, std::size_t first,
                                 std::size_t rows, std::span<const ColumnTarget> targets) const {
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::int64_t* offsets = targets[column].offsets;
    if (offsets == nullptr) continue;
    for (std::size_t row = first; row < first + rows; ++row) {
      offsets[row + 1] = offsets[row] + locations[row * columns_.size() + column].units;
    }
  }
}

void LoDRecordParser::WriteColumn(const FieldLocation* locations, std::size_t first,
                                  std::size_t rows, std::span<const ColumnTarget> targets,
                                  std::size_t column, ColumnStager* stager) const {
  for (std::size_t row = first; row < first + rows; ++row) {
    const FieldLocation& at = locations[row * columns_.size() + column];
    if (columns_[column].level) {
      AppendEnds(at, targets[column + 1].offsets[row], stager);
    } else {
      stager->Append(at.data, at.bytes);
    }
  }
  stager->Flush();
}

void LoDRecordParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                            std::span<const ColumnTarget> targets, Scratch* scratch,
                            std::vector<RowFailure>*) const {
  auto* own = static_cast<LoDScratch*>(scratch);
  own->columns.Start(columns_, targets);
  for (std::size_t first = 0; first < rows.size(); first += kChunkRows) {
    const std::size_t some = std::min(kChunkRows, rows.size() - first);
    SetOffsets(locations, first, some, targets);
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      WriteColumn(locations, first, some, targets, column, &own->columns[column]);
    }
  }
  own->columns.Finish();
}

}  // namespace

std::shared_ptr<const Parser> LoDTensorParser(const std::vector<LoDTensorSpec>& tensors) {
  return std::make_shared<const LoDRecordParser>(tensors);
}

}  // namespace ringfeed
