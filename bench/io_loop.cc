#include "bench/io_loop.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/machine/cpu_time.h"
#include "bench/loop_result.h"
#include "io/input_file.h"
#include "io/read_engine.h"

namespace ringfeed::bench {
namespace {

/// One block's part of a digest that is a sum over blocks.
std::uint64_t BlockDigest(std::uint64_t offset, std::span<const std::byte> bytes) {
  return (offset + 1) * 0x9E3779B97F4A7C15 ^ std::uint64_t{Crc32c(bytes)} << 17;
}

/// Takes the process's time from construction to Stop.
class IoTimer {
 public:
  IoTimer() : cpu_(ProcessCpuSeconds()), wall_(NowSeconds()) {}
  void Stop(IoFigures* figures) const {
    figures->cpu_s = ProcessCpuSeconds() - cpu_;
    figures->wall_s = NowSeconds() - wall_;
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

/// Explicit huge pages that nobody uses.
std::size_t FreeHugePages() {
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  std::size_t count = 0;
  while (meminfo >> word) {
    if (word == "HugePages_Free:" && meminfo >> count) return count;
  }
  return 0;
}

/// What a command prints; nothing where it fails.
std::string OutputOf(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  std::array<char, 4096> piece{};
  std::size_t count = 0;
  while ((count = std::fread(piece.data(), 1, piece.size(), pipe)) > 0) {
    output.append(piece.data(), count);
  }
  return pclose(pipe) == 0 ? output : std::string();
}

/// The number behind the first `"key" :` of fio's report at or after `from`; below 0 where there
/// is none.
double NumberAt(const std::string& report, const std::string& key, std::size_t from) {
  const std::size_t at = report.find("\"" + key + "\"", from);
  if (at == std::string::npos) return -1;
  return std::strtod(report.c_str() + report.find(':', at) + 1, nullptr);
}

/// `text` as one word of a shell.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

/// Names as fio takes them in one option: a colon stands between two.
std::string FioNames(const std::vector<std::string>& paths) {
  std::string names;
  for (const std::string& path : paths) {
    if (!names.empty()) names += ':';
    for (const char letter : path) {
      if (letter == ':' || letter == '\\') names += '\\';
      names += letter;
    }
  }
  return names;
}

std::string FioCommand(const FioOptions& options) {
  const std::size_t huge_pages = (options.block_bytes * options.blocks_in_flight >> 21) + 2;
  const bool set_aside = FreeHugePages() >= huge_pages;
  const std::string per_call = std::to_string(options.blocks_per_call);
  std::string command = set_aside ? "" : "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ";
  command +=
      "fio --name=ringfeed --ioengine=io_uring --direct=1 --fixedbufs=1 --registerfiles=1 "
      "--output-format=json --iomem_align=2097152";
  command += set_aside ? " --iomem=mmaphuge" : " --iomem=malloc";
  // fio draws a block of a file once, and a file whose blocks are used up no more.
  command += options.random ? " --rw=randread --file_service_type=random"
                            : " --rw=read --file_service_type=sequential";
  command += " --bs=" + std::to_string(options.block_bytes);
  command += " --iodepth=" + std::to_string(options.blocks_in_flight);
  if (options.blocks_per_call > 1) {
    command += " --iodepth_batch_submit=" + per_call + " --iodepth_batch_complete_min=1" +
               " --iodepth_batch_complete_max=" + per_call;
  }
  return command + " --filename=" + Quoted(FioNames(options.paths)) + " 2>/dev/null";
}

}  // namespace

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
  } else if (OpenInputResult opened = OpenInput(path, io, {.may_map = true}); !opened.status.ok()) {
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

bool HasFio() { return !OutputOf("fio --version 2>/dev/null").empty(); }

IoFigures RunFio(const FioOptions& options) {
  const std::string command = FioCommand(options);
  const std::string report = OutputOf(command);
  IoFigures figures;
  const std::size_t read = report.find("\"read\"");
  const double bytes = read == std::string::npos ? -1 : NumberAt(report, "io_bytes", read);
  const double runtime_ms = NumberAt(report, "job_runtime", 0);
  const double user = NumberAt(report, "usr_cpu", 0);
  const double system = NumberAt(report, "sys_cpu", 0);
  if (bytes <= 0 || runtime_ms <= 0 || user < 0 || system < 0) {
    figures.failure = "fio failed or reports in another way than known";
    return figures;
  }
  figures.bytes = static_cast<std::uint64_t>(bytes);
  figures.wall_s = runtime_ms / 1000;
  figures.cpu_s = (user + system) / 100 * figures.wall_s;
  return figures;
}

}  // namespace ringfeed::bench
