#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// What a table says of a file.
struct ListedFile {
  std::optional<std::uint64_t> records{};
  std::optional<std::uint64_t> bytes{};
  std::vector<std::pair<std::string, std::string>> hashes{};  ///< HashFile's name, and in hex
};

/// Reads the table of a data set of many files, a path or an address. Blocks.
Status ReadDataSetTable(const std::string& table, std::string* text);
/// A failure of that table.
Status BadTable(const std::string& table, StatusCode code, const std::string& why);
/// The path or address of a file that the table names.
std::string NameBeside(const std::string& table, const std::filesystem::path& name);
/// Whether a name in a table leads to a file below its folder.
bool LeadsBelow(const std::filesystem::path& name);

}  // namespace ringfeed
