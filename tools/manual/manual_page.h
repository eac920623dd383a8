#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// The manual page of `app`, in roff: of the command with all subcommands, or of one of these.
std::string ManualPage(const CLI::App& app);

}  // namespace ringfeed::tools
