#include "gpu/backends/emulated/call_checks.h"

#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "base/refuse.h"

namespace ringfeed {
namespace {

constexpr std::array<std::string_view, kDeviceCalls> kCallNames = {
    "Info",       "BindThread",   "RegisterHost",  "UnregisterHost", "AllocDevice",
    "FreeDevice", "CreateStream", "DestroyStream", "CreateEvent",    "DestroyEvent",
    "Record",     "StreamWait",   "Query",         "CopyToDevice",   "CopyBatchToDevice",
    "CopyToHost", "Fill",         "Launch",        "Busy",           "SyncEvent",
    "SyncStream", "Elapsed",      "DeviceStatus"};

bool Enqueues(DeviceCall call) {
  switch (call) {
    case DeviceCall::kRecord:
    case DeviceCall::kStreamWait:
    case DeviceCall::kCopyToDevice:
    case DeviceCall::kCopyBatchToDevice:
    case DeviceCall::kCopyToHost:
    case DeviceCall::kFill:
    case DeviceCall::kLaunch:
    case DeviceCall::kBusy:
      return true;
    default:
      return false;
  }
}

void Check(const DeviceFault& fault) {
  const std::string name(DeviceCallName(fault.call));
  if (fault.nth == 0) Refuse("a fault of " + name + " has nth 0: the first call is 1");
  if (fault.effect == FaultEffect::kLater && !Enqueues(fault.call)) {
    Refuse("a fault of " + name +
           " cannot be kLater: the call leaves no work that "
           "could fail; use kFails or kDeviceLost");
  }
}

using States = std::map<std::pair<std::uint64_t, int>, CallerState>;

States& StatesOfThread() {
  thread_local States states;
  return states;
}

}  // namespace

std::string_view DeviceCallName(DeviceCall call) {
  const auto index = static_cast<std::size_t>(call);
  return index < kCallNames.size() ? kCallNames[index] : "unknown";
}

FaultPlan::FaultPlan(std::vector<DeviceFault> faults) : faults_(std::move(faults)) {
  for (const DeviceFault& fault : faults_) Check(fault);
}

std::optional<FaultEffect> FaultPlan::Next(DeviceCall call) {
  const auto index = static_cast<std::size_t>(call);
  const std::uint64_t number = calls_[index].fetch_add(1, std::memory_order_relaxed) + 1;
  for (const DeviceFault& fault : faults_) {
    if (fault.call != call || number < fault.nth) continue;
    if (number == fault.nth || fault.effect == FaultEffect::kStays) return fault.effect;
  }
  return std::nullopt;
}

std::uint64_t NewOwner() {
  static std::atomic<std::uint64_t> owners = 0;
  return owners.fetch_add(1, std::memory_order_relaxed);
}

CallerState& StateOfCaller(std::uint64_t owner, int actor) {
  return StatesOfThread()[{owner, actor}];
}

void ForgetOwner(std::uint64_t owner) {
  std::erase_if(StatesOfThread(), [&](const auto& entry) { return entry.first.first == owner; });
}

}  // namespace ringfeed
