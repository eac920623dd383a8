#include <algorithm>
#include <string>
#include <utility>

#include "base/stream_copy.h"
#include "readers/parsers/column_stager.h"
#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

// Rows that are taken to their columns together: few enough that they and one column's stage stay
// in L1, enough that a column's stage is sent on in many lines at once.
constexpr std::size_t kChunkBytes = 12 * 1024;
constexpr std::size_t kStageBytes = 16 * 1024;
constexpr std::size_t kMostChunkRows = 128;

struct Column {
  std::size_t offset = 0;  // in the row
  std::size_t bytes = 0;
};

struct alignas(ColumnStager::kLine) RowsScratch final : Parser::Scratch {
  explicit RowsScratch(std::size_t columns) : stages(columns) {}
  struct alignas(ColumnStager::kLine) Stage {
    std::byte bytes[kStageBytes + ColumnStager::kLine];
  };
  std::vector<Stage> stages;
};

class TypedRowsParser final : public Parser {
 public:
  explicit TypedRowsParser(std::vector<FieldSpec> fields) {
    fields_ = std::move(fields);
    for (const FieldSpec& field : fields_) {
      columns_.push_back({row_bytes_, field.unit_bytes()});
      row_bytes_ += field.unit_bytes();
    }
  }

  std::string name() const override { return "rows"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<RowsScratch>(columns_.size());
  }
  void Locate(std::span<const RecordSpan>, FieldLocation*, Scratch*,
              std::vector<RowFailure>*) const override {}
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  std::vector<Column> columns_;
  std::size_t row_bytes_ = 0;
};

void TypedRowsParser::Write(std::span<const RecordSpan> rows, const FieldLocation*,
                            std::span<const ColumnTarget> targets, Scratch*,
                            std::vector<RowFailure>* failures) const {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const bool fits = rows[row].size == row_bytes_;
    if (!fits) {
      failures->push_back(
          {row, Status(StatusCode::kDamaged, "a row of " + std::to_string(rows[row].size) +
                                                 " bytes where the fields take " +
                                                 std::to_string(row_bytes_))});
    }
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::byte* to = targets[c].data + row * columns_[c].bytes;
      if (fits) {
        std::memcpy(to, rows[row].data + columns_[c].offset, columns_[c].bytes);
      } else {
        std::memset(to, 0, columns_[c].bytes);
      }
    }
  }
}

void CheckColumns(const std::vector<FieldSpec>& fields) {
  const auto fail = [](const std::string& why) {
    throw Error(Status(StatusCode::kInvalidArgument, "rows parser: " + why));
  };
  if (fields.empty()) fail("a row has at least one field");
  for (const FieldSpec& field : fields) {
    for (const std::int64_t dimension : field.shape) {
      if (dimension <= 0) fail("field " + field.name + " is not of fixed, positive shape");
    }
  }
}

}  // namespace

std::shared_ptr<const Parser> RowsParser(std::vector<FieldSpec> fields) {
  CheckColumns(fields);
  return std::make_shared<const TypedRowsParser>(std::move(fields));
}

}  // namespace ringfeed
