#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/command.h"

namespace ringfeed::tools {

/// The group of options that `--help` leaves to `--help-all`.
inline constexpr char kMoreOptions[] = "More options";

/// Stands in a description before what `--help` leaves to `--help-all`.
inline constexpr char kMoreText = '\f';

using DeclaredCommand = std::pair<CLI::App*, std::unique_ptr<Command>>;

/// What a command does, in a line: its description up to the first point or colon.
std::string SummaryOf(const CLI::App& app);

/// Declares all subcommands and the options that they share; `app` is the command's.
std::vector<DeclaredCommand> DeclareCommands(CLI::App* app);

}  // namespace ringfeed::tools
