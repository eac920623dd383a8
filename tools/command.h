#pragma once

#include <memory>
#include <string>

#include "ringfeed/status.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// The meaning of the command's exit status. An interface: scripts depend on the numbers.
enum ExitStatus : int {
  kExitFine = 0,
  kExitData = 1,   ///< damage was met, the data failed, or the output could not be written
  kExitUsage = 2,  ///< an option, a name or the system's set-up does not allow the run
};

/// For a run that ended with `status`: names, rights and options are usage, all else is data.
ExitStatus ExitStatusOf(const Status& status);

/// Throw it if options, names and the files of those names do not fit together.
Error Refuse(const std::string& why);

/// Throw it if a file that was named for output and opened could not be written: the command ends
/// with kExitData, as if stdout could not be written.
class OutputError : public Error {
 public:
  using Error::Error;
};

/// Tells a failure on stderr; nothing of OK.
void TellFailure(const Status& status);

/// Call it at the start of the program. It makes sure that the descriptors 0, 1 and 2 are taken:
/// otherwise a file that is opened could get the number of a standard stream that the caller
/// closed, and a report would be written into it. A closed stream stays unreadable and unwritable.
/// Output that goes to no terminal is buffered.
void PrepareStandardStreams();

/// Hands everything printed so far to the system. Returns the first failure, again at each call:
/// what was printed then or later is lost.
Status FlushOutput();

/// Call it after telling FlushOutput's failure on stderr, so that it is told only once.
void OutputFailureIsTold();

/// The exit status of the whole command, which was `exit_status` so far: kExitData if its standard
/// output could not be written. Tells why, on stderr.
int ExitStatusWithOutput(int exit_status);

/// One subcommand: declares its options, then runs with the parsed values.
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
std::unique_ptr<Command> NewCacheCommand();
std::unique_ptr<Command> NewCatCommand();
std::unique_ptr<Command> NewConvertCommand();
std::unique_ptr<Command> NewDecodeCommand();
std::unique_ptr<Command> NewDevicesCommand();
std::unique_ptr<Command> NewDigestCommand();
std::unique_ptr<Command> NewEncodeCommand();
std::unique_ptr<Command> NewFeedCommand();
std::unique_ptr<Command> NewIndexCommand();
std::unique_ptr<Command> NewPlanCommand();
std::unique_ptr<Command> NewWhichCommand();
std::unique_ptr<Command> NewInfoCommand();
std::unique_ptr<Command> NewMakeCommand();
std::unique_ptr<Command> NewRunCommand();
std::unique_ptr<Command> NewShuffleQualityCommand();
std::unique_ptr<Command> NewSubsetCommand();
std::unique_ptr<Command> NewTopCommand();
std::unique_ptr<Command> NewTraceCommand();
std::unique_ptr<Command> NewTuneCommand();
std::unique_ptr<Command> NewVerifyCommand();

}  // namespace ringfeed::tools
