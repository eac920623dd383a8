#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "base/user_call.h"
#include "ringfeed/status.h"
#if RINGFEED_WITH_CUDA
#include "ringfeed/devices/cuda_devices.h"
#endif
#if RINGFEED_WITH_METRICS
#include "ringfeed/metrics.h"
#endif
#include "tools/command.h"
#include "tools/option_numbers.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kMainHelp[] =
    "Record files in, shuffled batches in pinned memory out.\n\n"
    "  ringfeed make data --kind image --bytes 1GiB    something to try things out on\n"
    "  ringfeed info data/*                            what files are, and what this machine can "
    "do\n"
    "  ringfeed devices data/*                         which devices there are, and "
    "what is near\n"
    "  ringfeed feed data/* --batch 64 --shuffle 2000  feed them; where did the time go?\n"
    "  ringfeed audit journal-*                        was every record delivered exactly once?\n"
    "  ringfeed run train.program                      readers and loops as a text says\n"
    "  ringfeed top                                    what do running jobs do?\n"
    "  ringfeed tune data/*                            which options suit them, and this machine\n"
    "  ringfeed bench data/*                           each way to read them, and how fast it is\n"
    "  ringfeed verify data/*                          is every record intact?\n"
    "  ringfeed index data/*                           number their records, for orders by number\n"
    "  ringfeed convert data/* copy/ --to recordio     the same records in another format\n\n"
    "`ringfeed COMMAND --help` says more. Exit status: 0 fine; 1 damage was met, the data failed, "
    "or "
    "the\noutput could not be written; 2 an option, a name or the system does not allow it.";

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(NewMakeCommand());
  commands.push_back(NewInfoCommand());
  commands.push_back(NewDevicesCommand());
  commands.push_back(NewVerifyCommand());
  commands.push_back(NewIndexCommand());
  commands.push_back(NewDigestCommand());
  commands.push_back(NewCatCommand());
  commands.push_back(NewConvertCommand());
  commands.push_back(NewEncodeCommand());
  commands.push_back(NewDecodeCommand());
  commands.push_back(NewFeedCommand());
  commands.push_back(NewAuditCommand());
  commands.push_back(NewRunCommand());
  commands.push_back(NewTopCommand());
  commands.push_back(NewTuneCommand());
  commands.push_back(NewBenchCommand());
  commands.push_back(NewShuffleQualityCommand());
  commands.push_back(NewTraceCommand());
  return commands;
}

int RunCommand(Command* command) {
  try {
    return command->Run();
  } catch (const OutputError& error) {
    TellFailure(error.status());
    return kExitData;
  } catch (const Error& error) {
    TellFailure(error.status());
    return error.status().code() == StatusCode::kDamaged ? kExitData : kExitUsage;
  } catch (const std::system_error& error) {
    // The standard library's message for a thread that cannot be started names no subject.
    const bool of_thread = error.code() == std::errc::resource_unavailable_try_again;
    std::fprintf(stderr, "ringfeed: %s%s\n", of_thread ? "start a thread: " : "", error.what());
    return kExitUsage;
  } catch (const std::bad_alloc&) {
    TellFailure(NoMemory());
    return kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringfeed: %s\n", error.what());
    return kExitUsage;
  }
}

// Without memory, and so without stdio: there may be none left even for this message.
int SayLast(std::string_view words) noexcept {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, words.data(), words.size());
  return kExitUsage;
}

constexpr std::string_view kNoMemoryLeft =
    "ringfeed: there is no memory; raise the limit (ulimit -v), or lower the threads\n";

void (*terminate_as_usual)() = nullptr;

// A thread that gets no memory may have no one left to tell, and not even memory to throw.
void Terminate() {
  constexpr std::size_t kToThrow = std::size_t{1} << 16;
  try {
    if (std::current_exception() != nullptr) throw;
    if (malloc(kToThrow) == nullptr) _exit(SayLast(kNoMemoryLeft));
  } catch (const std::bad_alloc&) {
    _exit(SayLast(kNoMemoryLeft));
  } catch (...) {
    // A mistake in the program: ends as usual.
  }
  terminate_as_usual();
}

// Called as recordio_encode or recordio_decode, the command is one of its subcommands.
std::vector<const char*> Words(int argc, char** argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (words.empty()) return words;
  const std::string_view path = words[0];
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name == "recordio_encode") words.insert(words.begin() + 1, "encode");
  if (name == "recordio_decode") words.insert(words.begin() + 1, "decode");
  return words;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Whether `ringfeed tune` tries the values of that option of feed.
bool TuneChooses(const std::string& name) {
  constexpr std::array<std::string_view, 9> kOptions = {
      "--io",    "--direct",       "--no-direct", "--threads", "--block-bytes", "--in-flight-bytes",
      "--slots", "--device-slots", "--transfer"};
  return std::ranges::find(kOptions, name) != kOptions.end();
}

bool IsOption(const CLI::App& app, const std::string& name) {
  const std::vector<std::string> names = OptionNames(app);
  return std::ranges::find(names, name) != names.end();
}

// The error in the words, with a suggestion of the words that were meant.
std::string UsageText(const CLI::App* app, const CLI::Error& error) {
  constexpr char kMore[] = "\nRun with --help for more information.\n";
  const std::vector<std::string> rest = app->remaining(true);
  const std::vector<CLI::App*> chosen = app->get_subcommands();
  if (chosen.empty() && !rest.empty() && !rest.front().starts_with("-")) {
    return "there is no command " + rest.front() + DidYouMean(rest.front(), CommandNames(*app)) +
           kMore;
  }
  const bool unexpected = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const auto option =
      std::ranges::find_if(rest, [](const std::string& word) { return word.starts_with("-"); });
  if (!unexpected || option == rest.end()) return std::string(error.what()) + kMore;
  const CLI::App& command = chosen.empty() ? *app : *chosen.front();
  const std::string name = option->substr(0, option->find('='));
  if (const CLI::App* feed = app->get_subcommand("feed"); IsOption(*feed, name)) {
    const bool tuned = &command == app->get_subcommand("tune") && TuneChooses(name);
    return "there is no option " + name +
           (tuned ? ": tune finds the best value for it, and feed takes it"
                  : " of " + command.get_name() + ": feed takes it") +
           kMore;
  }
  return "there is no option " + name + DidYouMean(name, OptionNames(command)) + kMore;
}

int RunMain(int argc, char** argv) {
#if RINGFEED_WITH_CUDA
  UseCuda();
#endif
#if RINGFEED_WITH_METRICS
  UseMetrics();
#endif
  CLI::App app(kMainHelp, "ringfeed");
  app.require_subcommand(1);
  app.set_version_flag("--version", RINGFEED_VERSION);
  app.get_formatter()->column_width(34);
  app.failure_message(UsageText);
  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands;
  for (auto& command : AllCommands()) {
    CLI::App* sub = command->Declare(&app);
    commands.emplace_back(sub, std::move(command));
  }
  TakeNumbersAsWritten(&app);
  try {
    const std::vector<const char*> words = Words(argc, argv);
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitFine : kExitUsage;
  }
  for (auto& [sub, command] : commands) {
    if (sub->parsed()) return RunCommand(command.get());
  }
  return kExitUsage;
}

}  // namespace
}  // namespace ringfeed::tools

int main(int argc, char** argv) {
  using namespace ringfeed::tools;
  terminate_as_usual = std::set_terminate(Terminate);
  try {
    PrepareStandardStreams();
    return ExitStatusWithOutput(RunMain(argc, argv));
  } catch (const std::bad_alloc&) {
    return SayLast(kNoMemoryLeft);
  } catch (...) {
    return SayLast("ringfeed: it cannot go on\n");  // nothing more can be told
  }
}
