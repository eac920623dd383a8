#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/machine/cpu_count.h"
#include "base/memory/memory_limit.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "io/remote/address.h"
#include "io/remote/remote_source.h"
#include "readers/chain/record_walk.h"
#include "readers/formats/examined_file.h"
#include "readers/formats/format.h"
#include "readers/index/open_index.h"
#include "readers/parsers/inferred_fields.h"
#include "readers/parsers/tensors/samples_parser.h"
#include "ringfeed/io_options.h"
#include "ringfeed/parsers.h"
#include "ringfeed/record.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/option_values.h"
#include "tools/report.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

// A name that --parse takes without quotes.
bool IsPlain(const std::string& name) { return name.find_first_of(" =?[]:") == std::string::npos; }

// A text for --parse; "" if the file does not tell one.
std::string SuggestParse(const InferredParser& inferred) {
  std::string text;
  // It names all columns, or none.
  if (inferred.name == "mds" || inferred.name == "litdata") {
    const bool plain = std::ranges::all_of(
        inferred.fields, [](const FeatureSpec& field) { return IsPlain(field.name); });
    return plain ? SamplesParserText(*inferred.parser) : "";
  }
  for (const FeatureSpec& field : inferred.fields) {
    if (!IsPlain(field.name)) continue;
    text += " " + (inferred.name == "tokens" ? "" : field.name + "=");
    text += DTypeName(field.dtype).substr(0, 1);
    text += std::to_string(DTypeBytes(field.dtype));
    std::string shape;
    for (const std::int64_t dimension : field.shape) {
      shape += (shape.empty() ? "[" : ",") + (dimension < 0 ? "" : std::to_string(dimension));
    }
    if (!shape.empty()) text += shape + "]";
    if (!field.missing) continue;
    text += std::holds_alternative<double>(*field.missing) ? "?nan" : "?";
  }
  if (text.empty()) return text;
  return inferred.name + (inferred.name == "csv" ? ": -header" : ":") + text;
}

constexpr char kInfoHelp[] =
    "What files are and how they would be read; without a file, what this machine can do.\n\n"
    "  ringfeed info\n"
    "  ringfeed info train-00000.tfrecord       suggests an option --parse";

constexpr std::size_t kPeekedRecords = 100;

Json FeaturesJson(const std::map<std::string, PeekedFeature>& features) {
  static const std::map<char, std::string> kKinds = {
      {'b', "bytes"}, {'f', "float"}, {'i', "int64"}};
  Json list = Json::array();
  for (const auto& [name, feature] : features) {
    list.push_back({{"name", name},
                    {"kind", kKinds.at(feature.kind)},
                    {"records", feature.records},
                    {"fewest_values", feature.fewest_values},
                    {"most_values", feature.most_values}});
  }
  return list;
}

Json MachineJson() {
  const CpuCount cpus = CountCpus();
  const MemoryLimit memory = FindMemoryLimit();
  const UringProbe& uring = ProbeUring();
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  Json json = {{"version", RINGFEED_VERSION},        {"cpus", cpus.usable},
               {"cpu_affinity", cpus.affinity},      {"cpu_quota", cpus.quota},
               {"memory_limit_bytes", memory.bytes}, {"memory_limit_source", memory.source},
               {"memlock_bytes", nullptr},           {"io_uring", uring.available},
               {"io_uring_reason", uring.reason},    {"io_uring_flags", uring.flags}};
  if (locked.rlim_cur != RLIM_INFINITY) json["memlock_bytes"] = std::uint64_t{locked.rlim_cur};
  return json;
}

class InfoCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("info", kInfoHelp);
    sub->add_option("FILE", names_, "files, folders or globs");
    sub->add_option("--format", open_.format, FormatText());
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    if (names_.empty()) {
      json_ ? PrintJson("info", {{"machine", MachineJson()}}) : PrintText(MachineJson());
      return kExitFine;
    }
    Json list = Json::array();
    int exit_status = kExitFine;
    for (const std::string& file : ExpandNames(names_)) {
      Json json = {{"file", ShownAddress(file)}};
      try {
        exit_status = std::max<int>(exit_status, ExitStatusOf(Describe(file, &json)));
      } catch (const Error& error) {
        json["error"] = error.status().ToString();
        TellFailure(error.status());
        exit_status = std::max<int>(exit_status, kExitUsage);
      }
      list.push_back(json);
    }
    if (json_) {
      PrintJson("info", {{"files", list}});
    } else {
      for (const Json& json : list) PrintText(json);
    }
    return exit_status;
  }

 private:
  // Warnings from the file's last bytes; verify gives those that need reading the file.
  static std::string WarningOf(InputFile* file, const RecordWalk& walk) {
    if (file->size() == 0) return std::string(kEmptyFile);
    if (walk.compressed()) return {};
    std::vector<std::byte> tail(std::min<std::uint64_t>(file->size(), Format::kTailBytes));
    const std::span<const std::byte> mapping = file->mapping();
    std::size_t got = std::min(mapping.size(), tail.size());
    std::copy_n(mapping.end() - static_cast<std::ptrdiff_t>(got), got, tail.begin());
    if (mapping.empty() && !file->ReadAt(file->size() - tail.size(), tail, &got).ok()) return {};
    return got == tail.size() ? walk.format().FindEnd(tail) : "";
  }

  // A table's rows, groups and fields; without a parser's text, which they need not.
  void DescribeTable(const std::string& format, const std::string& file, Json* json) const {
    const Reader rows = OpenTableRows(format, {file}, open_);
    const std::vector<std::uint64_t> groups = rows.FileRecords();
    (*json)["rows"] = std::accumulate(groups.begin(), groups.end(), std::uint64_t{0});
    (*json)["groups"] = groups.size();
    Json fields = Json::array();
    for (const FieldSpec& field : rows.fields()) {
      fields.push_back(
          {{"name", field.name}, {"dtype", DTypeName(field.dtype)}, {"shape", field.shape}});
      if (!field.logical_type.empty()) fields.back()["logical_type"] = field.logical_type;
    }
    (*json)["fields"] = fields;
  }

  // How many records it has, if it says so itself.
  void AddRecords(const std::string& file, Json* json) const {
    const ExaminedFile examined = ExamineFile(file, nullptr, open_.format, 1);
    if (!examined.status.ok() || examined.compression != Compression::kNone) return;
    OpenedIndex index;
    const IndexedFile data{examined.name, examined.object, examined.bytes, examined.format,
                           examined.compression};
    if (!ComputeRecordIndex(data, &index) || !index.status.ok()) return;
    (*json)["records"] = index.index->records();
  }

  // The result of reading the first records.
  Status Describe(const std::string& file, Json* json) const {
    const OpenInputResult opened = OpenNamed(file, IoOptions());
    if (!opened.status.ok()) throw Error(opened.status);
    if (const std::string table = TableFormat({file}, open_); !table.empty()) {
      (*json)["bytes"] = opened.file->size();
      (*json)["format"] = table;
      DescribeTable(table, file, json);
      return {};
    }
    RecordWalk walk(file, open_);
    const IoChoice& choice = opened.file->choice();
    (*json)["bytes"] = opened.file->size();
    (*json)["format"] = walk.format().name();
    (*json)["path"] = IoPathName(choice.path);
    (*json)["direct"] = choice.direct;
    (*json)["resident"] = choice.resident;
    (*json)["reason"] = choice.reason;
    const std::string warning = WarningOf(opened.file.get(), walk);
    if (!warning.empty()) (*json)["warning"] = warning;
    AddRecords(file, json);
    std::span<const RecordSpan> records;
    if (walk.Next(&records) == ReadResult::kRecord) {
      records = records.first(std::min(records.size(), kPeekedRecords));
      (*json)["first_record_bytes"] = records.front().size;
      (*json)["features"] = FeaturesJson(PeekExamples(records));
      (*json)["parse"] = SuggestParse(InferParser({file}, open_));
    }
    if (walk.status().ok()) return {};
    (*json)["error"] = walk.status().ToString();
    TellFailure(walk.status());
    return walk.status();
  }

  static void PrintText(const Json& json) {
    for (const auto& [key, value] : json.items()) {
      if (key == "features") {
        PrintFeatures(value);
      } else if (value != Json("")) {
        const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
        std::printf("%-20s %s\n", key.c_str(), text.c_str());
      }
    }
  }

  static void PrintFeatures(const Json& features) {
    for (const Json& feature : features) {
      const std::string values =
          feature["fewest_values"].dump() + " to " + feature["most_values"].dump() + " values";
      std::printf("%-20s %s: %s, %s\n", "feature", feature["name"].get<std::string>().c_str(),
                  feature["kind"].get<std::string>().c_str(), values.c_str());
    }
  }

  std::vector<std::string> names_;
  OpenOptions open_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewInfoCommand() { return std::make_unique<InfoCommand>(); }

}  // namespace ringfeed::tools
