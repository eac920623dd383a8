#include "tools/tune/machine_limits.h"

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

AlignedMemory Allocate(std::size_t bytes) {
  AlignedMemory memory(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  std::fill_n(memory.get(), bytes, std::byte{1});
  return memory;
}

// Runs step(thread), which returns how many bytes it did, 0 for the end, on several threads over
// and over. Returns bytes per second of all of them.
double RateOf(int threads, double seconds, const std::function<std::size_t(int)>& step) {
  std::atomic<std::uint64_t> bytes{0};
  const double begin_s = NowSeconds();
  {
    std::vector<std::jthread> workers;
    for (int thread = 0; thread < threads; ++thread) {
      workers.push_back(StartThread("a thread that measures", [&, thread] {
        while (NowSeconds() - begin_s < seconds) {
          const std::size_t done = step(thread);
          if (done == 0) return;
          bytes.fetch_add(done, std::memory_order_relaxed);
        }
      }));
    }
  }
  return static_cast<double>(bytes.load(std::memory_order_relaxed)) / (NowSeconds() - begin_s);
}

// Each thread has its own memory from the start, touched before the time begins.
std::vector<AlignedMemory> MemoryOf(int threads) {
  std::vector<AlignedMemory> memory;
  for (int thread = 0; thread < threads; ++thread) memory.push_back(Allocate(kMemory));
  return memory;
}

MachineLimit CopyLimit(const LimitsPlan& plan) {
  const std::vector<AlignedMemory> from = MemoryOf(plan.threads);
  const std::vector<AlignedMemory> to = MemoryOf(plan.threads);
  const double rate = RateOf(plan.threads, plan.seconds, [&](int thread) {
    const auto at = static_cast<std::size_t>(thread);
    StreamCopy(to[at].get(), from[at].get(), kMemory);
    StreamFence();
    return kMemory;
  });
  return {"copy", "memory to memory, past the caches", rate / 1e9, {}};
}

MachineLimit ChecksumLimit(const LimitsPlan& plan) {
  const std::vector<AlignedMemory> memory = MemoryOf(plan.threads);
  std::atomic<std::uint32_t> seen{0};  // keeps sums from being optimised away
  const double rate = RateOf(plan.threads, plan.seconds, [&](int thread) {
    const std::byte* const data = memory[static_cast<std::size_t>(thread)].get();
    for (std::size_t at = 0; at < kMemory; at += kBlock) {
      seen.fetch_xor(Crc32c({data + at, kBlock}), std::memory_order_relaxed);
    }
    return kMemory;
  });
  return {"checksum", "CRC-32C of memory", rate / 1e9, {}};
}

/// Blocks of files, each read once, or again and again.
class BlockReads {
 public:
  explicit BlockReads(const LimitsPlan& plan) : cold_(plan.cold) {
    for (const std::string& name : plan.files) Open(name);
  }
  ~BlockReads() {
    for (const File& file : files_) close(file.descriptor);
  }
  BlockReads(const BlockReads&) = delete;
  BlockReads& operator=(const BlockReads&) = delete;

  const Status& status() const { return status_; }
  bool direct() const { return direct_; }

  /// Reads the next block into `to`; 0 at the end of cold files, or if there are none.
  std::size_t Read(std::byte* to) {
    if (blocks_ == 0) return 0;
    const std::uint64_t turn = next_.fetch_add(1, std::memory_order_relaxed);
    if (cold_ && turn >= blocks_) return 0;
    std::uint64_t block = turn % blocks_;
    for (const File& file : files_) {
      if (block >= file.blocks) {
        block -= file.blocks;
        continue;
      }
      const ssize_t got = pread(file.descriptor, to, kBlock, static_cast<off_t>(block * kBlock));
      return got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    return 0;
  }

 private:
  struct File {
    int descriptor;
    std::uint64_t blocks;
  };

  void Open(const std::string& name) {
    if (cold_) {
      if (Status status = DropFromPageCache(name); !status.ok()) status_ = status;
    }
    int descriptor = cold_ ? open(name.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT) : -1;
    direct_ = direct_ && descriptor >= 0;
    if (descriptor < 0) descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
      status_ = StatusFromErrno(errno, "open " + name);
      return;
    }
    const off_t bytes = lseek(descriptor, 0, SEEK_END);
    const auto blocks = bytes > 0 ? static_cast<std::uint64_t>(bytes) / kBlock + 1 : 0;
    files_.push_back({descriptor, blocks});
    blocks_ += blocks;
  }

  const bool cold_;
  std::vector<File> files_;
  std::uint64_t blocks_ = 0;
  bool direct_ = true;
  std::atomic<std::uint64_t> next_{0};
  Status status_;
};

MachineLimit ReadLimit(const LimitsPlan& plan) {
  BlockReads reads(plan);
  const int threads = plan.cold ? kColdReads : plan.threads;
  std::vector<AlignedMemory> to;
  for (int thread = 0; thread < threads; ++thread) to.push_back(Allocate(kBlock));
  const double rate = RateOf(threads, plan.seconds, [&](int thread) {
    return reads.Read(to[static_cast<std::size_t>(thread)].get());
  });
  std::string what = "the files by pread, from the page cache";
  if (plan.cold) {
    what = "the files by pread of 1 MiB, " + std::to_string(kColdReads) + " at a time" +
           (reads.direct() ? ", O_DIRECT" : "");
  }
  return {"read", std::move(what), rate / 1e9, reads.status()};
}

/// Pinned memory that is copied to a device again and again.
class LinkCopies {
 public:
  explicit LinkCopies(const OwnedDevice& device)
      : device_(device), from_(Allocate(kMemory)), to_(device, kMemory), stream_(device) {
    Require(device_.backend->BindThread(device_.number));
    Require(device_.backend->RegisterHost(from_.get(), kMemory));
  }
  ~LinkCopies() { (void)device_.backend->UnregisterHost(from_.get()); }
  LinkCopies(const LinkCopies&) = delete;
  LinkCopies& operator=(const LinkCopies&) = delete;

  /// Call it on a thread that is bound to the device.
  std::size_t Copy() {
    Require(device_.backend->CopyToDevice(stream_.get(), to_.data(), from_.get(), kMemory));
    stream_.Sync();
    return kMemory;
  }

 private:
  const OwnedDevice device_;
  const AlignedMemory from_;
  const OwnedMemory to_;
  const OwnedStream stream_;
};

MachineLimit LinkLimit(const LimitsPlan& plan) {
  const std::size_t count = plan.devices.size();
  MachineLimit limit{"link", "pinned memory to ", 0, {}};
  limit.what += count == 1 ? "the device" : std::to_string(count) + " devices at once";
  try {
    std::vector<std::unique_ptr<LinkCopies>> links;
    for (const OwnedDevice& device : plan.devices) {
      links.push_back(std::make_unique<LinkCopies>(device));
    }
    std::mutex mutex;
    const double rate = RateOf(static_cast<int>(count), plan.seconds, [&](int thread) {
      const auto at = static_cast<std::size_t>(thread);
      try {
        Require(plan.devices[at].backend->BindThread(plan.devices[at].number));
        return links[at]->Copy();
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        limit.status = error.status();
        return std::size_t{0};
      }
    });
    limit.gb_per_s = rate / 1e9;
  } catch (const Error& error) {
    limit.status = error.status();
  }
  return limit;
}

}  // namespace

std::vector<MachineLimit> MeasureLimits(const LimitsPlan& plan) {
  std::vector<MachineLimit> limits;
  if (plan.reads) limits.push_back(ReadLimit(plan));
  if (plan.checks) limits.push_back(ChecksumLimit(plan));
  if (plan.copies) limits.push_back(CopyLimit(plan));
  if (!plan.devices.empty()) limits.push_back(LinkLimit(plan));
  return limits;
}

}  // namespace ringfeed::tools
