#include "readers/parsers/refusal.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/edit_distance.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostShown = 100;  // bytes of a name
constexpr std::size_t kMostNamed = 10;   // names in a message

bool IsName(std::string_view text, std::span<const FieldSpec> fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const FieldSpec& field) { return field.name == text; });
}

}  // namespace

Refusal RefusalOf(const Status& why, std::span<const FieldSpec> fields) {
  Refusal refusal{{}, why.message()};
  const std::string_view text = refusal.message;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const std::size_t end = c == '"' ? text.find('"', at + 1) : std::string_view::npos;
    if (end != std::string_view::npos && !IsName(text.substr(at + 1, end - at - 1), fields)) {
      refusal.reason += "\"\"";
      at = end;
    } else if (end != std::string_view::npos) {
      refusal.reason += text.substr(at, end - at + 1);
      at = end;
    } else if (c < '0' || c > '9') {
      refusal.reason += c;
    }
  }
  return refusal;
}

Refusal MissingName(const std::string& what, std::string_view name,
                    std::span<const std::string> names) {
  Refusal refusal{what + " is missing", what + " is missing"};
  const std::string* const nearest = NearestName(name, names);
  if (nearest == nullptr) {
    refusal.message += ", and the record has no names at all";
    return refusal;
  }
  refusal.message += "; the nearest name there is: \"" + *nearest + "\" (of";
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    refusal.message += " \"" + names[i].substr(0, kMostShown) + "\"";
  }
  refusal.message += names.size() > kMostNamed ? " …)" : ")";
  return refusal;
}

}  // namespace ringfeed
