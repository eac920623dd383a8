#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "readers/parsers/parser.h"
#include "ringfeed/instance.h"

namespace ringfeed {

/// In memory in front of a level's values: the 0 that they lack.
inline constexpr std::size_t kLevelLeadBytes = sizeof(std::int64_t);

/// The bytes in front of a field's values: a level's 0, else none.
inline std::size_t LeadBytes(const Parser& parser, std::size_t field) {
  return parser.role(field) == FieldRole::kLodLevel ? kLevelLeadBytes : 0;
}

/// The fields that users see: all but the levels.
std::vector<FieldSpec> TensorFields(const Parser& parser);

/// One tensor for each field, as it stands in memory, to the tensors that users see: levels become
/// the LoD of what they belong to, which keeps their memory alive as well as its own. A level's 0
/// must be there.
Instance JoinLevels(const Parser& parser, Instance columns);

}  // namespace ringfeed
