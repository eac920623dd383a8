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

/// A field of a text record: numbers of one type, or, ragged uint8, the bytes of a string.
struct TextField : FieldRow {
  Shape shape;
  ReadElement read = nullptr;  ///< null for a string, and for bool
  bool text = false;
};

/// `what` names the parser in messages. Throws Error(kInvalidArgument) if text has no such field.
TextField MakeTextField(std::string_view what, const FieldSpec& spec,
                        const std::optional<FeatureDefault>& missing);

/// Bytes from a record as a message can show them: quoted, shortened, without control characters.
std::string Shown(std::string_view text);

}  // namespace ringfeed
