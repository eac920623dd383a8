#include "tools/bench/gpu_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/random_bits.h"
#include "base/scoped_descriptor.h"
#include "io/page_cache.h"
#include "readers/formats/writing/output_file.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kernels.h"
#include "tools/bench/gpu_device.h"
#include "tools/bench/machine_limits.h"
#include "tools/feed/feed_plan.h"
#include "tools/process_usage.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kFiles = 8;

FeedPlan PlanOf(const DiskFiles& files) {
  FeedPlan plan;
  plan.files = files.names();
  plan.open.format = "rows:" + std::to_string(DiskFiles::kRowBytes);
  // A batch is a stripe of one file, whatever the order of stripes.
  plan.open.stripe_bytes = DiskFiles::kBatchBytes;
  plan.parse = "rows: u1[" + std::to_string(DiskFiles::kRowBytes) + "]";
  plan.batch = DiskFiles::kBatchBytes / DiskFiles::kRowBytes;
  return plan;
}

}  // namespace

DiskFiles::DiskFiles(std::uint64_t bytes) {
  std::error_code failure;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(failure);
  if (failure) {
    throw Error(StatusFromErrno(failure.value(), "find the temporary directory (TMPDIR)"));
  }
  std::string folder = (parent / "ringfeed-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    throw Error(StatusFromErrno(errno, "make a folder in " + parent.string()));
  }
  folder_ = folder;
  const std::uint64_t batches = std::max<std::uint64_t>(bytes / kFiles / kBatchBytes, 1);
  try {
    Write(batches * kBatchBytes);
  } catch (...) {
    std::filesystem::remove_all(folder_, failure);
    throw;
  }
}

DiskFiles::~DiskFiles() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void DiskFiles::Write(std::uint64_t file_bytes) {
  std::vector<std::byte> batch(kBatchBytes);
  RandomBits random(6);
  for (std::size_t f = 0; f < kFiles; ++f) {
    names_.push_back(folder_ + "/part-" + std::to_string(f) + ".rows");
    OutputFile file(names_.back());
    Require(file.Open());
    for (std::uint64_t at = 0; at < file_bytes; at += kBatchBytes) {
      random.Fill(batch);
      Require(file.Append(batch));
      RunKernelOnHost(Checksum{batch.data(), batch.size(), &checksums_.emplace_back()});
    }
    Require(file.Commit());
    bytes_ += file_bytes;
  }
  std::sort(checksums_.begin(), checksums_.end());
}

void DiskFiles::MakeCold() const {
  for (const std::string& name : names_) {
    const Status status = DropFromPageCache(name);
    if (!status.ok()) throw Error(status);
    if (CachedShare(name) < 0.1) continue;
    throw Error(Status(StatusCode::kUnsupported,
                       name + " stays in memory: TMPDIR names a folder on a disk"));
  }
}

double ReadPlainly(const DiskFiles& files) {
  const std::string& first = files.names().front();
  const ScopedDescriptor direct(open(first.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (direct.get() < 0) throw Error(StatusFromErrno(errno, "read " + first + " with O_DIRECT"));
  files.MakeCold();
  const MachineLimit read = ReadLimit(files.names(), true, 1);
  Require(read.status);
  return read.gb_per_s * 1e9;
}

DiskFeedResult FeedFromDisk(const OwnedDevice& device, const DiskFiles& files) {
  Require(device.backend->BindThread(device.number));
  const FeedPlan plan = PlanOf(files);
  files.MakeCold();
  const OwnedStream stream(device);
  CheckedSums sums(device, files.checksums().size() + 1);
  FeedOptions options;
  options.backend = device.backend;
  options.devices = {device.number};
  options.slots = 4;
  const Reader chain = BuildChain(plan);
  const double begin_s = NowSeconds();
  DeviceFeed feed(chain, options);
  while (std::optional<DeviceLease> lease = feed.Next()) {
    const Tensor& tensor = lease->On(stream.get()).front();
    if (!sums.full()) sums.Add(stream, tensor);
  }
  std::vector<std::uint64_t> seen = sums.Collect(stream);
  DiskFeedResult result;
  result.bytes_per_s = static_cast<double>(files.bytes()) / (NowSeconds() - begin_s);
  std::sort(seen.begin(), seen.end());
  result.verified = seen == files.checksums();
  const PipelineStats stats = chain.Stats();
  if (!stats.io.empty()) result.io = IoPathText(stats.io.front());
  return result;
}

}  // namespace ringfeed::tools
