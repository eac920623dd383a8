#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/parsers/element_value.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/parser_decorator.h"
#include "ringfeed/decorators.h"
#include "ringfeed/sequences.h"
#include "ringfeed/slot.h"

namespace ringfeed {

/// Rows that are instances of a user's reader (RecordSpan::data points at an Instance) as fields of
/// a batch, stacked: checks rank, dimensions and dtype of every tensor; an error names field,
/// expected and found.
std::shared_ptr<const Parser> MakeInstanceParser(std::vector<FieldSpec> fields);

/// The same for instances that were checked against `slots`: joined along their first dimensions,
/// their LoD merged; scalars are stacked. Throws Error if another dimension than the first is open.
std::shared_ptr<const Parser> MakeSlotParser(const std::vector<SlotSpec>& slots);

/// The same for instances that are rows as `like` parsed them.
std::shared_ptr<const Parser> MakeParsedRowParser(const Parser& like);

/// A user's function as the last parser of a chain: `inner` (may be null) parses the record for it,
/// the function writes `fields`. If all of them are fixed it runs when the row is written, straight
/// into the batch. If one is ragged it runs in the first phase, since its lengths give the places.
/// A row fails (kUserError), with the field's name and `function_name`, if the function leaves a
/// field of it unwritten.
std::shared_ptr<const Parser> MakeMapParser(std::shared_ptr<const Parser> inner,
                                            std::vector<FieldSpec> fields, MapFunction function,
                                            std::string function_name = "the Map function");

/// `inner` with the rows of one ragged field cut to `length` units. If its locations can be cut,
/// nothing else is done. Otherwise a row that is too long is written to another place, and its
/// beginning copied. Throws Error if there is no such field.
std::shared_ptr<const Parser> MakeTruncateParser(std::shared_ptr<const Parser> inner,
                                                 const std::string& field, std::uint32_t length);

/// `inner` with the rows of one ragged field filled up, and a last field of their own lengths. The
/// inner parser writes each row to its place in the batch; the padding is filled in after it.
/// Throws Error if there is no such field, or its type does not hold the value.
std::shared_ptr<const Parser> MakePadParser(std::shared_ptr<const Parser> inner,
                                            const std::string& field, const PadOptions& options);

/// Writes the rows of a parser with one ragged field into rows of a fixed length, several one after
/// the other, with what tells them apart. Takes the beginning of longer rows. Each byte of a packed
/// row is written once.
class PackParser final : public ParserDecorator {
 public:
  /// `inner` has that field alone. Throws Error if it does not, or if its type does not hold the
  /// pad value.
  PackParser(std::shared_ptr<const Parser> inner, const PackOptions& options);

  std::unique_ptr<Scratch> NewScratch() const override;
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  /// No field of it is ragged.
  bool Cut(std::size_t /*field*/, std::uint32_t /*units*/,
           FieldLocation* /*location*/) const override {
    return false;
  }
  /// A row has several records' bytes, and what fills it up.
  bool CopiesBytesOf(std::size_t /*field*/) const override { return false; }
  std::span<const std::byte> BytesOf(std::size_t /*field*/, const RecordSpan& /*record*/,
                                     const FieldLocation& /*location*/) const override {
    return {};
  }
  bool ReadsBytes() const override { return true; }
  /// Each record in a row of its own.
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

  /// Writes records [row_ends[r - 1], row_ends[r]) into row r of the targets. Record numbers start
  /// at `first`, which is the number of records[0]. A failure's row is its record's number in
  /// `records`.
  void WritePacked(std::span<const RecordSpan> records, const FieldLocation* locations,
                   std::span<const std::uint32_t> row_ends, std::uint32_t first,
                   std::span<const ColumnTarget> targets, Scratch* scratch,
                   std::vector<RowFailure>* failures) const;
  /// Makes a part of a row that was written empty: `units` of them, from `begin` units after the
  /// targets' start.
  void Blank(std::span<const ColumnTarget> targets, std::size_t begin, std::size_t units) const;

  std::uint32_t length() const { return length_; }
  /// Units that a located record takes.
  std::uint32_t UnitsOf(const FieldLocation* locations) const { return locations->units; }

 private:
  struct PackScratch;

  const std::uint32_t length_;
  const std::size_t unit_bytes_;
  ElementValue pad_;
};

}  // namespace ringfeed
