#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace ringfeed::tools {

/// Takes "4096", "512KiB", "2G", … for an option of bytes; all units are powers of 1024.
inline CLI::Validator SizeValue() {
  return CLI::Validator(CLI::AsSizeValue(false)).description("");
}

/// Takes one of the names, for an option of what they stand for.
template <typename Value>
CLI::Validator NamedValue(const std::map<std::string, Value>& names) {
  return CLI::Validator(CLI::CheckedTransformer(names)).description("");
}

}  // namespace ringfeed::tools
