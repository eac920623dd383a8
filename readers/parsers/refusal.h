#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Why a parser refuses a record, to tell whether it refuses others for the same reason.
struct Refusal {
  std::string reason;   ///< without what only this record has: its numbers, its texts
  std::string message;  ///< for the user
};

/// From a failure's message: digits, and quoted texts that are no field's name, are the record's.
Refusal RefusalOf(const Status& why, std::span<const FieldSpec> fields);

/// `what` (feature "labl") is missing in a record, which has these names.
Refusal MissingName(const std::string& what, std::string_view name,
                    std::span<const std::string> names);

}  // namespace ringfeed
