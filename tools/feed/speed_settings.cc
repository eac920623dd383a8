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

}  // namespace

std::string SpeedSettings::Options() const {
  const SpeedSettings defaults;
  std::string options;
  const auto add = [&options](bool differs, const std::string& option) {
    if (differs) options += (options.empty() ? "" : " ") + option;
  };
  add(path != defaults.path, "--io " + std::string(IoPathName(path)));
  add(direct != defaults.direct, direct ? "--direct" : "--no-direct");
  add(threads != defaults.threads, "--threads " + std::to_string(threads));
  add(block_bytes != defaults.block_bytes, "--block-bytes " + SizeText(block_bytes));
  add(in_flight_bytes != defaults.in_flight_bytes,
      "--in-flight-bytes " + SizeText(in_flight_bytes));
  add(slots != defaults.slots, "--slots " + std::to_string(slots));
  add(device_slots != defaults.device_slots, "--device-slots " + std::to_string(device_slots));
  add(transfer != defaults.transfer, "--transfer " + std::string(TransferPlanName(transfer)));
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
