#pragma once

#include <functional>
#include <string>

#include "readers/program/program_tree.h"
#include "ringfeed/compat/scope.h"

namespace ringfeed {

/// Whether main can run on `scope`: its readers are there and have as many tensors as their
/// outputs, its functions are known, and each variable is in the scope or set by a step before.
/// (Steps of loops and branches count as done for those behind them; where they were not, the step
/// that needs the variable fails.) Throws Error at the first step that cannot.
void CheckMain(const ProgramTree& program, const Scope& scope,
               const std::function<bool(const std::string&)>& is_function);

}  // namespace ringfeed
