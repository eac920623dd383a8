#include "readers/formats/data_set.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

#include "base/utf8.h"
#include "readers/formats/data_set_table.h"
#include "readers/formats/file_hash.h"
#include "readers/formats/litdata/litdata.h"
#include "readers/formats/mds/mds.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

/// A format's table: its name, what its text gives as files, none if it is not that format's, and
/// what it says of one of them, nothing if it does not list it. It is written, if it is, of files
/// that are named in the folder.
struct DataSetTable {
  std::string_view name;
  Status (*read)(const std::string& table, const std::string& text,
                 std::vector<std::string>* files);
  Status (*find)(const std::string& table, const std::string& name, ListedFile* listed);
  std::string_view format{};
  Status (*write)(const std::string& table, const std::vector<std::string>& files) = nullptr;
};
constexpr DataSetTable kDataSetTables[] = {
    {"index.json", ReadMdsTable, FindListedShard, "mds", WriteMdsTable},
    {"index.json", ReadLitDataTable, FindListedChunk}};

/// That is written for files of the format; null if none is.
const DataSetTable* TableOf(std::string_view format) {
  const auto* const kind =
      std::find_if(std::begin(kDataSetTables), std::end(kDataSetTables),
                   [&](const DataSetTable& table) { return table.format == format; });
  return kind == std::end(kDataSetTables) || format.empty() ? nullptr : kind;
}

}  // namespace

bool IsTableName(std::string_view file) {
  const std::string_view last = file.substr(file.rfind('/') + 1);
  return std::any_of(std::begin(kDataSetTables), std::end(kDataSetTables),
                     [&](const DataSetTable& table) { return table.name == last; });
}

Status FindDataSet(const std::string& file, std::vector<std::string>* files) {
  files->clear();
  std::error_code missing;
  const bool is_folder = fs::is_directory(file, missing);
  for (const DataSetTable& table : kDataSetTables) {
    const fs::path path = is_folder ? fs::path(file) / table.name : fs::path(file);
    if (path.filename() != table.name || !fs::is_regular_file(path, missing)) continue;
    return ReadDataSet(path.string(), files);
  }
  return {};
}

Status ReadDataSet(const std::string& table, std::vector<std::string>* files) {
  files->clear();
  std::string text;
  Status status = ReadDataSetTable(table, &text);
  for (const DataSetTable& kind : kDataSetTables) {
    if (!status.ok() || !files->empty()) break;
    if (table.ends_with(kind.name)) status = kind.read(table, text, files);
  }
  if (!status.ok()) return status;
  std::vector<std::string> sorted = *files;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return {};
  files->clear();
  return BadTable(table, StatusCode::kDamaged, "names a file twice: \"" + *twice + "\"");
}

Status CheckNewDataSet(std::string_view format, const std::string& folder,
                       std::span<const std::string> names,
                       const std::function<bool(const std::string&)>& is_ours) {
  const DataSetTable* const kind = TableOf(format);
  if (kind == nullptr) return {};
  const std::string table = (fs::path(folder) / kind->name).string();
  const auto refuse = [&](const std::string& why) {
    return Status(StatusCode::kInvalidArgument, why, {table, -1, -1});
  };
  for (const std::string& name : names) {
    if (!IsUtf8(name)) return refuse("it can have no name that is no UTF-8: \"" + name + "\"");
  }
  std::error_code missing;
  if (!fs::exists(table, missing)) return {};
  std::vector<std::string> listed;
  Status status = ReadDataSet(table, &listed);
  if (!status.ok()) return status;
  const auto is_other = [&](const std::string& file) {
    return !is_ours(fs::path(file).lexically_relative(fs::path(table).parent_path()).string());
  };
  if (!listed.empty() && std::none_of(listed.begin(), listed.end(), is_other)) return {};
  return refuse(
      "it is the index of other files, and is left as it is: write to a folder of its own");
}

Status WriteDataSet(std::string_view format, std::span<const std::string> files) {
  const DataSetTable* const kind = TableOf(format);
  if (kind == nullptr || files.empty()) return {};
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(fs::path(file).filename().string());
  const std::string folder = fs::path(files.front()).parent_path().string();
  Status status = CheckNewDataSet(format, folder, names, [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  });
  return status.ok() ? kind->write((fs::path(folder) / kind->name).string(), names) : status;
}

Status CheckListed(const std::string& file, std::uint64_t records) {
  const fs::path path(file);
  std::error_code missing;
  ListedFile listed;
  for (const DataSetTable& table : kDataSetTables) {
    const fs::path beside = path.parent_path() / table.name;
    if (!fs::is_regular_file(beside, missing)) continue;
    Status status = table.find(beside.string(), path.filename().string(), &listed);
    if (!status.ok()) return status;
  }
  const auto differs = [&](const std::string& has, const std::string& said) {
    return Status(StatusCode::kDamaged, "it has " + has + ", its data set's index says " + said,
                  {file, -1, -1});
  };
  const std::uint64_t bytes = fs::file_size(path, missing);
  if (listed.records && *listed.records != records) {
    return differs(std::to_string(records) + " records", std::to_string(*listed.records));
  }
  if (listed.bytes && *listed.bytes != bytes) {
    return differs(std::to_string(bytes) + " bytes", std::to_string(*listed.bytes));
  }
  for (const auto& [name, said] : listed.hashes) {
    std::string hex;
    Status status = HashFile(file, name, &hex);
    if (!status.ok()) return status;
    if (!hex.empty() && hex != said) return differs("the " + name + " " + hex, said);
  }
  return {};
}

}  // namespace ringfeed
