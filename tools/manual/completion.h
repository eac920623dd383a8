#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// Scripts that complete subcommands, options and their values in a shell; else names of files.
std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);
std::string FishCompletion(const CLI::App& app);

}  // namespace ringfeed::tools
