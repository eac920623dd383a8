#include "bench/io_loop.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "io/input_file.h"
#include "io/read_engine.h"

namespace ringfeed::bench {

namespace {

namespace fs = std::filesystem;

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double WallSeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// One block's part of a digest that is a sum over blocks.
std::uint64_t BlockDigest(std::uint64_t offset, std::span<const std::byte> bytes) {
  return (offset + 1) * 0x9E3779B97F4A7C15 ^ std::uint64_t{Crc32c(bytes)} << 17;
}

/// Takes the process's time from construction to Stop.
class IoTimer {
 public:
  IoTimer() : cpu_(ProcessCpuSeconds()), wall_(WallSeconds()) {}
  void Stop(IoFigures* figures) const {
    figures->cpu_s = ProcessCpuSeconds() - cpu_;
    figures->wall_s = WallSeconds() - wall_;
  }

 private:
  const double cpu_;
  const double wall_;
};

/// Adds a block that has arrived to `figures`.
void Take(const IoLoopOptions& options, std::uint64_t offset, std::span<const std::byte> bytes,
          IoFigures* figures) {
  figures->bytes += bytes.size();
  if (options.digest) figures->digest += BlockDigest(offset, bytes);
}

IoFigures ReadBare(const std::string& path, const IoLoopOptions& options, std::byte* buffer) {
  IoFigures figures;
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const IoTimer timer;
  ssize_t bytes = 0;
  while ((bytes = pread(descriptor, buffer, options.block_bytes,
                        static_cast<off_t>(figures.bytes))) > 0) {
    Take(options, figures.bytes, {buffer, static_cast<std::size_t>(bytes)}, &figures);
  }
  timer.Stop(&figures);
  close(descriptor);
  if (bytes < 0) figures.failure = "pread failed";
  return figures;
}

IoFigures ReadMapped(const InputFile& file, const IoLoopOptions& options) {
  IoFigures figures;
  const IoTimer timer;
  std::span<const std::byte> left = file.mapping();
  while (!left.empty()) {
    const std::size_t bytes = std::min(left.size(), options.block_bytes);
    Take(options, figures.bytes, left.first(bytes), &figures);
    left = left.subspan(bytes);
  }
  timer.Stop(&figures);
  return figures;
}

/// Keeps the engine full and takes blocks as they come, whichever is first.
IoFigures ReadByEngine(InputFile* file, const IoLoopOptions& options, ReadEngine* engine,
                       std::byte* buffers) {
  IoFigures figures;
  std::vector<std::byte*> free;
  for (std::size_t block = options.blocks_in_flight; block > 0; --block) {
    free.push_back(buffers + (block - 1) * options.block_bytes);
  }
  std::array<ReadCompletion, 16> completions;
  std::vector<std::uint64_t> offsets(options.blocks_in_flight);
  std::uint64_t next = 0;
  const IoTimer timer;
  while (next < file->size() || engine->in_flight() > 0) {
    while (next < file->size() && !free.empty()) {
      const auto number = static_cast<std::size_t>(free.back() - buffers) / options.block_bytes;
      const ReadRequest request{file, next, free.back(),
                                static_cast<std::uint32_t>(options.block_bytes), number};
      if (engine->Submit({&request, 1}) == 0) break;
      offsets[number] = next;
      free.pop_back();
      next += options.block_bytes;
    }
    const std::size_t count =
        engine->Reap(completions, std::chrono::steady_clock::time_point::max());
    for (const ReadCompletion& completion : std::span(completions).first(count)) {
      std::byte* const buffer = buffers + completion.tag * options.block_bytes;
      if (!completion.status.ok()) figures.failure = completion.status.ToString();
      Take(options, offsets[completion.tag], {buffer, completion.bytes}, &figures);
      free.push_back(buffer);
    }
  }
  timer.Stop(&figures);
  return figures;
}

IoPath PathOf(IoMethod method) {
  switch (method) {
    case IoMethod::kUring:
      return IoPath::kUring;
    case IoMethod::kMmap:
      return IoPath::kMmap;
    default:
      return IoPath::kPread;
  }
}

Status MakeEngine(IoMethod method, const IoOptions& options, const Arena& arena,
                  std::unique_ptr<ReadEngine>* engine) {
  if (method == IoMethod::kUring) {
    return MakeUringEngine(options, arena.data(), arena.bytes(), engine);
  }
  *engine = method == IoMethod::kPool ? MakePoolEngine(options) : MakeInlineEngine(options);
  return {};
}

IoFigures Failed(const std::string& why) {
  IoFigures figures;
  figures.failure = why;
  return figures;
}

}  // namespace

std::string IoFile(std::uint64_t bytes) {
  const char* const named = std::getenv("RINGFEED_BENCH_DATA");
  const fs::path folder =
      named != nullptr ? fs::path(named)
                       : fs::temp_directory_path() / ("ringfeed-bench-" + std::to_string(getuid()));
  fs::create_directories(folder);
  const fs::path path = folder / ("random-v1-" + std::to_string(bytes) + ".bin");
  if (fs::exists(path)) return path.string();
  const fs::path unfinished = path.string() + ".part";
  std::ofstream out(unfinished, std::ios::binary);
  std::mt19937_64 random(bytes);
  std::vector<std::uint64_t> block(65536);
  for (std::uint64_t written = 0; written < bytes;) {
    for (std::uint64_t& word : block) word = random();
    const std::uint64_t count = std::min<std::uint64_t>(bytes - written, block.size() * 8);
    out.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(count));
    written += count;
  }
  out.close();
  fs::rename(unfinished, path);
  return path.string();
}

void DropFromCache(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  fsync(descriptor);  // only pages that stand on the medium can be dropped
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

void ReadIntoCache(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<std::byte> block(std::size_t{1} << 20);
  while (read(descriptor, block.data(), block.size()) > 0) {
  }
  close(descriptor);
}

IoFigures ReadFile(const std::string& path, const IoLoopOptions& options,
                   const std::shared_ptr<Arena>& arena) {
  IoOptions io;
  io.path = PathOf(options.method);
  io.block_bytes = options.block_bytes;
  io.in_flight_bytes = options.block_bytes * options.blocks_in_flight;
  const SlabRun buffers = arena->Allocate(io.in_flight_bytes);
  if (!buffers) return Failed("the arena is too small");
  IoFigures figures;
  if (options.method == IoMethod::kBarePread) {
    figures = ReadBare(path, options, buffers.data);
  } else if (OpenInputResult opened = OpenInput(path, io, true); !opened.status.ok()) {
    figures = Failed(opened.status.ToString());
  } else if (options.method == IoMethod::kMmap) {
    figures = ReadMapped(*opened.file, options);
  } else {
    std::unique_ptr<ReadEngine> engine;
    const Status status = MakeEngine(options.method, io, *arena, &engine);
    figures = status.ok() ? ReadByEngine(opened.file.get(), options, engine.get(), buffers.data)
                          : Failed(status.ToString());
  }
  arena->Free(buffers);
  return figures;
}

}  // namespace ringfeed::bench
