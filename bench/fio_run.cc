#include "bench/fio_run.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace ringfeed::bench {

namespace {

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

}  // namespace

bool HasFio() { return !OutputOf("fio --version 2>/dev/null").empty(); }

IoFigures RunFio(const std::string& path, std::size_t block_bytes, std::size_t blocks_in_flight) {
  const std::size_t huge_pages = (block_bytes * blocks_in_flight >> 21) + 2;
  const bool set_aside = FreeHugePages() >= huge_pages;
  const std::string command =
      std::string(set_aside ? "" : "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ") +
      "fio --name=ringfeed --rw=read --ioengine=io_uring --direct=1 --fixedbufs=1 "
      "--registerfiles=1 --output-format=json --iomem_align=2097152 --iomem=" +
      (set_aside ? "mmaphuge" : "malloc") + " --bs=" + std::to_string(block_bytes) +
      " --iodepth=" + std::to_string(blocks_in_flight) + " --filename=" + Quoted(path) +
      " 2>/dev/null";
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
