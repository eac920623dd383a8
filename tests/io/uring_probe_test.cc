#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/memory/arena.h"
#include "io/read_engine.h"
#include "io/uring_ring.h"
#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

bool Mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(UringProbe, SaysWhyTheRingIsRefused) {
  const UringProbe& probe = ProbeUring();
  EXPECT_FALSE(probe.reason.empty());
  EXPECT_EQ(probe.available, !probe.flags.empty());
  if (const char* refused = std::getenv("RINGFEED_TEST_SECCOMP"); refused != nullptr) {
    EXPECT_FALSE(probe.available);
    EXPECT_TRUE(Mentions(probe.reason, "Seccomp: 2")) << probe.reason;
    EXPECT_TRUE(Mentions(probe.reason,
                         std::string(refused) == "EPERM" ? "not permitted" : "not implemented"))
        << probe.reason;
  }
  if (!probe.available) {
    EXPECT_TRUE(Mentions(probe.reason, "kernel.io_uring_disabled")) << probe.reason;
    EXPECT_TRUE(Mentions(probe.reason, "memlock limit")) << probe.reason;
  }
}

TEST(UringProbe, ARefusalForWantOfDescriptorsIsNotKept) {
  if (!ProbeUring().available) GTEST_SKIP() << "no io_uring here: " << ProbeUring().reason;
  const ChildResult child = RunInChild([](std::string* text) {
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    const UringProbe without = ProbeUring();
    setrlimit(RLIMIT_NOFILE, &before);
    const UringProbe with = ProbeUring();
    *text = without.reason + "; then " + with.reason;
    return !without.available && without.passes && with.available && !with.passes ? 0 : 1;
  });
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST(UringProbe, AnEngineThatIsRefusedSaysWhy) {
  std::unique_ptr<ReadEngine> engine;
  const Status status = MakeUringEngine(IoOptions(), nullptr, 0, &engine);
  EXPECT_EQ(status.ok(), ProbeUring().available) << status.ToString();
  EXPECT_EQ(status.ok(), engine != nullptr);
  if (!status.ok()) {
    EXPECT_TRUE(Mentions(status.message(), "io_uring_setup")) << status.ToString();
  }
}

TEST(UringEngine, ManyRingsCanBeMadeOneAfterTheOther) {
  if (!ProbeUring().available) GTEST_SKIP() << "no io_uring here: " << ProbeUring().reason;
  ArenaOptions options;
  options.bytes = std::size_t{4} << 20;
  const std::shared_ptr<Arena> arena = Arena::Create(options);
  for (int round = 0; round < 60; ++round) {
    std::unique_ptr<ReadEngine> engine;
    const Status status = MakeUringEngine(IoOptions(), arena->data(), arena->bytes(), &engine);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(UringEngine, LeavesRoomWhereLittleMemoryMayBeLocked) {
  if (!ProbeUring().available) GTEST_SKIP() << "no io_uring here: " << ProbeUring().reason;
  const ChildResult child = RunInChild([](std::string* text) {
    if (!LimitMemlock(std::size_t{8} << 20) || !DropPrivileges()) return 2;
    ArenaOptions options;
    options.bytes = std::size_t{64} << 20;
    const std::shared_ptr<Arena> arena = Arena::Create(options);
    std::array<std::unique_ptr<ReadEngine>, 4> engines;
    for (std::unique_ptr<ReadEngine>& engine : engines) {
      const Status status = MakeUringEngine(IoOptions(), arena->data(), arena->bytes(), &engine);
      *text = status.ToString();
      if (!status.ok()) return 1;
    }
    *text = engines[0]->Describe();
    return Mentions(*text, "memlock limit") ? 0 : 3;
  });
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST(UringRing, TakesTheBestFlagsOfTheKernel) {
  UringRing ring;
  const Status status = ring.Open(32);
  if (!status.ok()) GTEST_SKIP() << "no io_uring here: " << status.ToString();
  EXPECT_GE(ring.entries(), 8u);
  EXPECT_FALSE(ring.FlagNames().empty());
  EXPECT_EQ(ring.defers_task_work(), Mentions(ring.FlagNames(), "DEFER_TASKRUN"));
}

// What the kernel wrote to afterwards was the stack of whoever asked.
TEST(UringRing, AFirstReadThatDoesNotEndIsGivenUpWithMemoryThatStays) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  Status status;
  {
    UringRing ring;
    const Status opened = ring.Open(8);
    if (!opened.ok()) GTEST_SKIP() << "no io_uring here: " << opened.ToString();
    status = TryRead(&ring, ends[0], std::chrono::milliseconds(20));
    // It is under way still: this ends it.
    const std::array<char, 4096> late{};
    EXPECT_EQ(write(ends[1], late.data(), late.size()), 4096);
  }
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_TRUE(Mentions(status.message(), "did not end")) << status.ToString();
}

}  // namespace
}  // namespace ringfeed
