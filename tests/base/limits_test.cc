#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/cpu_count.h"
#include "base/memory_limit.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

/// A made-up /proc and /sys.
class FakeSystem {
 public:
  FakeSystem() { Put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n"); }
  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = root() + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::string root() const { return directory_.path(); }

 private:
  const TempDir directory_;
};

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(MemoryLimit, IsTheMachinesMemoryWhereNothingLimitsIt) {
  const FakeSystem system;
  EXPECT_EQ(FindMemoryLimit(system.root()).bytes, 16 * kGiB);
  EXPECT_EQ(FindMemoryLimit(system.root()).source, "machine");
  system.Put("/proc/self/cgroup", "0::/a\n");
  system.Put("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(FindMemoryLimit(system.root()).source, "machine");
}

TEST(MemoryLimit, IsTheSmallestOnTheWayToTheRoot) {
  const FakeSystem system;
  system.Put("/proc/self/cgroup", "0::/a/b\n");
  system.Put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  system.Put("/sys/fs/cgroup/a/memory.max", "2147483648\n");
  EXPECT_EQ(FindMemoryLimit(system.root()).bytes, 2 * kGiB);
  EXPECT_EQ(FindMemoryLimit(system.root()).source, "cgroup v2");
}

TEST(MemoryLimit, IsFoundInAContainerThatSeesOnlyItsOwnGroup) {
  const FakeSystem system;
  system.Put("/proc/self/cgroup", "0::/not/visible/here\n");
  system.Put("/sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(FindMemoryLimit(system.root()).bytes, kGiB);
}

TEST(MemoryLimit, KnowsTheFirstVersionOfCgroups) {
  const FakeSystem system;
  system.Put("/proc/self/cgroup", "4:memory:/job\n1:cpu,cpuacct:/\n0::/\n");
  system.Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  system.Put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(FindMemoryLimit(system.root()).bytes, 3 * kGiB);
  EXPECT_EQ(FindMemoryLimit(system.root()).source, "cgroup v1");
}

TEST(MemoryLimit, OfThisMachineIsReasonable) {
  EXPECT_GE(FindMemoryLimit().bytes, std::uint64_t{64} << 20);
}

TEST(CpuCount, IsLimitedByTheQuota) {
  const FakeSystem system;
  EXPECT_EQ(CountCpus(system.root()).quota, 0);
  EXPECT_EQ(CountCpus(system.root()).usable, CountCpus(system.root()).affinity);
  system.Put("/proc/self/cgroup", "0::/a\n");
  system.Put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(CountCpus(system.root()).quota, 0.5);
  EXPECT_EQ(CountCpus(system.root()).usable, 1);
  system.Put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(CountCpus(system.root()).quota, 0);
}

TEST(CpuCount, KnowsTheFirstVersionOfCgroups) {
  const FakeSystem system;
  system.Put("/proc/self/cgroup", "1:cpu,cpuacct:/job\n");
  system.Put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  system.Put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CountCpus(system.root()).quota, 1.5);
  EXPECT_LE(CountCpus(system.root()).usable, 2);
  system.Put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CountCpus(system.root()).quota, 0);
}

TEST(CpuCount, OfThisMachineIsAtLeastOne) { EXPECT_GE(CountCpus().usable, 1); }

}  // namespace
}  // namespace ringfeed
