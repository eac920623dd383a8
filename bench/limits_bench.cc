// What this machine can do with records of 110 KB in memory, step by step: the limits that the
// other rows are held against. `ours` is a loop for each core side by side, by the clock, the
// baseline one loop: their ratio says how far the memory reaches. See paired_rows.h for how to run
// it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bare_stores.h"
#include "bench/bench_data.h"
#include "bench/mapped_files.h"
#include "bench/paired_rows.h"
#include "bench/side_by_side.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kBatchRows = 64;
constexpr int kMostThreads = 16;

/// What is done with each record.
struct Steps {
  bool frames = true;   ///< false: bytes are brought, and not looked at
  bool checks = false;  ///< both CRCs
  bool copies = false;  ///< past the caches, into batches
};

// Whole records at the front of `bytes`: take(payload, bytes of it); how many bytes these were.
template <typename Take>
std::size_t FramedAlone(std::span<const std::byte> bytes, Take take) {
  std::size_t at = 0;
  while (bytes.size() - at >= 16) {
    const auto length = Load<std::uint64_t>(bytes.data() + at);
    if (length > bytes.size() - at - 16) break;
    take(bytes.data() + at + 12, static_cast<std::size_t>(length));
    at += 16 + length;
  }
  return at;
}

// The steps over one run of bytes after another.
class StepLoop {
 public:
  StepLoop(Steps steps, const LoopOptions& options)
      : steps_(steps), options_(options), batches_(options) {}

  std::size_t Use(std::span<const std::byte> bytes) {
    if (!steps_.frames) {
      if (options_.digest) digest_.Add(bytes);
      result_.bytes += bytes.size();
      return bytes.size();
    }
    const auto take = [this](const std::byte* payload, std::size_t size) {
      ++result_.records;
      result_.bytes += size;
      if (steps_.copies) {
        batches_.Add({payload, size});
        if (batches_.full()) batches_.Finish(&digest_);
      } else if (options_.digest) {
        digest_.Add({payload, size});
      }
    };
    return steps_.checks ? TakeTfRecords(bytes, take) : FramedAlone(bytes, take);
  }
  LoopResult Finish(const LoopTimer& timer) {
    batches_.Finish(&digest_);
    timer.Stop(&result_);
    result_.digest = digest_.value();
    return result_;
  }

 private:
  const Steps steps_;
  const LoopOptions options_;
  ByteBatches batches_;
  LoopResult result_;
  BatchDigest digest_;
};

BareLoopMaker Read(Steps steps) {
  return [steps](const std::vector<std::string>& files) {
    return [=](const LoopOptions& options) {
      StepLoop loop(steps, options);
      const LoopTimer timer;
      ForEachBlock(files, [&](std::span<const std::byte> block) { return loop.Use(block); });
      return loop.Finish(timer);
    };
  };
}

BareLoopMaker Mapped(Steps steps) {
  return [steps](const std::vector<std::string>& files) {
    const auto mapped = std::make_shared<const MappedFiles>(files);
    return [=](const LoopOptions& options) {
      StepLoop loop(steps, options);
      const LoopTimer timer;
      for (const std::span<const std::byte> file : mapped->files()) loop.Use(file);
      return loop.Finish(timer);
    };
  };
}

// A block of memory that is copied several times for each file.
constexpr std::size_t kCopies = 4;
std::size_t CopiedBytes() { return SmokeRun() ? std::size_t{1} << 20 : std::size_t{64} << 20; }
std::byte Pattern(std::size_t at) { return static_cast<std::byte>(at * 7 + at / 251); }

// From memory to memory past the caches.
BareLoop CopyMemory(const std::vector<std::string>& files) {
  const std::size_t block = CopiedBytes();
  const auto from = std::make_shared<BatchMemory>(block);
  const auto to = std::make_shared<BatchMemory>(block);
  for (std::size_t at = 0; at < block; ++at) from->data()[at] = Pattern(at);
  return [=, copies = kCopies * files.size()](const LoopOptions& options) {
    return Timed([&](LoopResult* result, BatchDigest* digest) {
      for (std::size_t i = 0; i < copies; ++i) {
        StreamLarge(to->data(), from->data(), block);
        Fence();
        result->bytes += block;
        if (options.digest) digest->Add({to->data(), block});
      }
    });
  };
}

LoopResult MemoryPlainly(std::size_t files) {
  std::vector<std::byte> block(CopiedBytes());
  for (std::size_t at = 0; at < block.size(); ++at) block[at] = Pattern(at);
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    for (std::size_t i = 0; i < kCopies * files; ++i) digest->Add(block);
    result->bytes = kCopies * files * block.size();
  });
}

// The same steps by the standard library.

// Blocks as they are read.
LoopResult BlocksPlainly(const std::vector<std::string>& files) {
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    std::vector<char> bytes(kReadBytes);
    for (const std::string& path : files) {
      std::ifstream file(path, std::ios::binary);
      while (file.read(bytes.data(), kReadBytes), file.gcount() > 0) {
        const auto got = static_cast<std::size_t>(file.gcount());
        digest->Add(std::as_bytes(std::span(bytes).first(got)));
        result->bytes += got;
      }
    }
  });
}

// Calls take(payload) for each record.
template <typename Take>
void ForEachPlainly(const std::vector<std::string>& files, Take take) {
  std::vector<std::byte> payload;
  for (const std::string& path : files) {
    std::ifstream file(path, std::ios::binary);
    std::uint64_t length = 0;
    while (file.read(reinterpret_cast<char*>(&length), sizeof(length))) {
      payload.resize(length);
      file.ignore(4).read(reinterpret_cast<char*>(payload.data()),
                          static_cast<std::streamsize>(length));
      file.ignore(4);
      take(payload);
    }
  }
}

LoopResult RecordsPlainly(const std::vector<std::string>& files, bool in_batches) {
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    std::vector<std::byte> rows;
    std::vector<std::int64_t> ends{0};
    const auto end_batch = [&] {
      digest->Add(rows);
      digest->Add(std::as_bytes(std::span(ends)));
      rows.clear();
      ends.assign(1, 0);
    };
    ForEachPlainly(files, [&](const std::vector<std::byte>& payload) {
      ++result->records;
      result->bytes += payload.size();
      if (!in_batches) return digest->Add(payload);
      rows.insert(rows.end(), payload.begin(), payload.end());
      ends.push_back(static_cast<std::int64_t>(rows.size()));
      if (ends.size() > kBatchRows) end_batch();
    });
    if (ends.size() > 1) end_batch();
  });
}

PairedRow LimitRow(const std::string& name, const std::vector<std::string>& files,
                   const BareLoopMaker& make, std::function<LoopResult()> expected) {
  const int threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1,
                                 std::min(kMostThreads, static_cast<int>(files.size())));
  const auto one = std::make_shared<const SideBySide>(make, files, 1);
  const auto all = std::make_shared<const SideBySide>(make, files, threads);
  return {"limits." + name, "GB/s",
          [=](bool digest) {
            return (digest ? one : all)->Run({kBatchRows, digest});
          },
          [=](bool digest) {
            return digest ? expected() : one->Run({kBatchRows, false});
          },
          GigabytesPerSecond};
}

std::vector<PairedRow> Rows() {
  const BenchFiles images =
      ImageExamples(SmokeRun() ? std::uint64_t{4} << 20 : std::uint64_t{1} << 30, 8);
  BringIntoMemory(images);
  const std::vector<std::string>& files = images.paths;
  const auto row = [&](const std::string& name, BareLoopMaker (*make)(Steps), Steps steps) {
    return LimitRow(name, files, make(steps), [=] {
      return steps.frames ? RecordsPlainly(files, steps.copies) : BlocksPlainly(files);
    });
  };
  return {row("pread", Read, {.frames = false}),
          row("pread_checked", Read, {.checks = true}),
          row("pread_checked_copied", Read, {.checks = true, .copies = true}),
          row("mapped_framed", Mapped, {}),
          row("mapped_checked", Mapped, {.checks = true}),
          row("mapped_copied", Mapped, {.copies = true}),
          row("mapped_checked_copied", Mapped, {.checks = true, .copies = true}),
          LimitRow("memory_copied", files, CopyMemory,
                   [count = files.size()] { return MemoryPlainly(count); })};
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  return ringfeed::bench::PairedMain(argc, argv, ringfeed::bench::Rows);
}
