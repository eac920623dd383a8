#include "tools/manual/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace ringfeed::tools {
namespace {

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// An option as shells see it.
struct Completed {
  std::vector<std::string> names;  ///< with their dashes
  std::string values;              ///< words with blanks between them; "": not known
  std::string what;                ///< in few words
  bool takes_value = false;
};

// Up to the first point, colon or semicolon, of letters that no shell takes for its own.
std::string Brief(const std::string& description) {
  std::string brief = description.substr(0, description.find_first_of(".:;\n"));
  std::erase_if(brief, [](char c) {
    return std::string_view("'\"`[]$\\()").find(c) != std::string_view::npos;
  });
  return brief;
}

// Of a type such as "fail|skip": the words without capitals.
std::string ValuesOf(const std::string& type) {
  std::istringstream words(type);
  std::string values;
  for (std::string word; type.find('|') != std::string::npos && std::getline(words, word, '|');) {
    const bool is_kind = std::ranges::any_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (!is_kind) values += (values.empty() ? "" : " ") + word;
  }
  return values;
}

std::vector<Completed> OptionsOf(const CLI::App& command) {
  std::vector<Completed> options;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty() || !option->nonpositional()) continue;
    Completed completed;
    for (const std::string& name : option->get_snames()) completed.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) completed.names.push_back("--" + name);
    completed.takes_value = option->get_type_size() != 0;
    if (completed.takes_value) completed.values = ValuesOf(option->get_type_name());
    completed.what = Brief(option->get_description());
    options.push_back(std::move(completed));
  }
  return options;
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::string names;
  std::string values;
  std::string options;
  for (const CLI::App* command : Commands(app)) {
    names += command->get_name() + " ";
    std::string of_command;
    for (const Completed& option : OptionsOf(*command)) {
      for (const std::string& name : option.names) {
        of_command += name + " ";
        if (option.values.empty()) continue;
        values +=
            "    '" + command->get_name() + " " + name + "') words='" + option.values + "';;\n";
      }
    }
    options += "      " + command->get_name() + ") words='" + of_command + "';;\n";
  }
  return R"(# Completion of ringfeed for bash.
_ringfeed() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=''
  if [ "$cur" = '=' ]; then cur=''; elif [ "$prev" = '=' ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  case "${COMP_WORDS[1]} $prev" in
)" + values +
         R"(    *) case "$cur" in -*) case "${COMP_WORDS[1]}" in
)" + options +
         R"(    esac;; esac;;
  esac
  if [ "$COMP_CWORD" = 1 ]; then words=')" +
         names + R"(--help --help-all --version'; fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _ringfeed ringfeed
)";
}

std::string ZshCompletion(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : Commands(app)) {
    names += "    '" + command->get_name() + ":" + Brief(command->get_description()) + "'\n";
    cases += "    " + command->get_name() + ") _arguments \\\n";
    for (const Completed& option : OptionsOf(*command)) {
      const std::string value = option.values.empty() ? "_files" : "(" + option.values + ")";
      for (const std::string& name : option.names) {
        cases += "      '" + name + "[" + option.what + "]" +
                 (option.takes_value ? ":value:" + value : "") + "' \\\n";
      }
    }
    cases += "      '*:file:_files';;\n";
  }
  return "#compdef ringfeed\n# Completion of ringfeed for zsh.\n_ringfeed() {\n  local -a "
         "commands=(\n" +
         names + R"(  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
)" + cases +
         R"(  esac
}
_ringfeed "$@"
)";
}

std::string FishCompletion(const CLI::App& app) {
  std::string text = "# Completion of ringfeed for fish.\n";
  for (const CLI::App* command : Commands(app)) {
    text += "complete -c ringfeed -n __fish_use_subcommand -f -a " + command->get_name() + " -d '" +
            Brief(command->get_description()) + "'\n";
    for (const Completed& option : OptionsOf(*command)) {
      text += "complete -c ringfeed -n '__fish_seen_subcommand_from " + command->get_name() + "'";
      for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.values.empty()) {
        text += " -x -a '" + option.values + "'";
      } else if (option.takes_value) {
        text += " -r";
      }
      text += " -d '" + option.what + "'\n";
    }
  }
  return text;
}

}  // namespace ringfeed::tools
