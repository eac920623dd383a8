#include "ringfeed/tuning.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/machine/cpu_count.h"
#include "base/small_text.h"
#include "base/strict_json.h"
#include "ringfeed/open_options.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kMostText = 1 << 16;

constexpr std::array kPaths = {IoPath::kAuto, IoPath::kUring, IoPath::kPread, IoPath::kMmap};

IoPath PathNamed(const std::string& name) {
  const auto* const found = std::find_if(kPaths.begin(), kPaths.end(),
                                         [&](IoPath path) { return IoPathName(path) == name; });
  if (found == kPaths.end()) throw std::invalid_argument("there is no I/O path \"" + name + "\"");
  return *found;
}

// Files of older versions do not have it.
std::string TransferIn(const Json& json) {
  constexpr std::array<std::string_view, 6> kNames = {"",        "auto",  "batch",
                                                      "members", "slabs", "direct"};
  std::string name = json.value("transfer", std::string());
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    throw std::invalid_argument("there is no transfer \"" + name + "\"");
  }
  return name;
}

// The same for these.
void TakeWhatItWasFor(const Json& json, Tuning* tuning) {
  tuning->devices = json.value("devices", std::string());
  tuning->device_count = CountAtOr(json, "device_count", 0);
  tuning->cache = json.value("cache", std::string());
  if (!tuning->cache.empty() && tuning->cache != "warm" && tuning->cache != "cold") {
    throw std::invalid_argument("files are warm or cold, not \"" + tuning->cache + "\"");
  }
}

Tuning TuningFrom(const Json& json) {
  if (!json.is_object() || !json.contains("ringfeed_tuning")) {
    throw std::invalid_argument("there is no \"ringfeed_tuning\" in it");
  }
  const std::uint64_t version = CountAt(json, "ringfeed_tuning");
  if (version != kVersion) {
    throw std::invalid_argument("it is of version " + std::to_string(version) +
                                ", this is version " + std::to_string(kVersion));
  }
  Tuning tuning;
  tuning.machine = json.at("machine").get<std::string>();
  tuning.format = json.at("format").get<std::string>();
  const std::uint64_t threads = CountAt(json, "threads");
  if (threads > OpenOptions::kMostThreads) throw std::invalid_argument("too many threads");
  tuning.threads = static_cast<int>(threads);
  tuning.io.path = PathNamed(json.at("io").get<std::string>());
  tuning.io.direct = json.at("direct").get<bool>();
  tuning.io.block_bytes = CountAt(json, "block_bytes");
  tuning.io.in_flight_bytes = CountAt(json, "in_flight_bytes");
  tuning.slots = CountAt(json, "slots");
  tuning.device_slots = CountAt(json, "device_slots");
  tuning.transfer = TransferIn(json);
  TakeWhatItWasFor(json, &tuning);
  return tuning;
}

// The processor's name, "AMD EPYC 7B13", or, if it has none, its kind: "aarch64".
std::string ProcessorName() {
  std::ifstream facts("/proc/cpuinfo");
  std::string line;
  while (std::getline(facts, line)) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (line.find(':') != std::string::npos && begin != std::string::npos) {
      return line.substr(begin);
    }
  }
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
}

}  // namespace

std::string ThisMachine() {
  const int cpus = CountCpus().usable;
  return ProcessorName() + ", " + std::to_string(cpus) + (cpus == 1 ? " CPU" : " CPUs");
}

std::string TuningText(const Tuning& tuning) {
  const Json json = {{"ringfeed_tuning", kVersion},
                     {"machine", tuning.machine},
                     {"format", tuning.format},
                     {"threads", tuning.threads},
                     {"io", IoPathName(tuning.io.path)},
                     {"direct", tuning.io.direct},
                     {"block_bytes", tuning.io.block_bytes},
                     {"in_flight_bytes", tuning.io.in_flight_bytes},
                     {"slots", tuning.slots},
                     {"device_slots", tuning.device_slots},
                     {"transfer", tuning.transfer},
                     {"devices", tuning.devices},
                     {"device_count", tuning.device_count},
                     {"cache", tuning.cache}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Tuning ReadTuning(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return Error(Status(StatusCode::kInvalidArgument, path + " " + why));
  };
  const std::string text = ReadSmallText(path, "tuning", kMostText);
  if (text.size() > kMostText) throw refuse("is no tuning of ringfeed's: it is too long");
  Tuning tuning;
  try {
    tuning = TuningFrom(ParseStrictJson(text));
  } catch (const std::exception& error) {
    throw refuse(std::string("is no tuning of ringfeed's: ") + error.what());
  }
  if (const std::string here = ThisMachine(); tuning.machine != here) {
    throw refuse("was tuned on another machine (" + tuning.machine + "; this is " + here +
                 "): run `ringfeed tune` here, or leave it out");
  }
  return tuning;
}

OpenOptions OpenOptions::Tuned(const std::string& path) {
  Tuning tuning = ReadTuning(path);
  OpenOptions options;
  options.threads = tuning.threads;
  tuning.io.retries = options.io.retries;
  options.io = tuning.io;
  options.tuned_format = std::move(tuning.format);
  return options;
}

}  // namespace ringfeed
