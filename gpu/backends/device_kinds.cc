#include "ringfeed/devices/device_kinds.h"

#include <charconv>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/refuse.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {
namespace {

constexpr std::string_view kWordCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

constexpr char kCuda[] = "cuda";
constexpr char kAuto[] = "auto";

// A larger number is a typing error: each device has threads of its own.
constexpr int kMostEmulated = 1024;

Status CudaIsNotRegistered() {
#if RINGFEED_WITH_CUDA
  return Status(StatusCode::kUnsupported,
                "this program does not use CUDA: link ringfeed::cuda and call ringfeed::UseCuda()");
#else
  return Status(StatusCode::kUnsupported, "this ringfeed was built without CUDA (RINGFEED_CUDA)");
#endif
}

std::shared_ptr<DeviceBackend> OpenEmulated(const std::string& argument) {
  int devices = 1;
  if (!argument.empty()) {
    const char* const end = argument.data() + argument.size();
    const auto [stopped, error] = std::from_chars(argument.data(), end, devices);
    if (error != std::errc() || stopped != end || devices < 1 || devices > kMostEmulated) {
      Refuse("emu:" + argument + ": the number of emulated devices is 1 to " +
             std::to_string(kMostEmulated));
    }
  }
  return EmulatedDevices::Open(devices);
}

struct DeviceKind {
  DeviceOpener opener;
  DeviceProbe probe;
};

class DeviceKindRegistry {
 public:
  DeviceKindRegistry() {
    kinds_["emu"] = {OpenEmulated, [](int* devices) {
                       *devices = 0;
                       return Status();
                     }};
  }

  bool Add(const std::string& name, DeviceKind kind) {
    const std::lock_guard lock(mutex_);
    return kinds_.emplace(name, std::move(kind)).second;
  }

  // A copy: an opener may take long, and may register kinds itself.
  std::map<std::string, DeviceKind> All() const {
    const std::lock_guard lock(mutex_);
    return kinds_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, DeviceKind> kinds_;
};

// Never destroyed: threads may ask for devices while the program ends.
DeviceKindRegistry& Registry() {
  static auto* const registry = new DeviceKindRegistry;
  return *registry;
}

// The same text about devices for the library, Python and the command.
Error NoGpu(const Status& why) {
  return Error(Status(why.code(), why.message() +
                                      "; for a trial without a GPU ask for emulated devices: "
                                      "\"emu:2\" are two"));
}

[[noreturn]] void RefuseUnknown(const std::string& name,
                                const std::map<std::string, DeviceKind>& kinds) {
  if (name == kCuda) throw NoGpu(CudaIsNotRegistered());
  if (name == kAuto) {
    Refuse("\"auto\" is no kind of devices: OpenAutoDevices chooses one, and says which");
  }
  std::string known;
  for (const auto& [other, kind] : kinds) known += (known.empty() ? "" : ", ") + other;
  Refuse(StatusCode::kNotFound, "there are no devices of kind '" + name + "'; known are " + known);
}

}  // namespace

void RegisterDeviceKind(const std::string& name, DeviceOpener opener, DeviceProbe probe) {
  if (name.empty() || name.find_first_not_of(kWordCharacters) != std::string::npos) {
    Refuse("'" + name + "' is no name for a kind of devices: letters, digits, _");
  }
  if (opener == nullptr || probe == nullptr) {
    Refuse("devices of kind '" + name + "' need an opener and a probe");
  }
  if (name == kAuto || !Registry().Add(name, {std::move(opener), std::move(probe)})) {
    Refuse("the name '" + name + "' for a kind of devices is taken");
  }
}

std::vector<DeviceKindStatus> DeviceKinds() {
  std::map<std::string, DeviceKind> kinds = Registry().All();
  kinds.try_emplace(kCuda, DeviceKind{nullptr, [](int*) { return CudaIsNotRegistered(); }});
  std::vector<DeviceKindStatus> found;
  for (const auto& [name, kind] : kinds) {
    DeviceKindStatus entry{name, {}, 0};
    entry.status = kind.probe(&entry.devices);
    found.push_back(std::move(entry));
  }
  return found;
}

std::shared_ptr<DeviceBackend> OpenDevices(const std::string& kind) {
  const std::size_t colon = kind.find(':');
  const std::string name = kind.substr(0, colon);
  const bool has_argument = colon != std::string::npos;
  const std::map<std::string, DeviceKind> kinds = Registry().All();
  const auto found = kinds.find(name);
  if (found == kinds.end()) RefuseUnknown(name, kinds);
  const std::string argument = has_argument ? kind.substr(colon + 1) : std::string();
  if (has_argument && argument.empty()) Refuse("'" + kind + "': there is nothing after the colon");
  if (name != kCuda) return found->second.opener(argument);
  try {
    return found->second.opener(argument);
  } catch (const Error& error) {
    const StatusCode code = error.status().code();
    if (code != StatusCode::kNotFound && code != StatusCode::kUnsupported) throw;
    throw NoGpu(error.status());
  }
}

std::string DeviceKindOf(DeviceBackend& backend, int device) {
  std::string kind(backend.name());
  DeviceInfo info;
  // Emulated devices are all of one make, and named by their numbers.
  if (kind != "emu" && backend.Info(device, &info).ok() && !info.name.empty()) {
    kind += ": " + info.name;
  }
  return kind;
}

AutoDevices OpenAutoDevices(int emulated) {
  for (const DeviceKindStatus& kind : DeviceKinds()) {
    if (kind.name != kCuda) continue;
    if (kind.status.ok()) return {OpenDevices(kCuda), "CUDA's, which can be used here", false};
    return {OpenDevices("emu:" + std::to_string(emulated)),
            "emulated, as CUDA cannot be used here: " + kind.status.message(), true};
  }
  throw NoGpu(CudaIsNotRegistered());  // DeviceKinds lists CUDA in any case
}

}  // namespace ringfeed
