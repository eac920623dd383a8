#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringfeed/compat/registry.h"

namespace ringfeed {

/// One reader that the startup creates.
struct Creation {
  std::string place;   ///< "FILE:LINE:COLUMN: KIND"
  std::string reader;  ///< its kind, as registered
  std::string name;
  std::vector<std::string> inputs;
  Attributes attributes;
};

/// One operation of main, by the fields that program.proto has for it.
struct Step {
  std::string place;      ///< "FILE:LINE:COLUMN: OPERATION"
  std::string operation;  ///< "read"
  /// Each field of names and a name in it, in the order of the language.
  std::vector<std::pair<std::string, std::string>> names;
  std::int64_t number = 0;  ///< value, by or count
  std::vector<Step> body;   ///< of a loop, or of a branch if its condition is true
  std::vector<Step> other;  ///< of a branch if it is not

  /// The names in a field.
  std::vector<std::string> NamesOf(std::string_view field) const;
  /// The first one; null if there is none.
  const std::string* FindName(std::string_view field) const;
  /// The name in a field that must have one.
  const std::string& Name(std::string_view field) const { return *FindName(field); }
};

/// A program's text, taken apart.
struct ProgramTree {
  std::vector<Creation> startup;
  std::vector<Step> main;
};

/// Takes the text of a program apart. Throws Error(kInvalidArgument) if it is none: the message
/// begins with NAME:LINE:COLUMN and names the field, what was expected and what was found.
ProgramTree ParseProgram(const std::string& text, const std::string& name);

}  // namespace ringfeed
