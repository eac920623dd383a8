#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/edit_distance.h"
#include "readers/formats/format.h"
#include "readers/parsers/parser.h"
#include "ringfeed/open_options.h"
#include "ringfeed/record.h"

namespace ringfeed::tools {

/// The values of an option --format.
inline std::string FormatText() { return KnownFormats() + "; default: found by content or name"; }
/// The values of an option --parse.
inline std::string ParseText() { return "records into fields: " + ParserExamples(); }

/// Takes "4096", "512KiB", "2G", … for an option of bytes; all units are powers of 1024.
inline CLI::Validator SizeValue() {
  const auto take = [](std::string& word) -> std::string {
    const std::optional<std::size_t> bytes = ParseByteSize(word);
    if (!bytes)
      return "\"" + word + "\" is no size: bytes, or a number with K, KiB, MiB, … after it";
    word = std::to_string(*bytes);
    return {};
  };
  return CLI::Validator(take, "");
}

/// Takes numbers above 0, and rejects others without naming the largest number there is.
inline CLI::Validator AboveZero() {
  return CLI::Validator(
      [](const std::string& word) {
        double number = 0;
        const bool good = CLI::detail::lexical_cast(word, number) && number > 0;
        return good ? std::string() : "\"" + word + "\" is no number above 0";
      },
      "");
}

/// "skp" is none of fail, skip; did you mean skip?
template <typename Value>
std::string NoneOf(const std::string& word, const std::map<std::string, Value>& names) {
  std::vector<std::string> words;
  std::string known;
  for (const auto& [name, value] : names) {
    words.push_back(name);
    known += (known.empty() ? "" : ", ") + name;
  }
  return "\"" + word + "\" is none of " + known + DidYouMean(word, words);
}

/// Takes one of the names, for an option with these values. Refuses any other word with the nearest
/// name.
template <typename Value>
CLI::Validator NamedValue(const std::map<std::string, Value>& names) {
  const auto take = [names](std::string& word) -> std::string {
    const auto found = names.find(word);
    if (found == names.end()) return NoneOf(word, names);
    word = std::to_string(static_cast<std::underlying_type_t<Value>>(found->second));
    return {};
  };
  return CLI::Validator(take, "");
}

/// Adds an option of bytes.
template <typename Bytes>
CLI::Option* AddSize(CLI::App* app, const std::string& name, Bytes* bytes,
                     const std::string& what) {
  return app->add_option(name, *bytes, what)->transform(SizeValue())->type_name("SIZE");
}

/// Adds an option of one of these values, by name; its present value, if it has a name, is the
/// default.
template <typename Value>
CLI::Option* AddChoice(CLI::App* app, const std::string& name, Value* value,
                       const std::vector<std::pair<std::string, Value>>& choices,
                       const std::string& what) {
  std::string names;
  std::string preset;
  for (const auto& [word, choice] : choices) {
    names += (names.empty() ? "" : "|") + word;
    if (choice == *value) preset = word;
  }
  return app->add_option(name, *value, what)
      ->transform(NamedValue(std::map<std::string, Value>(choices.begin(), choices.end())))
      ->type_name(names)
      ->default_str(preset);
}

inline constexpr char kOnDamageText[] =
    "fail: stop at the first damage, after all records before it; skip: note its bytes and go on "
    "at the next intact record";

inline constexpr char kSubsetText[] = "only the records that this file keeps (`ringfeed subset`)";

// Of batches that are planned from lengths.
inline constexpr char kFieldText[] = "the ragged field whose units count; default: the only one";
inline constexpr char kSegmentText[] = "records that are put together; default: 65535";

inline constexpr char kStrictText[] =
    "what is only warned of, such as a tar archive without its end, is a failure";

/// Adds --on-damage=fail|skip, described by `what`; its present value is the default.
inline void AddDamageOption(CLI::App* app, OnDamage* on_damage,
                            const std::string& what = kOnDamageText) {
  AddChoice(app, "--on-damage", on_damage, {{"fail", OnDamage::kFail}, {"skip", OnDamage::kSkip}},
            what);
}

/// Adds --on-damage and --max-record-bytes; the present values are the defaults.
inline void AddRecordOptions(CLI::App* app, OpenOptions* open) {
  AddDamageOption(app, &open->on_damage);
  AddSize(app, "--max-record-bytes", &open->max_record_bytes, "a larger record is a failure")
      ->capture_default_str();
}

}  // namespace ringfeed::tools
