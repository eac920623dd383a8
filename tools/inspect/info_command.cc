#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine/cpu_count.h"
#include "base/memory/memory_limit.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "readers/formats/builders/wire_format.h"
#include "readers/formats/examined_file.h"
#include "readers/formats/format.h"
#include "ringfeed/io_options.h"
#include "ringfeed/record.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/option_values.h"
#include "tools/record_walk.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

/// What some first records show about one feature of a tf.Example.
struct PeekedFeature {
  char kind = 'b';          ///< 'b' bytes, 'f' float, 'i' int64
  std::size_t records = 0;  ///< records that have it
  std::size_t fewest_values = 0;
  std::size_t most_values = 0;
};

using WireBytes = std::span<const std::byte>;

// One field of a serialised message.
struct WireField {
  std::uint32_t number = 0;
  bool delimited = false;
  WireBytes bytes;  // of a length-delimited one
};

// Walks the fields of a message; ok() turns false at the first byte that begins no field, or at a
// group.
class WireWalk {
 public:
  explicit WireWalk(WireBytes message) : reader_(message) {}
  bool ok() const { return ok_; }

  bool Next(WireField* field) {
    if (reader_.done() || !ok_) return false;
    std::uint32_t tag = 0;
    ok_ = reader_.ReadTag(&tag) && (tag & 7) != static_cast<std::uint32_t>(WireType::kStartGroup);
    field->number = tag >> 3;
    field->delimited = tag == WireTag(field->number, WireType::kDelimited);
    ok_ = ok_ && (field->delimited ? reader_.ReadDelimited(&field->bytes) : reader_.Skip(tag));
    return ok_;
  }

 private:
  WireReader reader_;
  bool ok_ = true;
};

std::optional<std::size_t> CountPacked(WireBytes packed, char kind) {
  if (kind == 'f') return packed.size() / 4;
  WireReader reader(packed);
  std::size_t values = 0;
  for (std::uint64_t value = 0; !reader.done(); ++values) {
    if (!reader.ReadVarint(&value)) return std::nullopt;
  }
  return values;
}

// The values of a BytesList, FloatList or Int64List.
std::optional<std::size_t> CountValues(WireBytes list, char kind) {
  WireWalk walk(list);
  WireField field;
  std::size_t values = 0;
  while (walk.Next(&field)) {
    const bool packed = kind != 'b' && field.delimited;
    const std::optional<std::size_t> more = packed ? CountPacked(field.bytes, kind) : 1;
    if (!more) return std::nullopt;
    values += *more;
  }
  return walk.ok() ? std::optional(values) : std::nullopt;
}

struct Entry {
  std::string name;
  char kind = 'b';
  std::size_t values = 0;
};

// A Feature: at most one list of one kind.
bool PeekFeature(WireBytes feature, Entry* entry) {
  static constexpr std::string_view kKinds = "?bfi";
  WireWalk walk(feature);
  WireField field;
  while (walk.Next(&field)) {
    if (field.number >= kKinds.size() || !field.delimited) return false;
    entry->kind = kKinds[field.number];
    const std::optional<std::size_t> values = CountValues(field.bytes, entry->kind);
    if (!values) return false;
    entry->values = *values;
  }
  return walk.ok();
}

bool PeekEntry(WireBytes message, Entry* entry) {
  WireWalk walk(message);
  WireField field;
  while (walk.Next(&field)) {
    if (!field.delimited) return false;
    if (field.number == 1) {
      entry->name.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    } else if (field.number != 2 || !PeekFeature(field.bytes, entry)) {
      return false;
    }
  }
  return walk.ok() && !entry->name.empty();
}

bool PeekRecord(WireBytes record, std::map<std::string, PeekedFeature>* features) {
  WireWalk example(record);
  WireField outer;
  while (example.Next(&outer)) {
    if (outer.number != 1 || !outer.delimited) return false;
    WireWalk walk(outer.bytes);
    WireField field;
    while (walk.Next(&field)) {
      Entry entry;
      if (field.number != 1 || !field.delimited || !PeekEntry(field.bytes, &entry)) return false;
      const auto [place, is_new] =
          features->try_emplace(entry.name, PeekedFeature{entry.kind, 0, entry.values, 0});
      PeekedFeature& peeked = place->second;
      peeked.records += 1;
      peeked.fewest_values = std::min(peeked.fewest_values, entry.values);
      peeked.most_values = std::max(peeked.most_values, entry.values);
    }
    if (!walk.ok()) return false;
  }
  return example.ok();
}

// A name that --parse takes without quotes.
bool IsPlain(const std::string& name) { return name.find_first_of(" =?[]:") == std::string::npos; }

// Features by name; empty if the records are not tf.Examples.
std::map<std::string, PeekedFeature> PeekExamples(std::span<const RecordSpan> records) {
  std::map<std::string, PeekedFeature> features;
  for (const RecordSpan& record : records) {
    if (!record.damaged() && !PeekRecord(record.bytes(), &features)) return {};
  }
  return features;
}

// A text for --parse that takes all of them; "" if there are none.
std::string SuggestParse(const std::map<std::string, PeekedFeature>& features,
                         std::size_t records) {
  std::string text;
  for (const auto& [name, feature] : features) {
    if (!IsPlain(name)) continue;
    const bool fixed = feature.fewest_values == feature.most_values && feature.records == records;
    const std::string shape = fixed ? "[" + std::to_string(feature.most_values) + "]" : "[]";
    if (feature.kind == 'b' && feature.most_values > 1) continue;
    text += " " + name + "=";
    text += feature.kind == 'b' ? "u1[]" : (feature.kind == 'f' ? "f4" : "i8") + shape;
    if (feature.records < records) text += "?";
  }
  return text.empty() ? text : "example:" + text;
}

constexpr char kInfoHelp[] =
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
    CLI::App* sub = app->add_subcommand("info", kInfoHelp);
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
        TellFailure(error.status());
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

  // The result of reading the first records.
  Status Describe(const std::string& file, Json* json) const {
    const OpenInputResult opened = OpenInput(file, IoOptions());
    if (!opened.status.ok()) throw Error(opened.status);
    RecordWalk walk(file, format_, OnDamage::kFail);
    const IoChoice& choice = opened.file->choice();
    (*json)["bytes"] = opened.file->size();
    (*json)["format"] = walk.format().name();
    (*json)["path"] = IoPathName(choice.path);
    (*json)["direct"] = choice.direct;
    (*json)["resident"] = choice.resident;
    (*json)["reason"] = choice.reason;
    const std::string warning = WarningOf(opened.file.get(), walk);
    if (!warning.empty()) (*json)["warning"] = warning;
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
    TellFailure(walk.status());
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
