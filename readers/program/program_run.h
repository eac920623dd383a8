#pragma once

#include <map>
#include <string>
#include <vector>

#include "readers/program/program_tree.h"
#include "ringfeed/compat/program.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/stats.h"

namespace ringfeed {

using ProgramFunctions = std::map<std::string, FeedProgram::Function>;

/// Creates the readers that `scope` does not hold yet. Throws Error as FeedProgram::RunStartup.
void RunStartup(const ProgramTree& program, Scope* scope);
/// Runs main; adds to `closed` what each reader that it closed had met. Throws as
/// FeedProgram::RunMain, whose checks have been done.
void RunMain(const ProgramTree& program, const ProgramFunctions& functions, Scope* scope,
             std::vector<PipelineStats>* closed);

}  // namespace ringfeed
