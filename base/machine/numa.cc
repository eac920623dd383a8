#include "base/machine/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <system_error>
#include <vector>

#include "base/machine/cgroup.h"

namespace ringfeed {
namespace {

// More than any kernel is built for: a larger number is no CPU's.
constexpr int kMostCpus = 1 << 16;

std::optional<int> NumberOf(std::string_view text) {
  int number = 0;
  const auto result = std::from_chars(text.begin(), text.end(), number);
  if (result.ec != std::errc() || result.ptr != text.end()) return std::nullopt;
  if (number < 0 || number >= kMostCpus) return std::nullopt;
  return number;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool AddRange(std::string_view text, CpuList* cpus) {
  const std::size_t dash = text.find('-');
  const std::optional<int> first = NumberOf(text.substr(0, dash));
  const std::optional<int> last =
      dash == std::string_view::npos ? first : NumberOf(text.substr(dash + 1));
  if (!first || !last || *last < *first) return false;
  for (int cpu = *first; cpu <= *last; ++cpu) cpus->push_back(cpu);
  return true;
}

// More than any kernel is built for.
constexpr int kMostNodes = 1 << 14;
constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;

std::vector<unsigned long> MaskOf(const CpuList& numbers) {
  std::vector<unsigned long> mask;
  for (const int number : numbers) {
    const auto bit = static_cast<std::size_t>(number);
    if (mask.size() <= bit / kWordBits) mask.resize(bit / kWordBits + 1);
    mask[bit / kWordBits] |= 1UL << bit % kWordBits;
  }
  return mask;
}

Status BindMemory(std::byte* data, std::size_t bytes, int policy, const CpuList& nodes) {
  const std::string what = "placing memory on NUMA node " + CpuListToString(nodes);
  if (nodes.empty() || nodes.front() < 0 || nodes.back() >= kMostNodes) {
    return Status(StatusCode::kInvalidArgument, what + ": there is no such node");
  }
  if (bytes == 0) return {};
  const std::vector<unsigned long> mask = MaskOf(nodes);
  // The kernel takes one bit less than it is told.
  const std::size_t bits = mask.size() * kWordBits + 1;
  if (syscall(SYS_mbind, data, bytes, policy, mask.data(), bits, MPOL_MF_MOVE) == 0) return {};
  return StatusFromErrno(errno, what);
}

}  // namespace

std::optional<CpuList> ParseCpuList(std::string_view text) {
  text = Trimmed(text);
  CpuList cpus;
  for (bool more = !text.empty(); more;) {
    const std::size_t comma = text.find(',');
    if (!AddRange(text.substr(0, comma), &cpus)) return std::nullopt;
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string CpuListToString(const CpuList& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

CpuList OnlineNodes(const std::string& root) {
  const auto line = FirstLineOf(root + "/sys/devices/system/node/online");
  const auto nodes = ParseCpuList(line.value_or(""));
  return nodes && !nodes->empty() ? *nodes : CpuList{0};
}

int NumaNodes(const std::string& root) { return static_cast<int>(OnlineNodes(root).size()); }

Status PreferNode(std::byte* data, std::size_t bytes, int node) {
  return BindMemory(data, bytes, MPOL_PREFERRED, {node});
}

Status InterleaveNodes(std::byte* data, std::size_t bytes, const CpuList& nodes) {
  return BindMemory(data, bytes, MPOL_INTERLEAVE, nodes);
}

Status BindThreadToCpus(const CpuList& cpus) {
  const std::vector<unsigned long> mask = MaskOf(cpus);
  // By itself: cpu_set_t has a limit.
  if (syscall(SYS_sched_setaffinity, 0, mask.size() * sizeof(unsigned long), mask.data()) == 0) {
    return {};
  }
  return StatusFromErrno(errno, "binding a thread to CPUs " + CpuListToString(cpus));
}

}  // namespace ringfeed
