#include "tools/bench/gpu_bench.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/cpu_count.h"
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
    Section("copies", [this](GpuSection* section) { Copies(section); });
    Section("costs", [this](GpuSection* section) { Costs(section); });
    Section("verified", [this](GpuSection* section) { Verified(section); });
    // Now, as a link at rest may be slowed down.
    DescribeDevice();
    Section("overlap", [this](GpuSection* section) { Overlap(section); });
    Section("steps", [this](GpuSection* section) { Steps(section); });
    Section("disk", [this](GpuSection* section) { Disk(section); });
    if (devices_.size() > 1) {
      Section("together", [this](GpuSection* section) { Together(section); });
    }
    report_.wall_s = NowSeconds() - begin_s;
    return std::move(report_);
  }

 private:
  void Section(const char* name, const std::function<void(GpuSection*)>& measure) {
    GpuSection section{.name = name};
    try {
      measure(&section);
    } catch (const Error& error) {
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
    GpuFigure peak{"peak of pinned copies", "GB/s", {}, {}};
    std::vector<GpuFigure> rates;
    std::vector<GpuFigure> ratios;
    std::vector<GpuFigure> cpu;
    for (const std::size_t bytes : kSizes) {
      const std::string at = " at " + BytesText(bytes);
      rates.push_back({"feed" + at, "GB/s", {}, {}});
      ratios.push_back(
          {"efficiency" + at, "of the peak", {}, AtLeast(bytes < 4 * kMiB ? 0.9 : 0.95)});
      cpu.push_back({"CPU" + at, "CPU s/GB", {}, {}});
      section->details["slots" + at] = SlotsFor(bytes);
    }
    (void)Peak();  // the first one registers memory and wakes the link
    for (int i = 0; i < kTimes; ++i) {
      peak.samples.push_back(Peak() / 1e9);
      for (std::size_t s = 0; s < kSizes.size(); ++s) {
        const MemoryFeedResult fed =
            RunMemoryFeed(device_, Batches(kSizes[s]), {.seconds = seconds_});
        rates[s].samples.push_back(fed.bytes_per_s / 1e9);
        ratios[s].samples.push_back(fed.bytes_per_s / 1e9 / peak.samples.back());
        cpu[s].samples.push_back(fed.cpu_s_per_gb);
      }
    }
    peak_ = peak;
    section->figures = {peak};
    for (const auto* figures : {&ratios, &rates, &cpu}) {
      section->figures.insert(section->figures.end(), figures->begin(), figures->end());
    }
  }

  // The costs by which a feed chooses (TransferCosts), and its choice.
  void Costs(GpuSection* section) {
    if (peak_.samples.empty()) {
      throw Error(Status(StatusCode::kUnsupported, "needs what copies could not measure"));
    }
    GpuFigure copy{"copy_ns_per_kib", "ns", {}, {}};
    GpuFigure link{"link_ns_per_kib", "ns", {}, {}};
    GpuFigure member{"member_ns", "ns", {}, {}};
    GpuFigure row{"row_ns", "ns", {}, {}};
    const CostRows rows(device_, pins_.get(), Batches(kLargeBatch));
    for (const double gb_per_s : peak_.samples) {
      copy.samples.push_back(rows.CopyNsPerKib());
      link.samples.push_back(1024 / gb_per_s);
      double members_ns = 0;
      for (const std::size_t bytes : kMemberSizes) {
        members_ns += rows.MemberNs(bytes, link.samples.back(), seconds_ / 8);
      }
      member.samples.push_back(members_ns / static_cast<double>(kMemberSizes.size()));
      row.samples.push_back(rows.RowNs(seconds_ / 8));
    }
    section->figures = {copy, link, member, row};
    const TransferCosts costs{copy.Median(), link.Median(), member.Median(), row.Median()};
    Require(costs.Check());
    report_.costs = costs;
    AddBounds(TransferPlanner(costs), &section->figures);
  }

  static void AddBounds(const TransferPlanner& planner, std::vector<GpuFigure>* figures) {
    const auto add = [figures](const std::string& name, std::size_t bytes) {
      figures->push_back({name, "bytes", {static_cast<double>(bytes)}, {}});
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
      const std::string at = " at " + BytesText(bytes);
      section->figures.push_back({"verified feed" + at, "GB/s", {fed.bytes_per_s / 1e9}, {}});
      section->figures.push_back(
          {"wrong batches" + at, "", {static_cast<double>(fed.wrong)}, AtMost(0)});
      section->details["batches" + at] = fed.batches;
    }
  }

  void Overlap(GpuSection* section) {
    GpuFigure slowdown{"slowdown of the load", "", {}, AtMost(0.03)};
    GpuFigure rate{"feed beside it", "GB/s", {}, {}};
    GpuFigure ratio{"efficiency beside it", "of the peak", {}, AtLeast(0.9)};
    GpuFigure flops{"load alone", "TFLOP/s", {}, {}};
    (void)MeasureLoad(device_, Load(), seconds_ / 4);  // clocks settle
    for (int i = 0; i < kTimes; ++i) {
      const OverlapResult result =
          MeasureOverlap(device_, Load(), Batches(kLargeBatch), seconds_ / 2);
      const double peak = Peak();
      slowdown.samples.push_back(result.beside_s / result.alone_s - 1);
      rate.samples.push_back(result.bytes_per_s / 1e9);
      ratio.samples.push_back(result.bytes_per_s / peak);
      flops.samples.push_back(Load()->flops() / result.alone_s / 1e12);
      load_s_ = result.alone_s;
    }
    section->details["load"] = Load()->name();
    section->figures = {slowdown, ratio, rate};
    if (Load()->flops() > 0) section->figures.push_back(flops);
  }

  void Steps(GpuSection* section) {
    if (load_s_ <= 0 || peak_.samples.empty()) {
      throw Error(
          Status(StatusCode::kUnsupported, "needs what copies and overlap could not measure"));
    }
    const std::size_t bytes = quick_ ? 4 * kMiB : 64 * kMiB;
    const double copy_s = static_cast<double>(bytes) / (peak_.Median() * 1e9);
    StepsPlan plan;
    plan.loads_per_step =
        static_cast<std::uint64_t>(std::ceil(kSupplyOverDemand * copy_s / load_s_));
    plan.seconds = seconds_;
    GpuFigure stall{"stall", "of the time of steps", {}, AtMost(0.01)};
    GpuFigure p99{"stall of a step, p99", "ms", {}, AtMost(0.1)};
    GpuFigure step{"step", "ms", {}, {}};
    GpuFigure wall{"clock per step", "ms", {}, {}};
    GpuFigure supply{"supply over demand", "", {}, {}};
    GpuFigure lease{"Next + On + Release", "us of CPU, median", {}, AtMost(10)};
    GpuFigure lease_p99{"Next + On + Release, p99", "us of CPU", {}, {}};
    GpuFigure next{"of it Next", "us of CPU, median", {}, {}};
    GpuFigure on{"of it On", "us of CPU, median", {}, {}};
    GpuFigure release{"of it Release", "us of CPU, median", {}, {}};
    GpuFigure sleeps{"sleeps of Next per step", "", {}, {}};
    GpuFigure waiting{
        "Next + On + Release of a host that waits for each step", "us of CPU, median", {}, {}};
    GpuFigure bare{"a bare wait as long as a step", "us of CPU, median", {}, {}};
    GpuFigure blocked{"calls that block or allocate", "", {}, AtMost(0)};
    for (int i = 0; i < kTimes; ++i) {
      const StepsResult result = RunSteps(device_, Load(), Batches(bytes), plan);
      Count(result.steps, result.wrong);
      stall.samples.push_back(result.stall_share);
      p99.samples.push_back(result.stall_p99_s * 1e3);
      step.samples.push_back(result.step_s * 1e3);
      wall.samples.push_back(result.wall_per_step_s * 1e3);
      supply.samples.push_back(result.step_s / copy_s);
      lease.samples.push_back(result.lease_median_s * 1e6);
      lease_p99.samples.push_back(result.lease_p99_s * 1e6);
      next.samples.push_back(result.next_s * 1e6);
      on.samples.push_back(result.on_s * 1e6);
      release.samples.push_back(result.release_s * 1e6);
      sleeps.samples.push_back(result.sleeps_per_step);
      bare.samples.push_back(BareWaitSeconds(result.wall_per_step_s) * 1e6);
      StepsPlan waits = plan;
      waits.waits_for_device = true;
      waits.seconds /= 4;
      const StepsResult waited = RunSteps(device_, Load(), Batches(bytes), waits);
      Count(waited.steps, waited.wrong);
      waiting.samples.push_back(waited.lease_median_s * 1e6);
      blocked.samples.push_back(static_cast<double>(result.host_syncs + result.allocations));
    }
    section->details = {{"load", Load()->name()},
                        {"loads_per_step", plan.loads_per_step},
                        {"batch_bytes", bytes},
                        {"slots", SlotsFor(bytes)}};
    section->figures = {stall, p99, step,    wall,   supply, lease,   lease_p99,
                        next,  on,  release, sleeps, bare,   waiting, blocked};
  }

  void Disk(GpuSection* section) {
    const DiskFiles files(static_cast<std::uint64_t>(seconds_ * kDiskBytesPerSecond));
    section->details["bytes"] = files.bytes();
    GpuFigure raw{"plain O_DIRECT reads", "GB/s", {}, {}};
    GpuFigure fed{"feed from the files", "GB/s", {}, {}};
    GpuFigure ratio{"feed over plain reads", "", {}, AtLeast(0.95)};
    bool verified = FeedFromDisk(device_, files).verified;  // registers memory
    for (int i = 0; i < kTimes; ++i) {
      const DiskFeedResult result = FeedFromDisk(device_, files);
      const double plain = ReadPlainly(files);
      verified = verified && result.verified;
      raw.samples.push_back(plain / 1e9);
      fed.samples.push_back(result.bytes_per_s / 1e9);
      ratio.samples.push_back(result.bytes_per_s / plain);
      section->details["io"] = result.io;
    }
    section->figures = {ratio, fed, raw};
    Count(files.checksums().size() * (kTimes + 1), verified ? 0 : 1);
  }

  // Each device alone, then all at once: shows which links, and memory, they share.
  void Together(GpuSection* section) {
    const MemoryBatches& batches = Batches(kLargeBatch);
    std::vector<GpuFigure> rates;
    for (const OwnedDevice& device : devices_) {
      rates.push_back({"device " + std::to_string(device.number) + " beside the others",
                       "of its rate alone",
                       {},
                       {}});
    }
    GpuFigure alone{"one after the other", "GB/s, all rates", {}, {}};
    GpuFigure all{"at once", "GB/s, all rates", {}, {}};
    GpuFigure share{"at once over one after the other", "", {}, {}};
    (void)RunMemoryFeeds(devices_, batches, seconds_ / 8);  // registers memory, wakes the links
    for (int i = 0; i < kTimes; ++i) {
      double alone_sum = 0;
      double all_sum = 0;
      std::vector<double> by_itself;
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        const auto fed = RunMemoryFeeds(std::span(devices_).subspan(d, 1), batches, seconds_ / 2);
        by_itself.push_back(fed.front().bytes_per_s);
        alone_sum += by_itself.back();
        Count(fed.front().batches, fed.front().wrong);
      }
      const std::vector<MemoryFeedResult> fed = RunMemoryFeeds(devices_, batches, seconds_ / 2);
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        rates[d].samples.push_back(fed[d].bytes_per_s / by_itself[d]);
        all_sum += fed[d].bytes_per_s;
        Count(fed[d].batches, fed[d].wrong);
      }
      alone.samples.push_back(alone_sum / 1e9);
      all.samples.push_back(all_sum / 1e9);
      share.samples.push_back(all_sum / alone_sum);
    }
    section->details["shared_uplinks"] = SharedUplinks();
    section->figures = {share, all, alone};
    section->figures.insert(section->figures.end(), rates.begin(), rates.end());
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
  GpuFigure peak_;  ///< of copies, in GB/s
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
