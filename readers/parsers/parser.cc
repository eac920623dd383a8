#include "readers/parsers/parser.h"

namespace ringfeed {

std::size_t FindRaggedField(const Parser& parser, const std::string& name, const std::string& who) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Status(StatusCode::kInvalidArgument, who + ": " + why));
  };
  std::string names;
  for (std::size_t f = 0; f < parser.fields().size(); ++f) {
    const FieldSpec& field = parser.fields()[f];
    if (parser.role(f) == FieldRole::kLodLevel) continue;
    names += (names.empty() ? "" : ", ") + field.name;
    if (field.name != name) continue;
    if (parser.role(f) == FieldRole::kLodValues) {
      refuse("field \"" + name + "\" has levels of LoD: its sequences are not rows");
    }
    if (!field.ragged()) {
      refuse("field \"" + name + "\" is " + ShapeToString(field.shape) +
             ", not ragged: its first dimension must be -1");
    }
    return f;
  }
  refuse("there is no field \"" + name + "\"; the chain has " + names);
  return 0;
}

}  // namespace ringfeed
