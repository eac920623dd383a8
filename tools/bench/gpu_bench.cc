#include "tools/bench/gpu_bench.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/cpu_count.h"
#include "base/quantile.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/memory_batches.h"
#include "gpu/feed/transfer_planner.h"
#include "ringfeed/devices/topology.h"
#include "ringfeed/tuning.h"
#include "tools/bench/gpu_costs.h"
#include "tools/bench/gpu_device.h"
#include "tools/bench/gpu_disk.h"
#include "tools/bench/gpu_runs.h"
#include "tools/process_usage.h"
#include "tools/progress_bar.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kTimes = 3;
constexpr double kSupplyOverDemand = 1.25;
constexpr char kMicrosecondsOfCpu[] = "us of CPU, median";
constexpr double kDiskBytesPerSecond = 400e6;  // of files, for each of --seconds

// "NVRM version: …" of the loaded driver; empty if there is none.
std::string DriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  return line;
}

std::string KernelRelease() {
  utsname names{};
  return uname(&names) == 0 ? names.release : "";
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// All measurements of one device, in order; each uses the results of those before it.
class GpuBench {
 public:
  explicit GpuBench(const GpuBenchPlan& plan)
      : devices_(plan.devices),
        device_(plan.devices.front()),
        seconds_(plan.seconds),
        quick_(plan.seconds < 1),
        pins_(HostPins::Of(device_.backend, {})),
        bar_("measuring", plan.devices.size() > 1 ? 7 : 6) {
    report_.emulated = device_.backend->type() == DeviceType::kEmulated;
  }

  GpuBenchReport Run() {
    const double begin_s = NowSeconds();
    Require(device_.backend->BindThread(device_.number));
    Section("copies", &GpuBench::Copies);
    Section("costs", &GpuBench::Costs);
    Section("verified", &GpuBench::Verified);
    // Now, as a link at rest may be slowed down.
    DescribeDevice();
    Section("overlap", &GpuBench::Overlap);
    Section("steps", &GpuBench::Steps);
    Section("disk", &GpuBench::Disk);
    if (devices_.size() > 1) Section("together", &GpuBench::Together);
    report_.wall_s = NowSeconds() - begin_s;
    return std::move(report_);
  }

 private:
  // What a section measured before it failed does not count.
  void Section(const char* name, void (GpuBench::*measure)(GpuSection*)) {
    GpuSection section{.name = name};
    try {
      (this->*measure)(&section);
    } catch (const Error& error) {
      section.figures.clear();
      section.status = error.status();
    }
    report_.sections.push_back(std::move(section));
    bar_.Update(report_.sections.size(), 0);
  }

  const MemoryBatches& Batches(std::size_t bytes) {
    std::unique_ptr<MemoryBatches>& batches = batches_[bytes];
    if (batches == nullptr) {
      const std::size_t pool = (quick_ ? 32 : 256) * kMiB;
      batches = std::make_unique<MemoryBatches>(bytes, std::max<std::size_t>(pool / bytes, 2));
    }
    return *batches;
  }

  StepLoad* Load() {
    if (load_ == nullptr) load_ = NewStepLoad(device_);
    return load_.get();
  }

  void Count(std::uint64_t batches, std::uint64_t wrong) {
    report_.verified_batches += batches;
    report_.wrong_batches += wrong;
  }

  double Peak() { return CopyPeak(device_, pins_.get(), Batches(kLargeBatch)); }

  void DescribeDevice() {
    DeviceInfo info;
    Require(device_.backend->Info(device_.number, &info));
    const Topology topology = FindTopology(device_.backend.get());
    const auto number = static_cast<std::size_t>(device_.number);
    report_.device = {{"backend", device_.backend->name()},
                      {"number", device_.number},
                      {"name", info.name},
                      {"memory_bytes", info.memory_bytes},
                      {"pci_address", info.pci_address},
                      {"numa_node", info.numa_node},
                      {"link", topology.devices[number].link},
                      {"copy_engines", info.copy_engines},
                      {"driver", report_.emulated ? "" : DriverVersion()}};
  }

  // The peak, and feeds of several sizes, in turn: a ratio uses values of one turn.
  void Copies(GpuSection* section) {
    std::vector<double> peaks;
    (void)Peak();  // the first one registers memory and wakes the link
    for (int i = 0; i < kTimes; ++i) {
      const double peak = Peak();
      peaks.push_back(peak / 1e9);
      std::map<std::size_t, MemoryFeedResult> fed;
      for (const std::size_t bytes : kSizes) {
        fed[bytes] = RunMemoryFeed(device_, Batches(bytes), {.seconds = seconds_});
      }
      section->Add("peak of pinned copies", "GB/s", peaks.back());
      for (const auto& [bytes, feed] : fed) {
        section->Add("efficiency" + At(bytes), "of the peak", feed.bytes_per_s / peak,
                     AtLeast(bytes < 4 * kMiB ? 0.9 : 0.95));
      }
      for (const auto& [bytes, feed] : fed) {
        section->Add("feed" + At(bytes), "GB/s", feed.bytes_per_s / 1e9);
      }
      for (const auto& [bytes, feed] : fed) {
        section->Add("CPU" + At(bytes), "CPU s/GB", feed.cpu_s_per_gb);
      }
    }
    for (const std::size_t bytes : kSizes) section->details["slots" + At(bytes)] = SlotsFor(bytes);
    peaks_ = std::move(peaks);
  }

  static std::string At(std::size_t bytes) { return " at " + BytesText(bytes); }

  // The costs by which a feed chooses (TransferCosts), and its choice.
  void Costs(GpuSection* section) {
    if (peaks_.empty()) {
      throw Error(Status(StatusCode::kUnsupported, "needs what copies could not measure"));
    }
    const CostRows rows(device_, pins_.get(), Batches(kLargeBatch));
    for (const double gb_per_s : peaks_) {
      const double link_ns = 1024 / gb_per_s;
      double members_ns = 0;
      section->Add("copy_ns_per_kib", "ns", rows.CopyNsPerKib());
      section->Add("link_ns_per_kib", "ns", link_ns);
      for (const std::size_t bytes : kMemberSizes) {
        members_ns += rows.MemberNs(bytes, link_ns, seconds_ / 8);
      }
      section->Add("member_ns", "ns", members_ns / static_cast<double>(kMemberSizes.size()));
      section->Add("row_ns", "ns", rows.RowNs(seconds_ / 8));
      section->Add("sum_ns", "ns", rows.SumNs(seconds_ / 8));
    }
    const std::vector<GpuFigure>& figures = section->figures;
    const TransferCosts costs{figures[0].Median(), figures[1].Median(), figures[2].Median(),
                              figures[3].Median(), figures[4].Median()};
    Require(costs.Check());
    report_.costs = costs;
    AddBounds(TransferPlanner(costs), section);
  }

  static void AddBounds(const TransferPlanner& planner, GpuSection* section) {
    const auto add = [section](const std::string& name, std::size_t bytes) {
      section->Add(name, "bytes", static_cast<double>(bytes));
    };
    const LeftFieldRules by_itself = planner.RulesFor(TransferPlan::kAuto, 0);
    add("auto leaves rows from", by_itself.least_bytes);
    add("auto leaves neighbours from", by_itself.least_neighbour_bytes);
    add("auto copies rows by themselves from", planner.each_bytes());
    add("auto copies gaps up to", planner.most_gap_bytes());
    add("members leaves rows from", planner.RulesFor(TransferPlan::kMembers, 0).least_bytes);
    add("slabs leaves rows from", planner.RulesFor(TransferPlan::kSlabs, 0).least_bytes);
  }

  // Slots are overwritten before each copy, and the device computes the checksum of every batch.
  void Verified(GpuSection* section) {
    for (const std::size_t bytes : kSizes) {
      const MemoryFeedResult fed =
          RunMemoryFeed(device_, Batches(bytes), {.seconds = 2 * seconds_, .verify = true});
      Count(fed.batches, fed.wrong);
      section->Add("verified feed" + At(bytes), "GB/s", fed.bytes_per_s / 1e9);
      section->Add("wrong batches" + At(bytes), "", static_cast<double>(fed.wrong), AtMost(0));
      section->details["batches" + At(bytes)] = fed.batches;
    }
  }

  void Overlap(GpuSection* section) {
    (void)MeasureLoad(device_, Load(), seconds_ / 4);  // clocks settle
    section->details["load"] = Load()->name();
    for (int i = 0; i < kTimes; ++i) {
      const OverlapResult result =
          MeasureOverlap(device_, Load(), Batches(kLargeBatch), seconds_ / 2);
      const double flops = Load()->flops() / result.alone_s;
      section->Add("slowdown of the load", "", result.beside_s / result.alone_s - 1, AtMost(0.03));
      section->Add("efficiency beside it", "of the peak", result.bytes_per_s / Peak(),
                   AtLeast(0.9));
      section->Add("feed beside it", "GB/s", result.bytes_per_s / 1e9);
      if (flops > 0) section->Add("load alone", "TFLOP/s", flops / 1e12);
      load_s_ = result.alone_s;
    }
  }

  void Steps(GpuSection* section) {
    if (load_s_ <= 0 || peaks_.empty()) {
      throw Error(
          Status(StatusCode::kUnsupported, "needs what copies and overlap could not measure"));
    }
    const std::size_t bytes = quick_ ? 4 * kMiB : 64 * kMiB;
    const double copy_s = static_cast<double>(bytes) / (SpreadOf(peaks_).median * 1e9);
    StepsPlan plan;
    plan.loads_per_step =
        static_cast<std::uint64_t>(std::ceil(kSupplyOverDemand * copy_s / load_s_));
    plan.seconds = seconds_;
    StepsPlan waits = plan;
    waits.waits_for_device = true;
    waits.seconds /= 4;
    section->details = {{"load", Load()->name()},
                        {"loads_per_step", plan.loads_per_step},
                        {"batch_bytes", bytes},
                        {"slots", SlotsFor(bytes)}};
    for (int i = 0; i < kTimes; ++i) {
      const StepsResult result = RunSteps(device_, Load(), Batches(bytes), plan);
      const double bare_s = BareWaitSeconds(result.wall_per_step_s);
      const StepsResult waited = RunSteps(device_, Load(), Batches(bytes), waits);
      Count(result.steps(), result.wrong);
      Count(waited.steps(), waited.wrong);
      AddSteps(result, section);
      section->Add("supply over demand", "", QuantileOf(result.steps_s, 0.5) / copy_s);
      AddLeases(result, section);
      section->Add("a bare wait as long as a step", kMicrosecondsOfCpu, bare_s * 1e6);
      section->Add("Next + On + Release of a host that waits for each step", kMicrosecondsOfCpu,
                   QuantileOf(waited.lease_s, 0.5) * 1e6);
      section->Add("calls that block or allocate", "",
                   static_cast<double>(result.host_syncs + result.allocations), AtMost(0));
    }
  }

  static void AddSteps(const StepsResult& result, GpuSection* section) {
    const double stalls_s = Sum(result.stalls_s);
    section->Add("stall", "of the time of steps", stalls_s / (stalls_s + Sum(result.steps_s)),
                 AtMost(0.01));
    section->Add("stall of a step, p99", "ms", QuantileOf(result.stalls_s, 0.99) * 1e3,
                 AtMost(0.1));
    section->Add("step", "ms", QuantileOf(result.steps_s, 0.5) * 1e3);
    section->Add("clock per step", "ms", result.wall_per_step_s * 1e3);
  }

  static void AddLeases(const StepsResult& result, GpuSection* section) {
    const auto median_us = [](const std::vector<double>& times) {
      return QuantileOf(times, 0.5) * 1e6;
    };
    section->Add("Next + On + Release", kMicrosecondsOfCpu, median_us(result.lease_s), AtMost(10));
    section->Add("Next + On + Release, p99", "us of CPU", QuantileOf(result.lease_s, 0.99) * 1e6);
    section->Add("of it Next", kMicrosecondsOfCpu, median_us(result.next_s));
    section->Add("of it On", kMicrosecondsOfCpu, median_us(result.on_s));
    section->Add("of it Release", kMicrosecondsOfCpu, median_us(result.release_s));
    section->Add("sleeps of Next per step", "",
                 static_cast<double>(result.sleeps) / static_cast<double>(result.steps()));
  }

  void Disk(GpuSection* section) {
    const DiskFiles files(static_cast<std::uint64_t>(seconds_ * kDiskBytesPerSecond));
    section->details["bytes"] = files.bytes();
    bool verified = FeedFromDisk(device_, files).verified;  // registers memory
    for (int i = 0; i < kTimes; ++i) {
      const DiskFeedResult result = FeedFromDisk(device_, files);
      const double plain = ReadPlainly(files);
      verified = verified && result.verified;
      section->Add("feed over plain reads", "", result.bytes_per_s / plain, AtLeast(0.95));
      section->Add("feed from the files", "GB/s", result.bytes_per_s / 1e9);
      section->Add("plain O_DIRECT reads", "GB/s", plain / 1e9);
      section->details["io"] = result.io;
    }
    Count(files.checksums().size() * (kTimes + 1), verified ? 0 : 1);
  }

  // Each device alone, then all at once: shows which links, and memory, they share.
  void Together(GpuSection* section) {
    const MemoryBatches& batches = Batches(kLargeBatch);
    const auto feed = [&](std::span<const OwnedDevice> devices, double seconds) {
      std::vector<double> rates;
      for (const MemoryFeedResult& fed : RunMemoryFeeds(devices, batches, seconds)) {
        rates.push_back(fed.bytes_per_s);
        Count(fed.batches, fed.wrong);
      }
      return rates;
    };
    (void)RunMemoryFeeds(devices_, batches, seconds_ / 8);  // registers memory, wakes the links
    for (int i = 0; i < kTimes; ++i) {
      std::vector<double> alone;
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        alone.push_back(feed(std::span(devices_).subspan(d, 1), seconds_ / 2).front());
      }
      const std::vector<double> at_once = feed(devices_, seconds_ / 2);
      const double alone_sum = Sum(alone);
      const double all_sum = Sum(at_once);
      section->Add("at once over one after the other", "", all_sum / alone_sum);
      section->Add("at once", "GB/s, all rates", all_sum / 1e9);
      section->Add("one after the other", "GB/s, all rates", alone_sum / 1e9);
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        section->Add("device " + std::to_string(devices_[d].number) + " beside the others",
                     "of its rate alone", at_once[d] / alone[d]);
      }
    }
    section->details["shared_uplinks"] = SharedUplinks();
  }

  // Of the devices that are measured: {"0000:61:00.0": [0, 1]}.
  Json SharedUplinks() const {
    Json shared = Json::object();
    for (const SharedUplink& uplink : FindTopology(device_.backend.get()).shared_uplinks) {
      Json numbers = Json::array();
      for (const int number : uplink.devices) {
        const auto is_it = [&](const OwnedDevice& device) { return device.number == number; };
        if (std::any_of(devices_.begin(), devices_.end(), is_it)) numbers.push_back(number);
      }
      if (numbers.size() > 1) shared[uplink.bridge] = std::move(numbers);
    }
    return shared;
  }

  static constexpr std::array<std::size_t, 3> kSizes{kMiB, 4 * kMiB, 16 * kMiB};
  static constexpr std::size_t kLargeBatch = 16 * kMiB;
  static constexpr std::array<std::size_t, 2> kMemberSizes{kMiB / 256, kMiB / 64};

  const std::vector<OwnedDevice> devices_;
  const OwnedDevice device_;  ///< the first one
  const double seconds_;
  const bool quick_;                      ///< a quick check, with less memory
  const std::shared_ptr<HostPins> pins_;  ///< held, so that memory is registered once
  std::map<std::size_t, std::unique_ptr<MemoryBatches>> batches_;
  std::unique_ptr<StepLoad> load_;
  std::vector<double> peaks_;  ///< of copies, in GB/s
  double load_s_ = 0;
  GpuBenchReport report_;
  ProgressBar bar_;
};

}  // namespace

std::string GpuBenchReport::MeasuredOn() const {
  return device.value("name", "a device") + (emulated ? " (emulated)" : "") + "; " + ThisMachine();
}

bool GpuBenchReport::complete() const {
  return wrong_batches == 0 &&
         std::all_of(sections.begin(), sections.end(),
                     [](const GpuSection& section) { return section.status.ok(); });
}

GpuBenchReport RunGpuBench(const GpuBenchPlan& plan) { return GpuBench(plan).Run(); }

Json GpuReportJson(const GpuBenchReport& report) {
  Json sections = Json::object();
  for (const GpuSection& section : report.sections) {
    sections[section.name] = SectionJson(section, report.emulated);
  }
  return {{"emulated", report.emulated},
          {"device", report.device},
          {"machine", {{"cpus", CountCpus().usable}, {"kernel", KernelRelease()}}},
          {"ringfeed", RINGFEED_VERSION},
          {"wall_s", report.wall_s},
          {"verified_batches", report.verified_batches},
          {"wrong_batches", report.wrong_batches},
          {"sections", std::move(sections)}};
}

void PrintGpuReport(const GpuBenchReport& report) {
  std::printf("%s\n", report.device.value("name", "").c_str());
  const std::string link = report.device.value("link", "");
  if (!link.empty()) std::printf("link %s\n", link.c_str());
  for (const GpuSection& section : report.sections) PrintSection(section, report.emulated);
  std::printf("\n%s batches verified on the device, %s wrong\n",
              CountText(report.verified_batches).c_str(), CountText(report.wrong_batches).c_str());
}

}  // namespace ringfeed::tools
