#include "tools/manual/manual_page.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <sstream>

#include "tools/command_line.h"

namespace ringfeed::tools {
namespace {

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    const bool begins = escaped.empty() || escaped.back() == '\n';
    if (begins && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '-') escaped += '\\';
    escaped += c == '\\' ? "\\e" : std::string(1, c);
  }
  return escaped;
}

// Lines that begin with a blank stay as they are, others are filled.
std::string Body(const std::string& description) {
  std::istringstream lines(description);
  std::string body;
  bool as_it_is = false;
  for (std::string line; std::getline(lines, line);) {
    std::erase(line, kMoreText);
    if (as_it_is != line.starts_with(' ')) body += as_it_is ? ".fi\n" : ".nf\n";
    as_it_is = line.starts_with(' ');
    body += line.empty() ? ".PP\n" : Escaped(line) + "\n";
  }
  return body + (as_it_is ? ".fi\n" : "");
}

std::string Item(const std::string& name, const std::string& value, const std::string& text) {
  return ".TP\n\\fB" + Escaped(name) + "\\fR" + (value.empty() ? "" : " " + Escaped(value)) + "\n" +
         Escaped(text) + "\n";
}

std::string Options(const CLI::App& app) {
  std::string options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const bool named = option->nonpositional();
    std::string value = option->get_type_size() == 0 ? "" : option->get_type_name();
    if (!option->get_default_str().empty()) value += "=" + option->get_default_str();
    options += Item(option->get_name(!named, named), value, option->get_description());
  }
  return options;
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string ManualPage(const CLI::App& app) {
  const bool is_whole = app.get_parent() == nullptr;
  const std::string name = is_whole ? "ringfeed" : "ringfeed-" + app.get_name();
  const std::string& description = app.get_description();
  std::string page =
      ".TH " + Upper(name) + " 1 \"\" \"ringfeed " RINGFEED_VERSION "\"\n.SH NAME\n" +
      Escaped(name) + " \\- " + Escaped(SummaryOf(app)) + "\n.SH SYNOPSIS\n.B ringfeed " +
      Escaped(is_whole ? "COMMAND" : app.get_name()) + "\n[OPTIONS] ...\n.SH DESCRIPTION\n" +
      Body(description) + ".SH OPTIONS\n" + Options(app);
  std::string others = "ringfeed(1)";
  if (is_whole) {
    others.clear();
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
      others += (others.empty() ? "" : ", ") + Escaped("ringfeed-" + sub->get_name()) + "(1)";
    }
  }
  return page + ".SH SEE ALSO\n" + others + "\n";
}

}  // namespace ringfeed::tools
