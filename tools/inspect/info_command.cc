#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/machine/cpu_count.h"
#include "base/memory/memory_limit.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "ringfeed/io_options.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/inspect/example_peek.h"
#include "tools/option_values.h"
#include "tools/record_walk.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kHelp[] =
    "What files are and how they would be read; without a file, what this machine can do.\n\n"
    "  ringfeed info\n"
    "  ringfeed info train-00000.tfrecord       suggests an option --parse for tf.Examples";

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
    CLI::App* sub = app->add_subcommand("info", kHelp);
    sub->add_option("FILE", names_, "files or globs");
    sub->add_option("--format", format_, kFormatText);
    sub->add_flag("--json", json_, "an object for one file or the machine, a list for several");
    return sub;
  }

  int Run() override {
    if (names_.empty()) {
      Print(MachineJson());
      return kExitFine;
    }
    Json list = Json::array();
    int exit_status = kExitFine;
    for (const std::string& file : ExpandNames(names_)) {
      Json json = {{"file", file}};
      try {
        exit_status = std::max<int>(exit_status, ExitStatusOf(Describe(file, &json)));
      } catch (const Error& error) {
        json["error"] = error.status().ToString();
        std::fprintf(stderr, "ringfeed: %s\n", error.status().ToString().c_str());
        exit_status = std::max<int>(exit_status, kExitUsage);
      }
      list.push_back(json);
    }
    if (json_) {
      Print(list.size() == 1 ? list[0] : list);
    } else {
      for (const Json& json : list) Print(json);
    }
    return exit_status;
  }

 private:
  // The outcome of looking at the first records.
  Status Describe(const std::string& file, Json* json) const {
    const OpenInputResult opened = OpenInput(file, IoOptions(), false);
    if (!opened.status.ok()) throw Error(opened.status);
    RecordWalk walk(file, format_, OnDamage::kFail);
    const IoChoice& choice = opened.file->choice();
    (*json)["bytes"] = opened.file->size();
    (*json)["format"] = walk.format().name();
    (*json)["path"] = IoPathName(choice.path);
    (*json)["direct"] = choice.direct;
    (*json)["resident"] = choice.resident;
    (*json)["reason"] = choice.reason;
    std::span<const RecordSpan> records;
    if (walk.Next(&records) == ReadResult::kRecord) {
      records = records.first(std::min(records.size(), kPeekedRecords));
      const auto features = PeekExamples(records);
      (*json)["first_record_bytes"] = records.front().size;
      (*json)["features"] = FeaturesJson(features);
      (*json)["parse"] = SuggestParse(features, records.size());
    }
    if (walk.status().ok()) return {};
    (*json)["error"] = walk.status().ToString();
    std::fprintf(stderr, "ringfeed: %s\n", walk.status().ToString().c_str());
    return walk.status();
  }

  void Print(const Json& json) const {
    if (json_) return PrintJson(json);
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
  std::string format_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewInfoCommand() { return std::make_unique<InfoCommand>(); }

}  // namespace ringfeed::tools
