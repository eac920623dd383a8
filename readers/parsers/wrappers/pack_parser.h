#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/parsers/element_value.h"
#include "readers/parsers/parser.h"
#include "ringfeed/sequences.h"

namespace ringfeed {

/// Writes the rows of a parser with one ragged field into rows of a fixed length, several behind
/// each other, with what tells them apart. Of rows that are longer the beginning is taken. Each
/// byte of a packed row is written once.
class PackParser final : public Parser {
 public:
  /// `inner` has that field alone. Throws Error where it does not, or where its type does not hold
  /// the pad value.
  PackParser(std::shared_ptr<const Parser> inner, const PackOptions& options);

  std::string name() const override { return inner_->name(); }
  Status CheckElements(const FileElements& elements) const override {
    return inner_->CheckElements(elements);
  }
  Refusal Explain(const RecordSpan& record, const Status& why) const override {
    return inner_->Explain(record, why);
  }
  std::unique_ptr<Scratch> NewScratch() const override;
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override;
  std::uint32_t TakeTruncated(Scratch* scratch) const override;
  /// Each record in a row of its own.
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

  /// Records [row_ends[r - 1], row_ends[r]) into row r of the targets; from `first` on, which is
  /// what records[0] is counted as. A failure's row is its record's number in `records`.
  void WritePacked(std::span<const RecordSpan> records, const FieldLocation* locations,
                   std::span<const std::uint32_t> row_ends, std::uint32_t first,
                   std::span<const ColumnTarget> targets, Scratch* scratch,
                   std::vector<RowFailure>* failures) const;
  /// Makes a part of a row that was written empty: `units` of them, `begin` behind the targets'
  /// start.
  void Blank(std::span<const ColumnTarget> targets, std::size_t begin, std::size_t units) const;

  std::uint32_t length() const { return length_; }
  /// Units that a located record takes.
  std::uint32_t UnitsOf(const FieldLocation* locations) const { return locations->units; }

 private:
  struct PackScratch;

  const std::shared_ptr<const Parser> inner_;
  const std::uint32_t length_;
  const std::size_t unit_bytes_;
  ElementValue pad_;
};

}  // namespace ringfeed
