#include <gtest/gtest.h>

#include <string>

#include "base/machine/cpu_count.h"
#include "base/memory/memory_limit.h"
#include "tests/support/fake_system.h"

namespace ringfeed {
namespace {

/// A machine of 16 GiB.
class SmallMachine : public FakeSystem {
 public:
  SmallMachine() { Put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n"); }
};

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(MemoryLimit, IsTheMachinesMemoryWhereNothingLimitsIt) {
  const SmallMachine system;
  EXPECT_EQ(FindMemoryLimit(system.root()).bytes, 16 * kGiB);
  EXPECT_EQ(FindMemoryLimit(system.root()).source, "machine");
  system.Put("/proc/self/cgroup", "0::/a\n");
  system.Put("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(FindMemoryLimit(system.root()).source, "machine");
}

TEST(MemoryLimit, IsTheSmallestOnTheWayToTheRoot) {
  const SmallMachine system;
  system.Put("/proc/self/cgroup", "0::/a/b\n");
  system.Put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  system.Put("/sys/fs/cgroup/a/memory.max", "2147483648\n");
  EXPECT_EQ(FindMemoryLimit(system.root()).bytes, 2 * kGiB);
  EXPECT_EQ(FindMemoryLimit(system.root()).source, "cgroup v2");
}

TEST(MemoryLimit, IsFoundInAContainerThatSeesOnlyItsOwnGroup) {
  const SmallMachine system;
  system.Put("/proc/self/cgroup", "0::/not/visible/here\n");
  system.Put("/sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(FindMemoryLimit(system.root()).bytes, kGiB);
}

TEST(MemoryLimit, KnowsTheFirstVersionOfCgroups) {
  const SmallMachine system;
  system.Put("/proc/self/cgroup", "4:memory:/job\n1:cpu,cpuacct:/\n0::/\n");
  system.Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  system.Put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(FindMemoryLimit(system.root()).bytes, 3 * kGiB);
  EXPECT_EQ(FindMemoryLimit(system.root()).source, "cgroup v1");
}

TEST(MemoryLimit, WhatIsAvailableIsNeverMoreThanIt) {
  const SmallMachine system;
  system.Put("/proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n");
  EXPECT_EQ(AvailableMemory(system.root()), 4 * kGiB);
  system.Put("/proc/self/cgroup", "0::/a\n");
  system.Put("/sys/fs/cgroup/a/memory.max", "2147483648\n");
  EXPECT_EQ(AvailableMemory(system.root()), 2 * kGiB);
}

TEST(MemoryLimit, OfThisMachineIsReasonable) {
  EXPECT_GE(FindMemoryLimit().bytes, std::uint64_t{64} << 20);
}

TEST(CpuCount, IsLimitedByTheQuota) {
  const SmallMachine system;
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
  const SmallMachine system;
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
