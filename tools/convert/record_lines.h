#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "ringfeed/reader.h"
#include "ringfeed/record.h"
#include "ringfeed/status.h"
#include "tools/file_records.h"
#include "tools/record_numbers.h"

namespace ringfeed::tools {

/// Appends one record without a line end; a failure is damage of that record.
using SpellRecord = std::function<Status(std::span<const std::byte> record, std::string* text)>;

/// Prints a line for each intact record of `file`. Reports damage on stderr, even if it fails or is
/// interrupted later; under kSkip also records that could not be spelled. Returns the ExitStatus.
int PrintRecords(const std::string& file, OnDamage on_damage, FileRecords* records,
                 const SpellRecord& spell);
/// Prints a line for each record of these numbers, in their order: by `spell`, or, without it, as a
/// JSON object of its fields. Reports damage as above.
int PrintNumbered(const Reader& reader, std::span<const NumbersInRow> numbers, OnDamage on_damage,
                  const SpellRecord& spell);
/// Prints each row as a JSON object, and reports damage as above.
int PrintRows(OnDamage on_damage, FileRows* rows);

}  // namespace ringfeed::tools
