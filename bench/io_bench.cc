// Reading a cold file by io_uring, as the engine does, beside fio. Timed without a look at the
// bytes, as fio runs. Verified: another pass of the same engine has the digest of plain pread.
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/memory/arena.h"
#include "bench/bench_data.h"
#include "bench/cold_files.h"
#include "bench/loops.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{512} << 10;
constexpr std::size_t kBlocks = 8;
constexpr double kGiB = 1024.0 * 1024 * 1024;
/// What a cold read may cost at most, in CPU seconds per GiB.
constexpr double kColdCpuLimit = 0.02;
constexpr Measure kCpuPerGiB{"CPU s/GiB", [](const LoopResult& r) {
                               return r.cpu_s / (static_cast<double>(r.bytes) / kGiB);
                             }};

std::string ColdFile() {
  return RandomRows("random-4096", "rows:4096", 4096, Sized(262'144, 4'096), 1).paths[0];
}

// One block's part of a digest that is a sum over blocks.
std::uint64_t BlockDigest(std::uint64_t offset, std::span<const std::byte> bytes) {
  return (offset + 1) * 0x9E3779B97F4A7C15 ^ std::uint64_t{Crc32c(bytes)} << 17;
}

std::uint64_t DigestByPread(const std::string& path) {
  std::uint64_t digest = 0;
  std::vector<std::byte> block(kBlockBytes);
  const OpenedFile file(path);
  for (std::uint64_t at = 0; const std::size_t got = file.Read(block.data(), kBlockBytes, at);) {
    digest += BlockDigest(at, std::span(block).first(got));
    at += got;
  }
  return digest;
}

// Keeps the engine full and takes blocks as they come, whichever is first.
void ReadByEngine(InputFile* file, ReadEngine* engine, std::byte* buffers, bool digest,
                  LoopResult* result) {
  std::vector<std::byte*> free;
  for (std::size_t block = kBlocks; block > 0; --block) {
    free.push_back(buffers + (block - 1) * kBlockBytes);
  }
  std::array<ReadRequest*, 16> finished;
  std::array<ReadRequest, kBlocks> reads;
  std::uint64_t next = 0;
  const Timer timer(Timer::Of::kProcess);
  while (next < file->size() || engine->in_flight() > 0) {
    while (next < file->size() && !free.empty()) {
      const auto number = static_cast<std::size_t>(free.back() - buffers) / kBlockBytes;
      reads[number] = {file, next, free.back(), std::uint32_t{kBlockBytes}};
      ReadRequest* const read = &reads[number];
      if (engine->Submit({&read, 1}) == 0) break;
      free.pop_back();
      next += kBlockBytes;
    }
    const std::size_t count = engine->Reap(finished, std::chrono::steady_clock::time_point::max());
    for (const ReadRequest* const read : std::span(finished).first(count)) {
      if (!read->status.ok()) result->failure = read->status.ToString();
      result->bytes += read->got;
      if (digest) result->digest += BlockDigest(read->offset, {read->buffer, read->got});
      free.push_back(read->buffer);
    }
  }
  timer.Stop(result);
}

LoopResult ReadCold(const std::string& path, bool digest) {
  static const std::shared_ptr<Arena> kArena = Arena::Create({.bytes = std::size_t{64} << 20});
  LoopResult result;
  result.failure = DropFromMemory({path});
  if (!result.failure.empty()) return result;
  IoOptions io;
  io.path = IoPath::kUring;
  io.block_bytes = kBlockBytes;
  io.in_flight_bytes = kBlockBytes * kBlocks;
  OpenInputResult opened = OpenInput(path, io, {.may_map = true});
  if (!opened.status.ok()) throw Error(opened.status);
  std::unique_ptr<ReadEngine> engine;
  const Status status = MakeUringEngine(io, kArena->data(), kArena->bytes(), &engine);
  if (!status.ok()) throw Error(status);
  const SlabRun buffers = kArena->Allocate(io.in_flight_bytes);
  ReadByEngine(opened.file.get(), engine.get(), buffers.data, digest, &result);
  kArena->Free(buffers);
  return result;
}

Pair Cold(const std::string& why_not, const std::function<LoopResult(const std::string&)>& other) {
  const std::string path = ColdFile();
  return {[=] { return ReadCold(path, false); }, [=] { return other(path); },
          [=]() -> std::string {
            if (!why_not.empty()) return why_not;
            if (std::string no_uring = WhyNoUring(); !no_uring.empty()) return no_uring;
            const LoopResult ours = ReadCold(path, true);
            if (!ours.failure.empty()) return ours.failure;
            return ours.digest == DigestByPread(path) ? "" : "the digests differ";
          },
          false};
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  const auto fio = [](const std::string& path) {
    return RunFio({.paths = {path}, .block_bytes = kBlockBytes, .blocks_in_flight = kBlocks});
  };
  const auto limit = [](const std::string&) {
    return LoopResult{.cpu_s = kColdCpuLimit, .bytes = std::uint64_t{1} << 30};
  };
  return {{{{"io.cold_cpu_limit", kCpuPerGiB}}, [=] { return Cold("", limit); }},
          {{{"io.cold_cpu", kCpuPerGiB}, {"io.cold_wall", kGbPerS}},
           [=] { return Cold(WhyNoFio(), fio); }}};
}

}  // namespace ringfeed::bench
