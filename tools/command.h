#pragma once

#include <memory>
#include <string>

#include "ringfeed/status.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// What the command's exit status says. An interface: scripts depend on the numbers.
enum ExitStatus : int {
  kExitFine = 0,
  kExitData = 1,   ///< damage was met, the data failed, or the output could not be written
  kExitUsage = 2,  ///< an option, a name or the system's set-up does not allow the run
};

/// Of a run that ended with `status`: names, rights and options are usage, all else is data.
ExitStatus ExitStatusOf(const Status& status);

/// To be thrown where options, names and what stands under them do not go together.
Error Refuse(const std::string& why);

/// To be thrown where a file that was named for output and opened could not be written: the command
/// ends with kExitData, as where stdout could not be.
class OutputError : public Error {
 public:
  using Error::Error;
};

/// Tells a failure on stderr; nothing of OK.
void TellFailure(const Status& status);

/// At the start of the program. Sees to it that the descriptors 0, 1 and 2 are taken: a file that
/// is opened must not get the number of a standard stream that the caller closed, and a report then
/// be written into it. What is closed stays unreadable and unwritable. Buffers what no terminal
/// sees.
void PrepareStandardStreams();

/// Hands what was printed so far to the system. The first failure of all, again at each call: what
/// was printed then or later is lost.
Status FlushOutput();

/// Whoever tells FlushOutput's failure on stderr says so: it is told once.
void OutputFailureIsTold();

/// The exit status of the whole command, which was `exit_status` so far: kExitData where its
/// standard output could not be written. Tells why, on stderr.
int ExitStatusWithOutput(int exit_status);

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
std::unique_ptr<Command> NewTopCommand();
std::unique_ptr<Command> NewTraceCommand();
std::unique_ptr<Command> NewTuneCommand();
std::unique_ptr<Command> NewVerifyCommand();

}  // namespace ringfeed::tools
