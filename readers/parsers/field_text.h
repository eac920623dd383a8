#pragma once

#include <span>
#include <string>
#include <string_view>

#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {

/// A field as ParserFromText takes it: "tokens=i8[]", with a default "tokens=i8[]?0".
std::string FieldText(const FeatureSpec& field);

/// The feature of that name; null if there is none.
template <typename Spec>
const Spec* FindSpec(std::span<const Spec> specs, std::string_view name) {
  for (const Spec& spec : specs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

}  // namespace ringfeed
