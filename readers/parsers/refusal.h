#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Why a parser refuses a record, so that it can be told whether it refuses others for the same
/// reason.
struct Refusal {
  std::string reason;   ///< without what is this record's alone: its numbers, its texts
  std::string message;  ///< for the user
};

/// Of a failure's message: digits, and texts in quotes that are no field's name, are the record's.
Refusal RefusalOf(const Status& why, std::span<const FieldSpec> fields);

/// `what` (feature "labl") is in no record so, and these are the names that there are.
Refusal MissingName(const std::string& what, std::string_view name,
                    std::span<const std::string> names);

}  // namespace ringfeed
