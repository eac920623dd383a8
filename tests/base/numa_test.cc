#include "base/machine/numa.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <thread>

#include "tests/support/fake_system.h"

namespace ringfeed {
namespace {

/// A mapping of its own: what is told of memory outlives malloc's blocks.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes)
      : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        bytes_(bytes) {
    EXPECT_NE(memory_, MAP_FAILED);
    std::memset(memory_, 0x5A, bytes);
  }
  ~Mapping() { munmap(memory_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {data(), bytes_}; }

 private:
  void* const memory_;
  const std::size_t bytes_;
};

/// What the kernel says of the memory at an address.
struct MemoryPolicy {
  int policy = -1;
  unsigned long nodes = 0;  // the first 64
};

MemoryPolicy PolicyAt(const std::byte* data) {
  MemoryPolicy found;
  std::array<unsigned long, 256> nodes{};
  const long result = syscall(SYS_get_mempolicy, &found.policy, nodes.data(),
                              nodes.size() * sizeof(unsigned long) * CHAR_BIT, data, MPOL_F_ADDR);
  EXPECT_EQ(result, 0);
  found.nodes = nodes[0];
  return found;
}

bool MayPlaceMemory() {
  const Mapping memory(65536);
  const Status placed = PreferNode(memory.data(), memory.size(), OnlineNodes().front());
  return placed.code() != StatusCode::kUnsupported &&
         placed.code() != StatusCode::kPermissionDenied;
}

TEST(NumaTest, NodesThatAreOnlineAreCounted) {
  const FakeSystem system;
  EXPECT_EQ(OnlineNodes(system.root()), (CpuList{0})) << "a kernel without nodes";
  EXPECT_EQ(NumaNodes(system.root()), 1);
  system.Put("/sys/devices/system/node/online", "0-1,4\n");
  EXPECT_EQ(OnlineNodes(system.root()), (CpuList{0, 1, 4}));
  EXPECT_EQ(NumaNodes(system.root()), 3);
  system.Put("/sys/devices/system/node/online", "garbage\n");
  EXPECT_EQ(NumaNodes(system.root()), 1);
}

TEST(NumaTest, TheKernelIsToldWhereMemoryIsToBe) {
  if (!MayPlaceMemory()) GTEST_SKIP() << "mbind is not allowed here";
  const int node = OnlineNodes().front();
  const Mapping memory(1 << 20);
  const Status placed = PreferNode(memory.data(), memory.size(), node);
  ASSERT_TRUE(placed.ok()) << placed.ToString();
  EXPECT_EQ(PolicyAt(memory.data()).policy, MPOL_PREFERRED);
  EXPECT_EQ(PolicyAt(memory.data()).nodes, 1UL << node);
  const Status spread = InterleaveNodes(memory.data(), memory.size(), OnlineNodes());
  ASSERT_TRUE(spread.ok()) << spread.ToString();
  EXPECT_EQ(PolicyAt(memory.data()).policy, MPOL_INTERLEAVE);
  for (const std::byte value : memory.span()) ASSERT_EQ(value, std::byte{0x5A});
}

TEST(NumaTest, MemoryStaysToldBesideIt) {
  if (!MayPlaceMemory()) GTEST_SKIP() << "mbind is not allowed here";
  const Mapping memory(1 << 20);
  ASSERT_TRUE(PreferNode(memory.data(), 1 << 19, OnlineNodes().front()).ok());
  EXPECT_EQ(PolicyAt(memory.data() + (1 << 19)).policy, MPOL_DEFAULT);
}

TEST(NumaTest, NodesThatAreNotThereAreRefused) {
  if (!MayPlaceMemory()) GTEST_SKIP() << "mbind is not allowed here";
  const Mapping memory(65536);
  for (const int node : {-1, OnlineNodes().back() + 500, INT_MAX}) {
    const Status placed = PreferNode(memory.data(), memory.size(), node);
    EXPECT_EQ(placed.code(), StatusCode::kInvalidArgument) << node;
    EXPECT_NE(placed.message().find("NUMA node " + std::to_string(node)), std::string::npos);
  }
  EXPECT_EQ(InterleaveNodes(memory.data(), memory.size(), {}).code(), StatusCode::kInvalidArgument);
}

TEST(NumaTest, AThreadIsBoundToItsCpus) {
  cpu_set_t granted;
  ASSERT_EQ(sched_getaffinity(0, sizeof(granted), &granted), 0);
  int last = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) last = CPU_ISSET(cpu, &granted) ? cpu : last;
  std::thread([&] {
    const Status bound = BindThreadToCpus({last});
    ASSERT_TRUE(bound.ok()) << bound.ToString();
    cpu_set_t now;
    ASSERT_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_TRUE(CPU_ISSET(last, &now));
  }).join();
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&granted, &after)) << "other threads stay where they are";
}

TEST(NumaTest, CpusThatAreNotThereAreRefused) {
  EXPECT_EQ(BindThreadToCpus({}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(BindThreadToCpus({65000}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringfeed
