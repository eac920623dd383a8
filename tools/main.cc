#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
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
#include "tools/command_line.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

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

// Parses all of the text.
template <typename Number>
bool Parse(std::string_view text, Number* number) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *number);
  return result.ec == std::errc() && result.ptr == end;
}

// The option's own conversion, which follows, would read it as octal.
bool HasNeedlessZero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

std::string NotUnsigned(const std::string& text) {
  std::uint64_t number = 0;
  if (Parse(text, &number) && !HasNeedlessZero(text)) return {};
  return "\"" + text +
         "\" is no number from 0 to 18446744073709551615 in decimal digits without zeros in front";
}

std::string NotSigned(const std::string& text) {
  std::int64_t number = 0;
  if (Parse(text, &number) && !HasNeedlessZero(text)) return {};
  return "\"" + text + "\" is no whole number in decimal digits without zeros in front";
}

std::string NotFraction(const std::string& text) {
  double number = 0;
  if (Parse(text, &number) && std::isfinite(number)) return {};
  return "\"" + text + "\" is no number in decimal digits";
}

void Take(CLI::Option* option) {
  const std::string type = option->get_type_name();
  if (type.starts_with("UINT")) {
    option->check(CLI::Validator(NotUnsigned, ""));
  } else if (type.starts_with("INT")) {
    option->check(CLI::Validator(NotSigned, ""));
  } else if (type.starts_with("FLOAT")) {
    option->check(CLI::Validator(NotFraction, ""));
  }
}

// Makes every option of a number take it as written in decimal digits, or refuse it: without this
// "010" would be eight, and "-1" the largest number of an option that has no sign.
void TakeNumbersAsWritten(CLI::App* app) {
  for (CLI::Option* option : app->get_options([](const CLI::Option*) { return true; })) {
    Take(option);
  }
  for (CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    TakeNumbersAsWritten(command);
  }
}

int RunMain(int argc, char** argv) {
#if RINGFEED_WITH_CUDA
  UseCuda();
#endif
#if RINGFEED_WITH_METRICS
  UseMetrics();
#endif
  CLI::App app("", "ringfeed");
  app.failure_message(UsageText);
  const std::vector<DeclaredCommand> commands = DeclareCommands(&app);
  TakeNumbersAsWritten(&app);
  try {
    const std::vector<const char*> words = Words(argc, argv);
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitFine : kExitUsage;
  }
  for (const auto& [sub, command] : commands) {
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
