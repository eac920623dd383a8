#include "tools/bench/machine_limits.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <thread>

#include "base/crc32c.h"
#include "base/machine/thread_start.h"
#include "base/scoped_descriptor.h"
#include "base/stream_copy.h"
#include "io/page_cache.h"
#include "tools/process_usage.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::size_t kMemory = std::size_t{64} << 20;  // more than a thread's share of a cache
constexpr int kColdReads = 16;

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, Freed>;

// Memory for each thread, touched before the time begins.
std::vector<AlignedMemory> MemoryOf(int threads, std::size_t bytes = kMemory) {
  std::vector<AlignedMemory> memory(static_cast<std::size_t>(threads));
  for (AlignedMemory& of_thread : memory) {
    of_thread.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    if (of_thread == nullptr) throw std::bad_alloc();
    std::fill_n(of_thread.get(), bytes, std::byte{1});
  }
  return memory;
}

// Runs step(thread), which returns how many bytes it did, 0 for the end, on several threads over
// and over for so long. The first Error that one throws becomes the limit's status.
void Measure(int threads, double seconds, const std::function<std::size_t(std::size_t)>& step,
             MachineLimit* limit) {
  std::atomic<std::uint64_t> bytes{0};
  std::mutex mutex;  // guards the status
  const double begin_s = NowSeconds();
  const auto loop = [&](std::size_t thread) {
    try {
      while (NowSeconds() - begin_s < seconds) {
        const std::size_t done = step(thread);
        if (done == 0) return;
        bytes.fetch_add(done, std::memory_order_relaxed);
      }
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      if (limit->status.ok()) limit->status = error.status();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t thread = 0; thread < static_cast<std::size_t>(threads); ++thread) {
      workers.push_back(StartThread("a thread that measures", [&, thread] { loop(thread); }));
    }
  }
  limit->gb_per_s =
      static_cast<double>(bytes.load(std::memory_order_relaxed)) / 1e9 / (NowSeconds() - begin_s);
}

MachineLimit CopyLimit(const LimitsPlan& plan) {
  MachineLimit limit{"copy", "memory to memory, past the caches"};
  const std::vector<AlignedMemory> from = MemoryOf(plan.threads);
  const std::vector<AlignedMemory> to = MemoryOf(plan.threads);
  const auto copy = [&](std::size_t thread) {
    StreamCopy(to[thread].get(), from[thread].get(), kMemory);
    StreamFence();
    return kMemory;
  };
  Measure(plan.threads, plan.seconds, copy, &limit);
  return limit;
}

MachineLimit ChecksumLimit(const LimitsPlan& plan) {
  MachineLimit limit{"checksum", "CRC-32C of memory"};
  const std::vector<AlignedMemory> memory = MemoryOf(plan.threads);
  std::atomic<std::uint32_t> seen{0};  // keeps sums from being optimised away
  const auto check = [&](std::size_t thread) {
    for (std::size_t at = 0; at < kMemory; at += kBlock) {
      const std::uint32_t sum = Crc32c({memory[thread].get() + at, kBlock});
      seen.fetch_xor(sum, std::memory_order_relaxed);
    }
    return kMemory;
  };
  Measure(plan.threads, plan.seconds, check, &limit);
  return limit;
}

/// Blocks of files, a block of each in turn: each once, or again and again.
class BlockReads {
 public:
  /// Throws Error.
  BlockReads(const std::vector<std::string>& files, bool cold) : cold_(cold) {
    std::uint64_t most_bytes = 0;
    for (const std::string& name : files) {
      Open(name);
      most_bytes = std::max(most_bytes, bytes_.back());
    }
    for (std::uint64_t at = 0; at < most_bytes; at += kBlock) {
      for (std::size_t file = 0; file < files_.size(); ++file) {
        if (at < bytes_[file]) blocks_.push_back({file, at});
      }
    }
  }

  bool direct() const { return direct_; }

  /// Reads the next block into `to`; 0 at the end of cold files, or if there are none. Throws
  /// Error.
  std::size_t Read(std::byte* to) {
    const std::uint64_t turn = next_.fetch_add(1, std::memory_order_relaxed);
    if (blocks_.empty() || (cold_ && turn >= blocks_.size())) return 0;
    const auto [file, at] = blocks_[turn % blocks_.size()];
    const ssize_t got = pread(files_[file]->get(), to, kBlock, static_cast<off_t>(at));
    if (got < 0) throw Error(StatusFromErrno(errno, "read the files plainly"));
    return static_cast<std::size_t>(got);
  }

 private:
  struct Block {
    std::size_t file;
    std::uint64_t at;
  };

  void Open(const std::string& name) {
    if (cold_) Require(DropFromPageCache(name));
    int descriptor = cold_ ? open(name.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT) : -1;
    direct_ = direct_ && descriptor >= 0;
    if (descriptor < 0) descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw Error(StatusFromErrno(errno, "open " + name));
    files_.push_back(std::make_unique<ScopedDescriptor>(descriptor));
    const off_t bytes = lseek(descriptor, 0, SEEK_END);
    bytes_.push_back(bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0);
  }

  const bool cold_;
  bool direct_ = true;
  std::vector<std::unique_ptr<ScopedDescriptor>> files_;
  std::vector<std::uint64_t> bytes_;  ///< of each file
  std::vector<Block> blocks_;
  std::atomic<std::uint64_t> next_{0};
};

/// Pinned memory that is copied to a device again and again.
class LinkCopies {
 public:
  explicit LinkCopies(const OwnedDevice& device)
      : device_(device), from_(MemoryOf(1)), to_(device, kMemory), stream_(device) {
    Require(device_.backend->BindThread(device_.number));
    Require(device_.backend->RegisterHost(from_[0].get(), kMemory));
  }
  ~LinkCopies() { (void)device_.backend->UnregisterHost(from_[0].get()); }
  LinkCopies(const LinkCopies&) = delete;
  LinkCopies& operator=(const LinkCopies&) = delete;

  std::size_t Copy() {
    Require(device_.backend->BindThread(device_.number));
    Require(device_.backend->CopyToDevice(stream_.get(), to_.data(), from_[0].get(), kMemory));
    stream_.Sync();
    return kMemory;
  }

 private:
  const OwnedDevice device_;
  const std::vector<AlignedMemory> from_;
  const OwnedMemory to_;
  const OwnedStream stream_;
};

MachineLimit LinkLimit(const LimitsPlan& plan) {
  const std::size_t count = plan.devices.size();
  MachineLimit limit{"link", "pinned memory to "};
  limit.what += count == 1 ? "the device" : std::to_string(count) + " devices at once";
  try {
    std::vector<std::unique_ptr<LinkCopies>> links;
    for (const OwnedDevice& device : plan.devices) {
      links.push_back(std::make_unique<LinkCopies>(device));
    }
    const auto copy = [&](std::size_t thread) { return links[thread]->Copy(); };
    Measure(static_cast<int>(count), plan.seconds, copy, &limit);
  } catch (const Error& error) {
    limit.status = error.status();
  }
  return limit;
}

}  // namespace

MachineLimit ReadLimit(const std::vector<std::string>& files, bool cold, int threads,
                       double seconds) {
  MachineLimit limit{"read", "the files by pread, from the page cache"};
  if (cold) {
    threads = kColdReads;
    limit.what =
        "the files by pread of 1 MiB, " + std::to_string(kColdReads) + " at a time, O_DIRECT";
  }
  try {
    BlockReads reads(files, cold);
    if (cold && !reads.direct()) limit.what.resize(limit.what.find(", O_DIRECT"));
    const std::vector<AlignedMemory> to = MemoryOf(threads, kBlock);
    const auto read = [&](std::size_t thread) { return reads.Read(to[thread].get()); };
    Measure(threads, seconds, read, &limit);
  } catch (const Error& error) {
    limit.status = error.status();
  }
  return limit;
}

std::vector<MachineLimit> MeasureLimits(const LimitsPlan& plan) {
  std::vector<MachineLimit> limits;
  if (plan.reads) limits.push_back(ReadLimit(plan.files, plan.cold, plan.threads, plan.seconds));
  if (plan.checks) limits.push_back(ChecksumLimit(plan));
  if (plan.copies) limits.push_back(CopyLimit(plan));
  if (!plan.devices.empty()) limits.push_back(LinkLimit(plan));
  return limits;
}

}  // namespace ringfeed::tools
