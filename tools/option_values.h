#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/byte_size.h"
#include "base/edit_distance.h"
#include "ringfeed/record.h"

namespace ringfeed::tools {

/// The values of an option --format.
inline constexpr char kFormatText[] =
    "tfrecord, recordio, ofrecord, tar, npy, tokens, megatron, lines, jsonl, csv, tsv, rows:BYTES "
    "or raw, "
    "some with parameters after a colon, or +gzip, +zlib, +zstd; default: found by content or "
    "name";

/// The values of an option --parse.
inline constexpr char kParseText[] =
    "records into fields: raw | 'rows: f4[13] i4' | 'example: image=u1[] label=i8[1]' | "
    "'sequence: id=i8 | tokens=i8[]' | "
    "'ofrecord: encoded=u1[] class/label=i4' | 'jsonl: id=i8 text=u1[]' | "
    "'lod: image=f4[,784] words=i8[,1]/1' | 'instance: image=f4[,784] words=i8[,1]/1' | 'tokens: "
    "u2[1024] as i8' | 'tar: jpg=u1[] cls=i8' | "
    "'csv: -header=id,x x=f8'";

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

inline constexpr char kOnDamageText[] =
    "fail: stop at the first damage, after all records before it; skip: note its bytes and go on "
    "at the next intact record";

inline constexpr char kStrictText[] =
    "what is only warned of, such as a tar archive without its end, is a failure";

/// Adds --on-damage=fail|skip, described by `what`; its present value is the default.
inline void AddDamageOption(CLI::App* app, OnDamage* on_damage,
                            const std::string& what = kOnDamageText) {
  static const std::map<std::string, OnDamage> kPolicies = {{"fail", OnDamage::kFail},
                                                            {"skip", OnDamage::kSkip}};
  app->add_option("--on-damage", *on_damage, what)
      ->transform(NamedValue(kPolicies))
      ->type_name("fail|skip")
      ->default_str(*on_damage == OnDamage::kFail ? "fail" : "skip");
}

}  // namespace ringfeed::tools
