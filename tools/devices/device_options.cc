#include "tools/devices/device_options.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include "ringfeed/devices/device_kinds.h"
#include "tools/command.h"
#include "tools/option_values.h"

namespace ringfeed::tools {
namespace {

constexpr char kAuto[] = "auto";
constexpr char kCuda[] = "cuda";

std::vector<int> AllOf(const DeviceBackend& backend) {
  std::vector<int> numbers(static_cast<std::size_t>(backend.DeviceCount()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
  return numbers;
}

// "0,1" of "cuda:0,1".
std::vector<int> NumbersOf(std::string_view list, const DeviceBackend& backend) {
  std::vector<int> numbers;
  const std::string text(list);
  while (true) {
    const std::string_view word = list.substr(0, list.find(','));
    int number = 0;
    const auto [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || stopped != word.data() + word.size() || number < 0) {
      throw Refuse("cuda:" + text + ": write numbers of devices, as in cuda:0,1");
    }
    if (number >= backend.DeviceCount()) {
      throw Refuse("there is no device " + std::to_string(number) + ": cuda has " +
                   std::to_string(backend.DeviceCount()) + ", from 0");
    }
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
      throw Refuse("cuda:" + text + ": device " + std::to_string(number) + " is listed twice");
    }
    numbers.push_back(number);
    if (word.size() == list.size()) return numbers;
    list.remove_prefix(word.size() + 1);
  }
}

ChosenDevices ChooseByThemselves() {
  AutoDevices taken = OpenAutoDevices();
  if (taken.emulated) std::fprintf(stderr, "ringfeed: devices: %s\n", taken.reason.c_str());
  std::vector<int> numbers = AllOf(*taken.backend);
  return {std::move(taken.backend), std::move(numbers), std::move(taken.reason)};
}

void AddTransferOptions(CLI::App* app, CLI::Option* devices, DeviceOptions* options) {
  std::vector<std::pair<std::string, TransferPlan>> plans;
  for (const TransferPlan plan : kTransferPlans) plans.emplace_back(TransferPlanName(plan), plan);
  AddChoice(app, "--transfer", &options->transfer, plans,
            "how bytes come onto a device: batch: the CPU makes batches; members: long fields are "
            "copied from where they were read; slabs: what was read is, and the device makes "
            "batches of it; direct: cuFile reads files into the device's memory, if it can; auto: "
            "by how long the fields are, and what that costs")
      ->take_last()
      ->needs(devices);
  app->add_option_function<std::string>(
         "--transfer-costs",
         [options](const std::string& path) {
           try {
             options->costs = TransferCosts::Load(path);
           } catch (const Error& error) {
             throw CLI::ValidationError("--transfer-costs", error.status().message());
           }
         },
         "what bringing rows onto a device costs, in a file that `ringfeed bench` wrote; without "
         "it "
         "an H200's costs count")
      ->type_name("FILE")
      ->take_last()
      ->needs(devices);
}

}  // namespace

void AddDeviceOptions(CLI::App* app, DeviceOptions* options) {
  CLI::Option* const devices =
      app->add_option("--devices", options->devices,
                      "feed devices, in batches (of 64 if no size is given): emu:NUMBER "
                      "emulated ones, cuda, cuda:0,1, or auto: CUDA's if they can be used, "
                      "else emu:2")
          ->take_last();
  app->add_option("--step-ms", options->step_ms, "a device computes that long for each batch")
      ->check(CLI::Range(0.0, 3'600'000.0).description(""))
      ->capture_default_str()
      ->take_last()
      ->needs(devices);
  app->add_option("--device-slots", options->slots, "batches on each device at a time, 2 to 64")
      ->check(CLI::Range(2, 64).description(""))
      ->capture_default_str()
      ->take_last()
      ->needs(devices);
  AddChoice(app, "--distribution", &options->distribution,
            {{"round-robin", Distribution::kRoundRobin},
             {"split", Distribution::kSplit},
             {"replicate", Distribution::kReplicate}},
            "round-robin: batch k goes to device k modulo their number; split: each device gets a "
            "part of every batch; replicate: each device gets every batch")
      ->take_last()
      ->needs(devices);
  AddChoice(app, "--last-step", &options->last_step,
            {{"uneven", LastStep::kUneven},
             {"drop", LastStep::kDrop},
             {"pad", LastStep::kPad},
             {"short", LastStep::kShort}},
            "if there are not enough batches for every device: uneven: some step once more; drop: "
            "left out; pad: rows are repeated; short: the rest is spread")
      ->take_last()
      ->needs(devices);
  AddTransferOptions(app, devices, options);
  app->add_option("--trace", options->trace,
                  "what was read, copied, waited for and computed when, as a Chrome trace")
      ->type_name("FILE")
      ->take_last()
      ->needs(devices);
}

std::vector<OwnedDevice> DevicesNamed(const std::string& text) {
  const ChosenDevices chosen = ChooseDevices(text);
  std::vector<OwnedDevice> devices;
  for (const int number : chosen.numbers) devices.push_back({chosen.backend, number});
  return devices;
}

ChosenDevices ChooseDevices(const std::string& text) {
  if (text == kAuto) return ChooseByThemselves();
  ChosenDevices chosen;
  const std::string cuda_numbers = std::string(kCuda) + ":";
  const bool numbered = text.starts_with(cuda_numbers);
  chosen.backend = OpenDevices(numbered ? kCuda : text);
  chosen.numbers =
      numbered ? NumbersOf(std::string_view(text).substr(cuda_numbers.size()), *chosen.backend)
               : AllOf(*chosen.backend);
  return chosen;
}

}  // namespace ringfeed::tools
