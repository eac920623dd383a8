#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "readers/formats/data_set_table.h"
#include "readers/formats/mds/mds.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

// The file of a shard: the one that was decompressed, if it is there.
Status AppendShard(const nlohmann::json& shard, const std::string& table,
                   std::vector<std::string>* files) {
  const auto text = [](const nlohmann::json& object, const char* name) {
    const bool is_text = object.is_object() && object.contains(name) && object[name].is_string();
    return is_text ? object[name].get<std::string>() : std::string();
  };
  const std::string number = std::to_string(files->size());
  const std::string format = text(shard, "format");
  if (format != "mds") {
    return BadTable(table, StatusCode::kUnsupported,
                    "has a shard " + number + " of the format \"" + format +
                        "\": only \"mds\" is read; write it with MDSWriter");
  }
  const fs::path folder = fs::path(table).parent_path();
  std::string file;
  for (const char* const data : {"raw_data", "zip_data"}) {
    if (!shard.contains(data) || shard[data].is_null()) continue;
    const fs::path name = text(shard[data], "basename");
    if (!LeadsBelow(name)) {
      return BadTable(
          table, StatusCode::kDamaged,
          "names no file below its folder as shard " + number + ": \"" + name.string() + "\"");
    }
    std::error_code missing;
    if (file.empty() || !fs::exists(file, missing)) file = (folder / name).string();
  }
  if (file.empty()) return BadTable(table, StatusCode::kDamaged, "has no file for shard " + number);
  files->push_back(std::move(file));
  return {};
}

}  // namespace

Status ReadMdsTable(const std::string& table, std::vector<std::string>* files) {
  std::string text;
  Status status = ReadDataSetTable(table, &text);
  if (!status.ok()) return status;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  // As its writer begins it. Other files of that name may be lines of JSON.
  if (json.is_discarded() && text.starts_with("{\"shards\"")) {
    return BadTable(table, StatusCode::kDamaged, "is no JSON");
  }
  if (!json.is_object() || !json.contains("shards") || !json["shards"].is_array()) return {};
  std::vector<std::string> found;
  for (const auto& shard : json["shards"]) {
    status = AppendShard(shard, table, &found);
    if (!status.ok()) return status;
  }
  if (found.empty()) return BadTable(table, StatusCode::kDamaged, "names no shard");
  *files = std::move(found);
  return {};
}

}  // namespace ringfeed
