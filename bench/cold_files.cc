#include "bench/cold_files.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bench/child_process.h"
#include "io/page_cache.h"
#include "io/read_engine.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

// Explicit huge pages that nobody uses.
std::size_t FreeHugePages() {
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  std::size_t count = 0;
  while (meminfo >> word) {
    if (word == "HugePages_Free:" && meminfo >> count) return count;
  }
  return 0;
}

// The number after the first `"key" :` of fio's report at or after `from`; below 0 if there is
// none.
double NumberAt(const std::string& report, const std::string& key, std::size_t from = 0) {
  const std::size_t at = report.find("\"" + key + "\"", from);
  if (at == std::string::npos) return -1;
  return std::strtod(report.c_str() + report.find(':', at) + 1, nullptr);
}

// Names as fio takes them in one option: a colon stands between two.
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

std::vector<std::string> FioCommand(const FioOptions& options) {
  const std::size_t huge_pages = (options.block_bytes * options.blocks_in_flight >> 21) + 2;
  const bool set_aside = FreeHugePages() >= huge_pages;
  const std::string per_call = std::to_string(options.blocks_per_call);
  std::vector<std::string> words = {"env"};
  if (!set_aside) words.emplace_back("GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
  words.insert(words.end(),
               {"fio", "--name=ringfeed", "--ioengine=io_uring", "--direct=1", "--fixedbufs=1",
                "--registerfiles=1", "--output-format=json", "--iomem_align=2097152"});
  words.emplace_back(set_aside ? "--iomem=mmaphuge" : "--iomem=malloc");
  // fio draws a block of a file once, and a file whose blocks are used up no more.
  words.emplace_back(options.random ? "--rw=randread" : "--rw=read");
  words.emplace_back(options.random ? "--file_service_type=random"
                                    : "--file_service_type=sequential");
  words.push_back("--bs=" + std::to_string(options.block_bytes));
  words.push_back("--iodepth=" + std::to_string(options.blocks_in_flight));
  if (options.blocks_per_call > 1) {
    words.push_back("--iodepth_batch_submit=" + per_call);
    words.emplace_back("--iodepth_batch_complete_min=1");
    words.push_back("--iodepth_batch_complete_max=" + per_call);
  }
  words.push_back("--filename=" + FioNames(options.paths));
  return words;
}

}  // namespace

// Pages that the system just handles are not dropped: it is asked again.
std::string DropFromMemory(const std::vector<std::string>& paths) {
  constexpr double kMostCached = 0.02;
  constexpr int kMostDrops = 10;
  const std::string* stays = nullptr;
  for (int attempt = 0; attempt < kMostDrops; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stays = nullptr;
    for (const std::string& path : paths) {
      const Status status = DropFromPageCache(path);
      if (!status.ok()) throw Error(status);
      if (CachedShare(path) > kMostCached) stays = &path;
    }
    if (stays == nullptr) return "";
  }
  return "skipped: pages of " + *stays + " stay in the page cache";
}

std::string WhyNoFio() {
  int status = -1;
  RunChild({"bash", "-c", "command -v fio"}, "/dev/null", &status);
  return status == 0 ? "" : "skipped: fio is not installed";
}

std::string WhyNoUring() {
  const auto& probe = ProbeUring();
  return probe.available ? "" : "skipped: no io_uring: " + probe.reason;
}

LoopResult RunFio(const FioOptions& options) {
  static_cast<void>(DropFromMemory(options.paths));
  const std::string output = options.paths[0] + ".fio.json";
  int status = 0;
  RunChild(FioCommand(options), output, &status);
  const std::string report = ReadWhole(output);
  std::filesystem::remove(output);
  LoopResult result;
  const std::size_t read = report.find("\"read\"");
  const double bytes = read == std::string::npos ? -1 : NumberAt(report, "io_bytes", read);
  const double runtime_ms = NumberAt(report, "job_runtime");
  const double user = NumberAt(report, "usr_cpu");
  const double system = NumberAt(report, "sys_cpu");
  if (status != 0 || bytes <= 0 || runtime_ms <= 0 || user < 0 || system < 0) {
    result.failure = "fio failed or reports in another way than known";
    return result;
  }
  result.bytes = static_cast<std::uint64_t>(bytes);
  result.wall_s = runtime_ms / 1000;
  result.cpu_s = (user + system) / 100 * result.wall_s;
  return result;
}

}  // namespace ringfeed::bench
