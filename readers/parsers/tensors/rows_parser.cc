#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/field_row.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

// Rows that go to their columns together: few enough that they and one column's stage stay in L1,
// enough that a column's stage is sent on in many lines at once.
constexpr std::size_t kChunkBytes = 6 * 1024;
constexpr std::size_t kStageBytes = 16 * 1024;
constexpr std::size_t kMostChunkRows = 128;
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

struct Column {
  std::size_t offset = 0;  // in the row
  std::size_t unit_bytes = 0;
};

struct RowsScratch final : Parser::Scratch {
  explicit RowsScratch(std::size_t fields) : columns(fields, kStageBytes) {}

  StagedColumns columns;
  std::vector<RecordSpan> checked;  // a chunk's rows if one of them does not fit
};

class TypedRowsParser final : public Parser {
 public:
  explicit TypedRowsParser(std::vector<FieldSpec> fields) {
    fields_ = std::move(fields);
    for (const FieldSpec& field : fields_) {
      columns_.push_back({row_bytes_, field.unit_bytes()});
      row_bytes_ += field.unit_bytes();
    }
    chunk_rows_ = std::clamp(kChunkBytes / row_bytes_, std::size_t{1}, kMostChunkRows);
    zeros_.resize(row_bytes_);
  }

  std::string name() const override { return "rows"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<RowsScratch>(columns_.size());
  }
  Status CheckElements(const FileElements& elements) const override {
    const auto same = [](const FieldSpec& a, const FieldSpec& b) {
      return a.dtype == b.dtype && a.shape == b.shape;
    };
    if (!elements.fields.empty() && std::ranges::equal(fields_, elements.fields, same)) return {};
    for (const FieldSpec& field : fields_) {
      Status status = CheckElementType(elements, field.dtype);
      if (!status.ok())
        return Status(status.code(), "field " + field.name + ": " + status.message());
    }
    return {};
  }
  void Locate(std::span<const RecordSpan>, FieldLocation*, Scratch*,
              std::vector<RowFailure>*) const override {}
  bool CopiesBytesOf(std::size_t) const override { return true; }
  bool ReadsBytes() const override { return false; }
  std::span<const std::byte> BytesOf(std::size_t field, const RecordSpan& record,
                                     const FieldLocation&) const override {
    if (record.size != row_bytes_) return {};
    return record.bytes().subspan(columns_[field].offset, columns_[field].unit_bytes);
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  std::span<const RecordSpan> Checked(std::span<const RecordSpan> rows, std::size_t first_row,
                                      RowsScratch* scratch,
                                      std::vector<RowFailure>* failures) const;
  void WriteColumn(std::span<const RecordSpan> rows, std::size_t column,
                   ColumnStager* stager) const;

  std::vector<Column> columns_;
  std::vector<std::byte> zeros_;  // in place of a row that does not fit
  std::size_t row_bytes_ = 0;
  std::size_t chunk_rows_ = 1;
};

// Copies the column of all rows to the stage, which has room.
void StageColumn(std::span<const RecordSpan> rows, const Column& column, ColumnStager* stager) {
  WithCopyOf(column.unit_bytes, [&](auto copy) {
    std::byte* to = stager->next();
    for (const RecordSpan& row : rows) {
      copy(to, row.data + column.offset);
      to += column.unit_bytes;
    }
  });
  stager->Advance(rows.size() * column.unit_bytes);
}

// As FetchRow, inlined by force.
[[gnu::always_inline]] inline void FetchRows(std::span<const RecordSpan> rows) {
  for (const RecordSpan& row : rows) FetchRow(row);
}

void TypedRowsParser::Write(std::span<const RecordSpan> rows, const FieldLocation*,
                            std::span<const ColumnTarget> targets, Scratch* scratch,
                            std::vector<RowFailure>* failures) const {
  auto* own = static_cast<RowsScratch*>(scratch);
  own->columns.Start(columns_, targets);
  own->checked.resize(chunk_rows_);
  FetchRows(rows.first(std::min(chunk_rows_, rows.size())));
  for (std::size_t first = 0; first < rows.size(); first += chunk_rows_) {
    const auto chunk = rows.subspan(first, std::min(chunk_rows_, rows.size() - first));
    auto after = rows.subspan(first + chunk.size());
    after = after.first(std::min(chunk_rows_, after.size()));
    const auto checked = Checked(chunk, first, own, failures);
    std::size_t fetched = 0;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      // Some of the next rows beside each column: all at once would wait for each other.
      const std::size_t end = after.size() * (c + 1) / columns_.size();
      FetchRows(after.subspan(fetched, end - fetched));
      fetched = end;
      if (targets[c].data != nullptr) WriteColumn(checked, c, &own->columns[c]);
    }
  }
  own->columns.Finish();
}

// The rows as they are, with zeros in place of a row of another size than the fields take.
std::span<const RecordSpan> TypedRowsParser::Checked(std::span<const RecordSpan> rows,
                                                     std::size_t first_row, RowsScratch* scratch,
                                                     std::vector<RowFailure>* failures) const {
  const auto fits = [&](const RecordSpan& row) { return row.size == row_bytes_; };
  if (std::all_of(rows.begin(), rows.end(), fits)) [[likely]]
    return rows;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    scratch->checked[row] = fits(rows[row]) ? rows[row] : RecordSpan{zeros_.data(), row_bytes_};
    if (fits(rows[row])) continue;
    failures->push_back({first_row + row,
                         Status(StatusCode::kDamaged, "a row of " + std::to_string(rows[row].size) +
                                                          " bytes where the fields take " +
                                                          std::to_string(row_bytes_))});
  }
  return {scratch->checked.data(), rows.size()};
}

void TypedRowsParser::WriteColumn(std::span<const RecordSpan> rows, std::size_t column,
                                  ColumnStager* stager) const {
  const Column& own = columns_[column];
  // Long ones bypass the stage (Append).
  if (own.unit_bytes < kStageBytes / 4 && rows.size() * own.unit_bytes <= kStageBytes / 2) {
    if (rows.size() * own.unit_bytes > stager->room()) stager->Flush();
    StageColumn(rows, own, stager);
    stager->Flush();
    return;
  }
  for (const RecordSpan& row : rows) stager->Append(row.data + own.offset, own.unit_bytes);
}

void CheckColumns(const std::vector<FieldSpec>& fields) {
  const auto fail = [](const std::string& why) { Refuse("rows parser: " + why); };
  if (fields.empty()) fail("a row has at least one field");
  for (const FieldSpec& field : fields) {
    for (const std::int64_t dimension : field.shape) {
      if (dimension <= 0) fail("field " + field.name + " is not of fixed, positive shape");
    }
    FieldRow row;
    if (const char* why = SetFieldRow(field, kMostElements, &row)) {
      fail("field " + field.name + ": " + why);
    }
  }
}

}  // namespace

std::shared_ptr<const Parser> RowsParser(std::vector<FieldSpec> fields) {
  CheckColumns(fields);
  return std::make_shared<const TypedRowsParser>(std::move(fields));
}

}  // namespace ringfeed
