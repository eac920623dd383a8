#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "readers/parsers/field_row.h"
#include "ringfeed/parsers.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Reads a number at the front of [first, last) to `to`. Returns its end; null if there is none, or
/// none that the type can hold.
using ReadElement = const char* (*)(const char* first, const char* last, std::byte* to);

/// Floating types take the nearest value, also of "inf", "infinity" and "nan"; integers their
/// digits. Null for a type that text has no numbers of.
ReadElement ReaderOf(DType dtype);

/// The same for a truth value in CSV, as pandas.read_csv has it: 0 or 1, or true or false in any
/// case.
const char* ReadTruth(const char* first, const char* last, std::byte* to);
/// Whether a cell of CSV says that its value is missing: the default of pandas.read_csv's na_values
/// (pandas 2.2), but for the empty text.
bool IsMissing(std::string_view cell);

/// A field of a text record: numbers of one type, or, ragged uint8, the bytes of a string.
struct TextField : FieldRow {
  Shape shape;
  ReadElement read = nullptr;  ///< null for strings, and for types that text has no numbers of
  bool text = false;           ///< a string, or
  bool strings = false;        ///< a list of them, uint8 of shape [-1, -1]
};

/// `what` names the parser in messages. Throws Error(kInvalidArgument) if text has no such field;
/// with `any_type` its type may be any.
TextField MakeTextField(std::string_view what, const FieldSpec& spec,
                        const std::optional<FeatureDefault>& missing, bool any_type = false);

/// Bytes from a record as a message can show them: quoted, shortened, without control characters.
std::string Shown(std::string_view text);

}  // namespace ringfeed
