#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

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
  commands.push_back(NewCacheCommand());
  commands.push_back(NewIndexCommand());
  commands.push_back(NewPlanCommand());
  commands.push_back(NewWhichCommand());
  commands.push_back(NewSubsetCommand());
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

constexpr std::size_t kColumn = 34;
constexpr std::size_t kWidth = 100;

// Broken at blanks, so that a line with `indent` in front of it fits.
std::string Wrapped(const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::string wrapped;
  std::size_t column = indent;
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      wrapped += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      wrapped += " ";
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped;
}

/// What is asked for most fits a screen or two; the rest is shown by --help-all.
class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string description = app->get_description();
    const std::size_t more = description.find(kMoreText);
    if (more != std::string::npos) {
      description.erase(more, mode == CLI::AppFormatMode::Normal ? std::string::npos : 1);
    }
    return description + "\n" + make_usage(app, name) + make_positionals(app) + Groups(app, mode) +
           make_subcommands(app, CLI::AppFormatMode::Normal);
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string name =
        "  " + make_option_name(option, is_positional) + make_option_opts(option);
    const std::string gap = name.size() < kColumn ? std::string(kColumn - name.size(), ' ')
                                                  : "\n" + std::string(kColumn, ' ');
    return name + gap + Wrapped(make_option_desc(option), kColumn) + "\n";
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::string line = "  " + command->get_name();
    line.resize(kColumn, ' ');
    return line + Wrapped(SummaryOf(*command), kColumn) + "\n";
  }

 private:
  std::string Groups(const CLI::App* app, CLI::AppFormatMode mode) const {
    std::string text;
    for (const std::string& group : app->get_groups()) {
      const std::vector<const CLI::Option*> options =
          app->get_options([&](const CLI::Option* option) {
            return option->get_group() == group && option->nonpositional();
          });
      if (group.empty() || options.empty()) continue;
      if (group != kMoreOptions || mode != CLI::AppFormatMode::Normal) {
        text += make_group(group, false, options);
      } else {
        text += "\n--help-all shows " + std::to_string(options.size()) + " more options.\n";
      }
    }
    return text;
  }
};

// Those of a feed that few need. A command with few options shows all of them.
void LeaveToHelpAll(CLI::App* command) {
  constexpr std::size_t kMany = 16;
  std::istringstream seldom(
      "--arena --block-bytes --cache-bytes --columns --cycle --device-slots --digest --direct "
      "--distribution "
      "--drop-remainder --epoch --in-flight-bytes --io --last-step --max-batches "
      "--max-damaged --max-record-bytes --no-digest --nulls --pairs --position-every --position-in "
      "--position-out --rank --ranks --reopen-until --shuffle-mode --slots "
      "--split-by-files --step-ms --strict --stripe-bytes --threads --trace --transfer "
      "--transfer-costs --tuned");
  if (command->get_options().size() < kMany) return;
  for (std::string name; seldom >> name;) {
    CLI::Option* const option = command->get_option_no_throw(name);
    if (option != nullptr) option->group(kMoreOptions);
  }
}

}  // namespace

std::string SummaryOf(const CLI::App& app) {
  const std::string description = app.get_description();
  std::size_t end = description.find_first_of(":\n");
  end = std::min(end, description.find(". "));
  std::string summary = Wrapped(description.substr(0, end), 0);
  if (summary.ends_with('.')) summary.pop_back();
  return summary;
}

std::vector<DeclaredCommand> DeclareCommands(CLI::App* app) {
  app->description(kMainHelp);
  app->require_subcommand(1);
  app->set_version_flag("--version", RINGFEED_VERSION);
  app->set_help_flag("-h,--help", "the usual options");
  app->set_help_all_flag("--help-all", "all options, and what they mean together");
  app->formatter(std::make_shared<HelpText>());
  std::vector<DeclaredCommand> commands;
  for (auto& command : AllCommands()) {
    CLI::App* const sub = command->Declare(app);
    LeaveToHelpAll(sub);
    commands.emplace_back(sub, std::move(command));
  }
  return commands;
}

}  // namespace ringfeed::tools
