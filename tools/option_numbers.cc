#include "tools/option_numbers.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

namespace ringfeed::tools {
namespace {

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

}  // namespace

void TakeNumbersAsWritten(CLI::App* app) {
  for (CLI::Option* option : app->get_options([](const CLI::Option*) { return true; })) {
    Take(option);
  }
  for (CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    TakeNumbersAsWritten(command);
  }
}

}  // namespace ringfeed::tools
