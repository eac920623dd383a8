#pragma once

#include <memory>
#include <vector>

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// One subcommand: declares its options, then runs with what was parsed into them.
class Command {
 public:
  virtual ~Command() = default;
  /// Adds the subcommand to `app` and returns it.
  virtual CLI::App* Declare(CLI::App* app) = 0;
  /// Returns an ExitStatus; an Error thrown from here is a failed set-up.
  virtual int Run() = 0;
};

std::unique_ptr<Command> NewAuditCommand();
std::unique_ptr<Command> NewBenchCommand();
std::unique_ptr<Command> NewCatCommand();
std::unique_ptr<Command> NewConvertCommand();
std::unique_ptr<Command> NewDecodeCommand();
std::unique_ptr<Command> NewDevicesCommand();
std::unique_ptr<Command> NewDigestCommand();
std::unique_ptr<Command> NewEncodeCommand();
std::unique_ptr<Command> NewFeedCommand();
std::unique_ptr<Command> NewIndexCommand();
std::unique_ptr<Command> NewInfoCommand();
std::unique_ptr<Command> NewMakeCommand();
std::unique_ptr<Command> NewRunCommand();
std::unique_ptr<Command> NewShuffleQualityCommand();
std::unique_ptr<Command> NewVerifyCommand();

}  // namespace ringfeed::tools
