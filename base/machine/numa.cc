#include "base/machine/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <vector>

#include "base/machine/cgroup.h"

namespace ringfeed {
namespace {

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
