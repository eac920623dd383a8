// What one device and its link can do at best, by the calls that ringfeed makes of them: what
// registering memory costs, how fast copies and kernels are by their size, and what the host pays
// for each call. All that is copied or computed is compared with the host's.
//
//   device_limits_bench [--devices cuda|emu] [--seconds S] [--only SECTION] [--json]
//
// A measurement takes about S seconds (0.3). --json writes one document to standard output, and the
// rows in words to standard error; else the rows go to standard output. Emulated devices rehearse
// it, with less memory. Exit status: 0; 1 if a measurement failed, which its row says; 2 for
// wrong options; 77 without such a device, then the last line is "skipped: WHY".

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "bench/device_limits_parts.h"
#include "ringfeed/devices/device_kinds.h"
#if RINGFEED_WITH_CUDA
#include "ringfeed/devices/cuda_devices.h"
#endif

namespace ringfeed::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitSkipped = 77;

struct Options {
  std::string devices = "cuda";
  double seconds = 0.3;
  std::string only;  ///< empty: all sections
  bool json = false;
};

struct Section {
  const char* name = nullptr;
  void (*measure)(LimitsRun*) = nullptr;
};
constexpr std::array kSections = {Section{"registration", MeasureRegistration},
                                  Section{"link", MeasureLink}, Section{"kernels", MeasureKernels},
                                  Section{"calls", MeasureCalls}};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--json") {
      options->json = true;
      continue;
    }
    if (++i == argc) return false;
    if (option == "--devices") {
      options->devices = argv[i];
    } else if (option == "--only") {
      options->only = argv[i];
    } else if (option == "--seconds") {
      options->seconds = std::atof(argv[i]);
    } else {
      return false;
    }
  }
  const auto is_only = [options](const Section& one) { return options->only == one.name; };
  return options->seconds > 0 && (options->only.empty() || std::ranges::any_of(kSections, is_only));
}

// "NVRM version: …" of the driver that is loaded; empty where there is none.
std::string DriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  return line;
}

Json Describe(const OwnedDevice& device) {
  DeviceInfo info;
  Require(device.backend->Info(device.number, &info));
  return {
      {"kind", device.backend->name()},    {"name", info.name},
      {"pci_address", info.pci_address},   {"numa_node", info.numa_node},
      {"memory_bytes", info.memory_bytes}, {"free_bytes", info.free_bytes},
      {"copy_engines", info.copy_engines}, {"registers_host_memory", info.registers_host_memory},
      {"driver", DriverVersion()}};
}

void MeasureAll(LimitsRun* run, const std::string& only) {
  for (const Section& section : kSections) {
    if (!only.empty() && only != section.name) continue;
    run->Section(section.name, [&] { section.measure(run); });
  }
}

int Run(const Options& options) {
  OwnedDevice device;
  Json document;
  try {
    device.backend = OpenDevices(options.devices);
    Require(device.backend->BindThread(device.number));
    document["device"] = Describe(device);
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.status().ToString().c_str());
    return kExitSkipped;
  }
  std::FILE* const shown = options.json ? stderr : stdout;
  std::fprintf(shown, "%s\n", document["device"].dump().c_str());
  LimitsRun run(device, options.seconds, shown);
  const std::int64_t begin_ns = device.backend->NowNanos();
  MeasureAll(&run, options.only);
  document["seconds"] = options.seconds;
  document["wall_s"] = static_cast<double>(device.backend->NowNanos() - begin_ns) / 1e9;
  document["failures"] = run.failures();
  document.update(run.sections());
  if (options.json) {
    std::printf("%s\n", document.dump(1).c_str());
  } else {
    std::printf("%.1f s, %d failures\n", document["wall_s"].get<double>(), run.failures());
  }
  return run.failures() == 0 ? 0 : kExitFailed;
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
#if RINGFEED_WITH_CUDA
  ringfeed::UseCuda();
#endif
  ringfeed::bench::Options options;
  if (!ringfeed::bench::Parse(argc, argv, &options)) {
    std::fputs("device_limits_bench [--devices cuda|emu] [--seconds S] [--only SECTION] [--json]\n",
               stderr);
    return ringfeed::bench::kExitUsage;
  }
  return ringfeed::bench::Run(options);
}
