#include "tools/feed/speed_settings.h"

#include <CLI/CLI.hpp>

#include "ringfeed/status.h"

namespace ringfeed::tools {
namespace {

// A size as an option takes it: in the largest unit that divides it.
std::string SizeText(std::size_t bytes) {
  constexpr std::size_t kKiB = 1024;
  if (bytes % (kKiB * kKiB) == 0) return std::to_string(bytes / kKiB / kKiB) + "MiB";
  if (bytes % kKiB == 0) return std::to_string(bytes / kKiB) + "KiB";
  return std::to_string(bytes);
}

std::string OptionText(const std::string& option, IoPath path) {
  return option + " " + std::string(IoPathName(path));
}
std::string OptionText(const std::string& option, TransferPlan plan) {
  return option + " " + std::string(TransferPlanName(plan));
}
std::string OptionText(const std::string& option, int count) {
  return option + " " + std::to_string(count);
}
std::string OptionText(const std::string& option, std::size_t count) {
  return option + " " + (option.ends_with("bytes") ? SizeText(count) : std::to_string(count));
}
std::string OptionText(const std::string& /*option*/, bool direct) {
  return direct ? "--direct" : "--no-direct";
}

}  // namespace

std::string SpeedSettings::Options() const {
  const SpeedSettings defaults;
  std::string options;
  ForEach([&](const char* name, const auto member) {
    if (this->*member == defaults.*member) return;
    options += (options.empty() ? "" : " ") + OptionText(std::string("--") + name, this->*member);
  });
  return options;
}

void SpeedSettings::ApplyTo(FeedPlan* plan, DeviceOptions* devices) const {
  plan->open.io.path = path;
  plan->open.io.direct = direct;
  plan->open.io.block_bytes = block_bytes;
  plan->open.io.in_flight_bytes = in_flight_bytes;
  plan->open.threads = threads;
  plan->batching.slots = slots;
  devices->slots = device_slots;
  devices->transfer = transfer;
}

SpeedSettings SpeedSettings::Of(const Tuning& tuning) {
  SpeedSettings settings;
  settings.path = tuning.io.path;
  settings.direct = tuning.io.direct;
  settings.threads = tuning.threads;
  settings.block_bytes = tuning.io.block_bytes;
  settings.in_flight_bytes = tuning.io.in_flight_bytes;
  settings.slots = tuning.slots;
  if (tuning.device_slots != 0) settings.device_slots = tuning.device_slots;
  if (!tuning.transfer.empty()) settings.transfer = TransferPlanNamed(tuning.transfer);
  return settings;
}

Tuning SpeedSettings::ToTuning() const {
  Tuning tuning;
  tuning.threads = threads;
  tuning.io.path = path;
  tuning.io.direct = direct;
  tuning.io.block_bytes = block_bytes;
  tuning.io.in_flight_bytes = in_flight_bytes;
  tuning.slots = slots;
  tuning.device_slots = device_slots;
  tuning.transfer = TransferPlanName(transfer);
  return tuning;
}

void AddTunedOption(CLI::App* app, FeedPlan* plan, DeviceOptions* devices) {
  // Options act in the order in which they are declared, so those after this one win.
  app->add_option_function<std::string>(
         "--tuned",
         [plan, devices](const std::string& path) {
           try {
             const Tuning tuning = ReadTuning(path);
             SpeedSettings::Of(tuning).ApplyTo(plan, devices);
             plan->open.tuned_format = tuning.format;
             devices->tuned_devices = tuning.devices;
           } catch (const Error& error) {
             throw CLI::ValidationError("--tuned", error.status().message());
           }
         },
         "options that `ringfeed tune` found and wrote; those that are given beside it win")
      ->type_name("FILE");
}

}  // namespace ringfeed::tools
