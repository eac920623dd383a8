#include "readers/formats/data_set.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "readers/formats/litdata/litdata.h"
#include "readers/formats/mds/mds.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

/// A format's table: its name, and what gives its files, none if it is not that format's.
struct DataSetTable {
  std::string_view name;
  Status (*read)(const std::string& table, std::vector<std::string>* files);
};
constexpr DataSetTable kDataSetTables[] = {{"index.json", ReadMdsTable},
                                           {"index.json", ReadLitDataTable}};

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
    Status status = table.read(path.string(), files);
    if (!status.ok() || !files->empty()) return status;
  }
  return {};
}

}  // namespace ringfeed
