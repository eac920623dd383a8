// A feed that chooses how bytes come onto a device (TransferPlan::kAuto) beside each plan that it
// could have chosen: examples of one length, whole passes by one reading thread. The device is
// emulated: its threads stand for hardware, so their CPU time counts for neither side. By the clock
// they do count, since they take turns with the feed's on the same cores.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/bench_data.h"
#include "bench/cold_files.h"
#include "bench/loops.h"
#include "gpu/owned_handles.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/file_reader.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

constexpr std::uint64_t kPassBytes = std::uint64_t{512} << 20;
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;

enum class Pages : std::uint8_t { kCached, kDropped };

/// Examples of one length.
struct Lengths {
  const char* name;
  std::size_t image_bytes;
};
constexpr Lengths kLengths[] = {
    {"250b", 250}, {"1500b", 1500}, {"3kb", 3000}, {"8kb", 8000}, {"110kb", 110'000}};
constexpr const Lengths& kLongest = kLengths[std::size(kLengths) - 1];

// CPU time of the threads of emulated devices that live now.
double DeviceSeconds() {
  double seconds = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    double own_ns = 0;
    std::ifstream(task.path() / "comm") >> name;
    if (name != "ringfeed-emu") continue;
    std::ifstream(task.path() / "schedstat") >> own_ns;
    seconds += own_ns / 1e9;
  }
  return seconds;
}

/// What a feed has of memory, and how it cuts the rows.
struct FeedShape {
  std::size_t arena_bytes = std::size_t{512} << 20;
  std::size_t batch_rows = 0;  ///< 0: about kBatchBytes
};

/// A feed of its own, with a device and an arena of its own.
class TransferFeed {
 public:
  TransferFeed(BenchFiles files, const Lengths& lengths, Pages pages, TransferPlan plan,
               FeedShape shape)
      : files_(std::move(files)),
        bytes_(files_.records * lengths.image_bytes),
        pages_(pages),
        devices_(EmulatedDevices::Open(1)),
        stream_({devices_, 0}) {
    OpenOptions open;
    open.threads = 1;
    open.arena = std::make_shared<PinnedArena>(shape.arena_bytes);
    // Mapped files are not pinned: the CPU would copy them whatever is planned.
    if (pages == Pages::kCached) open.io.path = IoPath::kPread;
    Reader chain = Parse(OpenFiles(files_.paths, open),
                         ExampleParser({{"image", kUInt8, {-1}}, {"label", kInt64, {1}}}));
    FeedOptions options;
    options.backend = devices_;
    options.transfer = plan;
    if (shape.batch_rows == 0) {
      shape.batch_rows = std::min<std::size_t>(kBatchBytes / lengths.image_bytes, 8192);
    }
    feed_ = std::make_unique<DeviceFeed>(Batch(chain, {.size = shape.batch_rows}), options);
  }

  /// What the host takes for one pass, its start included.
  LoopResult ReadPass() {
    LoopResult result;
    if (pages_ == Pages::kDropped) result.failure = DropFromMemory(files_.paths);
    if (!result.failure.empty()) return result;
    const double device_s = DeviceSeconds();
    const Timer timer(Timer::Of::kProcess);
    feed_->ReInit();
    while (std::optional<DeviceLease> lease = feed_->Next()) {
      (void)lease->On(stream_.get());
      result.records += lease->rows();
    }
    timer.Stop(&result);
    result.cpu_s -= DeviceSeconds() - device_s;
    result.bytes = bytes_;
    if (result.records != files_.records) result.failure = "records are missing";
    return result;
  }

 private:
  const BenchFiles files_;
  const std::uint64_t bytes_;
  const Pages pages_;
  const std::shared_ptr<EmulatedDevices> devices_;
  const OwnedStream stream_;
  std::unique_ptr<DeviceFeed> feed_;
};

std::shared_ptr<TransferFeed> StartFeed(const BenchFiles& files, const Lengths& lengths,
                                        Pages pages, TransferPlan plan, FeedShape shape = {}) {
  if (pages == Pages::kCached) BringIntoMemory(files);
  return std::make_shared<TransferFeed>(files, lengths, pages, plan, shape);
}

Pair StartPair(const Lengths& lengths, Pages pages, TransferPlan plan, TransferPlan forced,
               FeedShape shape = {}) {
  const BenchFiles files = ImageExamples(kPassBytes, 4, lengths.image_bytes);
  const auto chosen = StartFeed(files, lengths, pages, plan, shape);
  const auto other = StartFeed(files, lengths, pages, forced, shape);
  return {[chosen] { return chosen->ReadPass(); }, [other] { return other->ReadPass(); }};
}

// Reads alone: from the page cache by pread into memory that the processor's cache holds, else by
// fio past the page cache.
LoopResult ReadAlone(const BenchFiles& files, Pages pages) {
  if (pages == Pages::kDropped) {
    return RunFio({.paths = files.paths, .block_bytes = kReadBytes});
  }
  return Timed([&](LoopResult* result, BatchDigest* /*digest*/) {
    ForEachBlock(files.paths, [&](std::span<const std::byte> block) {
      result->bytes += block.size();
      return block.size();
    });
  });
}

Pair StartBesideReads(Pages pages, TransferPlan plan, std::size_t batch_rows) {
  const BenchFiles files = ImageExamples(kPassBytes, 4, kLongest.image_bytes);
  const auto feed = StartFeed(files, kLongest, pages, plan, {.batch_rows = batch_rows});
  return {[feed] { return feed->ReadPass(); }, [files, pages] { return ReadAlone(files, pages); },
          [pages] { return pages == Pages::kDropped ? WhyNoFio() : std::string(); }};
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  constexpr Measure kCpu{
      "CPU s/GB", [](const LoopResult& r) { return r.cpu_s * 1e9 / static_cast<double>(r.bytes); }};
  constexpr Measure kClock{
      "s/GB", [](const LoopResult& r) { return r.wall_s * 1e9 / static_cast<double>(r.bytes); }};
  std::vector<Work> works;
  const auto both = [&](const std::string& name, std::function<Pair()> start) {
    works.push_back({{{name, kCpu}, {name + "_clock", kClock}}, std::move(start)});
  };
  for (const Pages pages : {Pages::kCached, Pages::kDropped}) {
    const std::string state = pages == Pages::kCached ? "_warm" : "_cold";
    for (const Lengths& lengths : kLengths) {
      for (const TransferPlan plan :
           {TransferPlan::kBatch, TransferPlan::kMembers, TransferPlan::kSlabs}) {
        both("transfer." + std::string(lengths.name) + state + "_vs_" +
                 std::string(TransferPlanName(plan)),
             [=] { return StartPair(lengths, pages, TransferPlan::kAuto, plan); });
      }
    }
    for (const TransferPlan plan : {TransferPlan::kBatch, TransferPlan::kMembers,
                                    TransferPlan::kSlabs, TransferPlan::kAuto}) {
      for (const std::size_t rows : {std::size_t{64}, std::size_t{256}}) {
        both("transfer." + std::string(TransferPlanName(plan)) + state + "_" +
                 std::to_string(rows) + "_rows_vs_reads",
             [=] { return StartBesideReads(pages, plan, rows); });
      }
    }
  }
  for (const TransferPlan plan :
       {TransferPlan::kMembers, TransferPlan::kSlabs, TransferPlan::kAuto}) {
    both("transfer." + std::string(TransferPlanName(plan)) + "_cold_256_mib_vs_batch", [=] {
      return StartPair(kLongest, Pages::kDropped, plan, TransferPlan::kBatch,
                       {.arena_bytes = std::size_t{256} << 20});
    });
  }
  return works;
}

}  // namespace ringfeed::bench
