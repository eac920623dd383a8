#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "readers/parsers/parser.h"
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
/// the function writes `fields`, and those of `inner` to keep follow. If all of them are fixed it
/// runs when the row is written, straight into the batch. If one is ragged it runs in the first
/// phase, since its lengths give the places. A row fails (kUserError), with the field's name, if
/// the function leaves a field of it unwritten; it fails (kDamaged) if the function refuses it.
/// Throws Error for fields to keep that cannot be kept.
std::shared_ptr<const Parser> MakeMapParser(std::shared_ptr<const Parser> inner,
                                            std::vector<FieldSpec> fields, MapFunction function,
                                            const MapOptions& options = {},
                                            std::uint64_t first_epoch = 0);

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

/// A set of a mixture that has a parser of its own.
struct MixedParser {
  std::shared_ptr<const Parser> parser;
  std::size_t files = 0;
};
/// Parses each row by its set's parser, which CurrentRows tells by the row's file: the files of all
/// sets stand one set's after the other's. Throws Error if the parsers have other fields.
std::shared_ptr<const Parser> MakeMixParser(std::vector<MixedParser> sets);

/// The units of a ragged field of `inner` as a fixed field, uint32: of each record one number.
std::shared_ptr<const Parser> MakeUnitsParser(std::shared_ptr<const Parser> inner,
                                              std::size_t field);

/// `inner`, which has one ragged field, with records in rows of a fixed length that several of them
/// share: their values, segments and positions. Takes the beginning of longer records. Each byte of
/// a row is written once. Locate gives each record a row of its own, and SetPackedPlace another
/// place. Write takes the records of rows one after another: those that start a row go to the next
/// row of the targets, the first one to their first. A damaged one leaves its units empty. Throws
/// Error if `inner` has other fields, or if its type does not hold the pad value.
std::shared_ptr<const Parser> MakePackParser(std::shared_ptr<const Parser> inner,
                                             const PackOptions& options);

/// The fields of a packed row. The first one's location has the units of a record.
inline constexpr std::size_t kPackFields = 3;
/// Where a record stands in its row.
struct PackedPlace {
  std::uint32_t number = 1;  ///< among the row's records, from 1
  std::uint32_t begin = 0;   ///< its first unit
  std::uint32_t rest = 0;    ///< units after it that are left empty
  /// If it is the first one that comes of its row: it leaves the `begin` units before it empty.
  bool starts_row = true;
};
void SetPackedPlace(const PackedPlace& place, FieldLocation* locations);
PackedPlace PackedPlaceOf(const FieldLocation* locations);

}  // namespace ringfeed
