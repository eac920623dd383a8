#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"

namespace ringfeed {

/// What a thread needs to write columns.
struct LoDScratch : Parser::Scratch {
  explicit LoDScratch(std::size_t fields);

  StagedColumns columns;
};

/// Copies a row of sequences to `storage`: columns[0] gets their ends, which count elements of
/// `unit_bytes`, columns[1] their values. `ends` are in bytes. False if they are too many.
bool LocateSequences(std::span<const std::byte> values, std::span<const std::uint64_t> ends,
                     std::size_t unit_bytes, LocatedStorage* storage, FieldLocation* columns);

/// A parser whose fields are tensors with LoD. Locate, which each kind of record implements, finds
/// for each tensor its levels, the top one first, and after them its values, as one location each.
/// A level's location is its offsets without the first, which is 0: little-endian 64-bit numbers,
/// of any alignment. Joining them into a batch is the same for all.
class LoDColumnsParser : public Parser {
 public:
  std::unique_ptr<Scratch> NewScratch() const override;
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 protected:
  LoDColumnsParser() { two_phase_ = units_alike_ = true; }
  /// A tensor's columns: its levels, if any, then its values. With a first dimension of -1 records
  /// are joined along it, else they are stacked.
  void AddTensorColumns(FieldSpec values, std::size_t lod_levels);
  void AddColumn(FieldSpec field, FieldRole role);
  /// A column of rows of their own or, `nested`, those of a field of sequences of any number and
  /// length, the shape {-1, -1, …}: their ends, then their values. False if a field of that name
  /// exists.
  bool AddRows(FieldSpec field, bool nested);

 private:
  void SetOffsets(const FieldLocation* locations, std::size_t first, std::size_t rows,
                  std::span<const ColumnTarget> targets) const;
  void WriteColumn(const FieldLocation* locations, std::size_t first, std::size_t rows,
                   std::span<const ColumnTarget> targets, std::size_t column, ColumnStager* stager,
                   std::vector<RowFailure>* failures) const;

  struct Column {
    std::size_t unit_bytes = 0;
    bool level = false;
  };
  std::vector<Column> columns_;
};

}  // namespace ringfeed
