#include "readers/parsers/lod_columns.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "readers/parsers/staged_columns.h"

namespace ringfeed {
namespace {

constexpr std::size_t kStageBytes = 16 * 1024;
// Rows that go to their columns together: their locations stay in L1, and small records too.
constexpr std::size_t kChunkRows = 64;

// The ends of a record's sequences, counted from the batch's start. False if they do not ascend to
// `last`, as they did when they were located.
bool AppendEnds(const FieldLocation& at, std::int64_t base, std::uint64_t last,
                ColumnStager* stager) {
  constexpr std::size_t kOffsetBytes = sizeof(std::int64_t);
  constexpr std::size_t kMost = 256;
  std::array<std::int64_t, kMost> ends;
  std::uint64_t before = 0;
  bool ascend = true;
  for (std::size_t done = 0; done < at.units;) {
    const std::size_t count = std::min<std::size_t>(kMost, at.units - done);
    for (std::size_t i = 0; i < count; ++i) {
      const auto end = LoadOnceLe<std::uint64_t>(at.data + (done + i) * kOffsetBytes);
      ascend = ascend && before <= end && end <= last;
      before = end;
      ends[i] = base + static_cast<std::int64_t>(ascend ? end : last);
    }
    stager->Append(reinterpret_cast<const std::byte*>(ends.data()), count * kOffsetBytes);
    done += count;
  }
  return ascend && before == last;
}

}  // namespace

bool LocateSequences(std::span<const std::byte> values, std::span<const std::uint64_t> ends,
                     std::size_t unit_bytes, LocatedStorage* storage, FieldLocation* columns) {
  const std::size_t end_bytes = ends.size_bytes();
  std::byte* const ends_to = storage->Allocate(end_bytes);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    StoreLe(ends_to + i * sizeof(std::uint64_t), ends[i] / unit_bytes);
  }
  std::byte* const values_to = storage->Allocate(values.size());
  std::copy(values.begin(), values.end(), values_to);
  return LocateAt(ends_to, end_bytes, ends.size(), &columns[0]) &&
         LocateAt(values_to, values.size(), values.size() / unit_bytes, &columns[1]);
}

LoDScratch::LoDScratch(std::size_t fields) : columns(fields, kStageBytes) {}

std::unique_ptr<Parser::Scratch> LoDColumnsParser::NewScratch() const {
  return std::make_unique<LoDScratch>(columns_.size());
}

void LoDColumnsParser::AddTensorColumns(FieldSpec values, std::size_t lod_levels) {
  for (std::size_t level = 0; level < lod_levels; ++level) {
    const std::string name = values.name + "'s LoD, level " + std::to_string(level);
    AddColumn({name, DType::kInt64, {-1}}, FieldRole::kLodLevel);
  }
  const FieldRole role = values.ragged() ? FieldRole::kLodValues : FieldRole::kTensor;
  AddColumn(std::move(values), role);
}

void LoDColumnsParser::AddColumn(FieldSpec field, FieldRole role) {
  columns_.push_back({field.unit_bytes(), role == FieldRole::kLodLevel});
  roles_.push_back(role);
  fields_.push_back(std::move(field));
}

bool LoDColumnsParser::AddRows(FieldSpec field, bool nested) {
  if (nested) {
    field.shape.erase(field.shape.begin());
    if (!AddField({field.name + "'s sequences", DType::kInt64, {-1}})) return false;
    columns_.push_back({sizeof(std::int64_t), true});
  }
  columns_.push_back({field.unit_bytes(), false});
  if (!AddField(std::move(field))) return false;
  if (nested) {
    roles_.resize(fields_.size());
    roles_[fields_.size() - 2] = FieldRole::kLodLevel;
    roles_.back() = FieldRole::kNestedRows;
    gives_records_ = true;
  }
  return true;
}

void LoDColumnsParser::SetOffsets(const FieldLocation* locations, std::size_t first,
                                  std::size_t rows, std::span<const ColumnTarget> targets) const {
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::int64_t* offsets = targets[column].offsets;
    if (offsets == nullptr) continue;
    for (std::size_t row = first; row < first + rows; ++row) {
      offsets[row + 1] = offsets[row] + locations[row * columns_.size() + column].units;
    }
  }
}

void LoDColumnsParser::WriteColumn(const FieldLocation* locations, std::size_t first,
                                   std::size_t rows, std::span<const ColumnTarget> targets,
                                   std::size_t column, ColumnStager* stager,
                                   std::vector<RowFailure>* failures) const {
  for (std::size_t row = first; row < first + rows; ++row) {
    const FieldLocation& at = locations[row * columns_.size() + column];
    if (columns_[column].level) {
      const FieldLocation& next = locations[row * columns_.size() + column + 1];
      if (!AppendEnds(at, targets[column + 1].offsets[row], next.units, stager)) [[unlikely]] {
        failures->push_back({row, ChangedSinceLocated()});
      }
    } else {
      stager->Append(at.data, at.bytes);
    }
  }
  stager->Flush();
}

void LoDColumnsParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                             std::span<const ColumnTarget> targets, Scratch* scratch,
                             std::vector<RowFailure>* failures) const {
  auto* own = static_cast<LoDScratch*>(scratch);
  own->columns.Start(columns_, targets);
  for (std::size_t first = 0; first < rows.size(); first += kChunkRows) {
    const std::size_t some = std::min(kChunkRows, rows.size() - first);
    SetOffsets(locations, first, some, targets);
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      if (targets[column].data == nullptr) continue;
      WriteColumn(locations, first, some, targets, column, &own->columns[column], failures);
    }
  }
  own->columns.Finish();
}

}  // namespace ringfeed
