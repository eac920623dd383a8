#include "tools/bench/gpu_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/machine/signals_blocked.h"
#include "base/random_bits.h"
#include "io/page_cache.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kernels.h"
#include "tools/bench/gpu_device.h"
#include "tools/feed/feed_plan.h"
#include "tools/process_usage.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kFiles = 8;
constexpr std::size_t kReaders = 16;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kDirectBoundary = 4096;

class OpenFile {
 public:
  OpenFile(const std::string& name, int flags) : descriptor_(open(name.c_str(), flags, 0600)) {
    if (descriptor_ < 0) throw Error(StatusFromErrno(errno, "open " + name));
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenFile& operator=(OpenFile&&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

void WriteAll(const OpenFile& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Error(StatusFromErrno(errno, "write the files to measure"));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

struct FreeAligned {
  void operator()(std::byte* data) const { std::free(data); }
};

// Blocks of all files, taken by free threads.
struct PlainReads {
  std::vector<OpenFile> files;
  std::uint64_t blocks_of_file = 0;
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failure{0};  // an errno

  void ReadUntilEnd() {
    const std::unique_ptr<std::byte, FreeAligned> buffer(
        static_cast<std::byte*>(std::aligned_alloc(kDirectBoundary, kBlockBytes)));
    if (buffer == nullptr) failure.store(ENOMEM, std::memory_order_relaxed);
    const std::uint64_t blocks = blocks_of_file * files.size();
    while (failure.load(std::memory_order_relaxed) == 0) {
      const std::uint64_t block = next.fetch_add(1, std::memory_order_relaxed);
      if (block >= blocks) return;
      // All files at a time, each in its order.
      const auto at = static_cast<off_t>(block / files.size() * kBlockBytes);
      const ssize_t got = pread(files[block % files.size()].get(), buffer.get(), kBlockBytes, at);
      if (got == static_cast<ssize_t>(kBlockBytes)) continue;
      failure.store(got < 0 ? errno : EIO, std::memory_order_relaxed);
    }
  }
};

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
    const OpenFile file(names_.back(), O_WRONLY | O_CREAT | O_CLOEXEC);
    for (std::uint64_t at = 0; at < file_bytes; at += kBatchBytes) {
      random.Fill(batch);
      WriteAll(file, batch);
      RunKernelOnHost(Checksum{batch.data(), batch.size(), &checksums_.emplace_back()});
    }
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
  PlainReads reads;
  for (const std::string& name : files.names()) {
    reads.files.emplace_back(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
  }
  reads.blocks_of_file = files.bytes() / files.names().size() / kBlockBytes;
  files.MakeCold();
  const double begin_s = NowSeconds();
  {
    std::vector<std::jthread> readers;
    const SignalsBlocked blocked;
    for (std::size_t r = 0; r < kReaders; ++r) {
      readers.emplace_back([&reads] { reads.ReadUntilEnd(); });
    }
  }
  const double seconds = NowSeconds() - begin_s;
  const int failure = reads.failure.load(std::memory_order_relaxed);
  if (failure != 0) throw Error(StatusFromErrno(failure, "read with O_DIRECT"));
  return static_cast<double>(files.bytes()) / seconds;
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
  if (!stats.io.empty()) {
    result.io = std::string(IoPathName(stats.io.front().path)) +
                (stats.io.front().direct ? ", O_DIRECT" : "");
  }
  return result;
}

}  // namespace ringfeed::tools
