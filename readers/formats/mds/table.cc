#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "readers/formats/data_set_table.h"
#include "readers/formats/mds/mds.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

// The file of a shard: the one that was decompressed, if it is there, which no store has.
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
    if (file.empty() || !fs::exists(file, missing)) file = NameBeside(table, name);
  }
  if (file.empty()) return BadTable(table, StatusCode::kDamaged, "has no file for shard " + number);
  files->push_back(std::move(file));
  return {};
}

// Sets *json to an index of MDS; to null if it is none.
Status ReadMdsIndex(const std::string& table, const std::string& text, nlohmann::json* json) {
  *json = nlohmann::json::parse(text, nullptr, false);
  // As its writer begins it. Other files of that name may be lines of JSON.
  if (json->is_discarded() && text.starts_with("{\"shards\"")) {
    return BadTable(table, StatusCode::kDamaged, "is no JSON");
  }
  if (!json->is_object() || !json->contains("shards") || !(*json)["shards"].is_array()) {
    *json = nullptr;
  }
  return {};
}

}  // namespace

Status ReadMdsTable(const std::string& table, const std::string& text,
                    std::vector<std::string>* files) {
  nlohmann::json json;
  Status status = ReadMdsIndex(table, text, &json);
  if (!status.ok() || json.is_null()) return status;
  std::vector<std::string> found;
  for (const auto& shard : json["shards"]) {
    status = AppendShard(shard, table, &found);
    if (!status.ok()) return status;
  }
  if (found.empty()) return BadTable(table, StatusCode::kDamaged, "names no shard");
  *files = std::move(found);
  return {};
}

Status FindListedShard(const std::string& table, const std::string& name, ListedFile* listed) {
  std::string text;
  nlohmann::json json;
  Status status = ReadDataSetTable(table, &text);
  if (status.ok()) status = ReadMdsIndex(table, text, &json);
  if (!status.ok() || json.is_null()) return status;
  for (const auto& shard : json["shards"]) {
    for (const char* const data : {"raw_data", "zip_data"}) {
      if (!shard.is_object() || !shard.contains(data) || !shard[data].is_object()) continue;
      const auto& file = shard[data];
      if (!file.contains("basename") || file["basename"] != name) continue;
      const auto number = [](const nlohmann::json& object, const char* key) {
        const bool is_number = object.contains(key) && object[key].is_number_unsigned();
        return is_number ? std::optional(object[key].get<std::uint64_t>()) : std::nullopt;
      };
      listed->records = number(shard, "samples");
      listed->bytes = number(file, "bytes");
      if (!file.contains("hashes") || !file["hashes"].is_object()) return {};
      for (const auto& [algorithm, hex] : file["hashes"].items()) {
        if (hex.is_string()) listed->hashes.emplace_back(algorithm, hex.get<std::string>());
      }
      return {};
    }
  }
  return {};
}

}  // namespace ringfeed
