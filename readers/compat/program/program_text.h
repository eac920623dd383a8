#pragma once

#include <string>

#include "readers/compat/program/program_tree.h"

namespace ringfeed {

/// Takes the text of a program apart. Throws Error(kInvalidArgument) where it is none: the message
/// begins with NAME:LINE:COLUMN and names the field, what was expected and what was found.
ProgramTree ParseProgram(const std::string& text, const std::string& name);

}  // namespace ringfeed
