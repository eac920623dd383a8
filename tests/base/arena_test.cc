#include "base/memory/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/machine/cpu_time.h"
#include "base/memory/huge_pages.h"
#include "base/memory/memory_limit.h"
#include "base/memory/shadow_memory.h"
#include "ringfeed/status.h"
#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::shared_ptr<Arena> NewArena(std::size_t bytes) {
  ArenaOptions options;
  options.bytes = bytes;
  return Arena::Create(options);
}

TEST(Arena, StartsOnAHugePageAndHasWholeSlabs) {
  const std::shared_ptr<Arena> arena = NewArena(64 * kMiB + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->data()) % kHugePageBytes, 0u);
  EXPECT_EQ(arena->bytes(), 66 * kMiB);
  const SlabRun run = arena->Allocate(1);
  EXPECT_EQ(run.data, arena->data());
  EXPECT_EQ(run.bytes, arena->slab_bytes());
}

TEST(Arena, CostsNothingUntilItIsUsed) {
  const double before_s = ProcessCpuSeconds();
  const std::shared_ptr<Arena> arena = NewArena(6144 * kMiB);
  const SlabRun run = arena->Allocate(512 * 1024);
  const double took_s = ProcessCpuSeconds() - before_s;
  ASSERT_TRUE(run);
  std::memset(run.data, 1, run.bytes);
  EXPECT_LT(took_s, 0.2);  // to populate all of it takes seconds
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(arena->Report().populated_bytes, 16 * kMiB);
  EXPECT_GE(arena->Report().populated_bytes, 2 * kMiB);
}

TEST(Arena, CallsAtItsEndWhileTheRangeIsStillThere) {
  auto arena = NewArena(4 * kMiB);
  const SlabRun run = arena->Allocate(1);
  run.data[0] = std::byte{7};
  std::vector<int> called;
  std::byte seen{};
  arena->CallAtEnd([&] {
    called.push_back(0);
    seen = run.data[0];
  });
  const std::uint64_t second = arena->CallAtEnd([&] { called.push_back(1); });
  arena->CallAtEnd([&] { called.push_back(2); });
  arena->CancelAtEnd(second);
  arena->CancelAtEnd(second);  // once is enough
  EXPECT_TRUE(called.empty());
  arena.reset();
  EXPECT_EQ(called, (std::vector<int>{0, 2}));
  EXPECT_EQ(seen, std::byte{7});
}

TEST(Arena, PopulatesAheadOfUse) {
  const std::shared_ptr<Arena> arena = NewArena(64 * kMiB);
  EXPECT_EQ(arena->Report().populated_bytes, 0u);
  EXPECT_TRUE(arena->ReserveQuota(32 * kMiB));
  for (int wait = 0; wait < 1000 && arena->Report().populated_bytes < 4 * kMiB; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(arena->Report().populated_bytes, 4 * kMiB);
}

TEST(Arena, ReportsTheHugePagesThatItGot) {
  const std::shared_ptr<Arena> arena = NewArena(16 * kMiB);
  EXPECT_EQ(arena->Report().huge_bytes, 0u);
  const SlabRun run = arena->Allocate(16 * kMiB);
  const ArenaReport report = arena->Report();
  EXPECT_EQ(report.populated_bytes, 16 * kMiB);
  EXPECT_EQ(report.in_use_bytes, 16 * kMiB);
  EXPECT_EQ(report.pages == "huge", report.huge_bytes == 16 * kMiB) << report.pages;
  if (report.pages != "huge") {
    EXPECT_EQ(report.pages.rfind("4 KiB: ", 0), 0u) << report.pages;
  }
  arena->Free(run);
  ArenaOptions options;
  options.bytes = 4 * kMiB;
  options.huge_pages = false;
  const std::shared_ptr<Arena> small = Arena::Create(options);
  EXPECT_TRUE(small->Allocate(kMiB));
  if (small->Report().huge_bytes == 0) {
    EXPECT_EQ(small->Report().pages, "4 KiB: huge pages were not asked for");
  }
}

TEST(Arena, AsksForHugePagesAgainOnlyAfterMoreWasPopulated) {
  const std::shared_ptr<Arena> arena = NewArena(16 * kMiB);
  const SlabRun run = arena->Allocate(16 * kMiB);
  const std::size_t huge_bytes = arena->Report().huge_bytes;
  if (huge_bytes == 0) GTEST_SKIP() << arena->Report().pages;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);  // /proc/self/smaps cannot be opened
  const std::size_t again = arena->Report().huge_bytes;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(again, huge_bytes);
  arena->Free(run);
}

TEST(Arena, HandsOutTheLowestMemoryAndTakesItBack) {
  const std::shared_ptr<Arena> arena = NewArena(8 * kMiB);
  const SlabRun first = arena->Allocate(kMiB);
  const SlabRun second = arena->Allocate(kMiB);
  EXPECT_LT(first.data, second.data);
  arena->Free(first);
  EXPECT_EQ(arena->Allocate(kMiB).data, first.data);
  EXPECT_FALSE(arena->Allocate(8 * kMiB));
  EXPECT_FALSE(arena->Allocate(9 * kMiB));
  EXPECT_FALSE(arena->Allocate(0));
  arena->Free(SlabRun());
  EXPECT_EQ(arena->Report().in_use_bytes, 2 * kMiB);
  EXPECT_EQ(arena->Report().peak_in_use_bytes, 2 * kMiB);
}

TEST(Arena, MakesARunLongerWhereNothingStandsBehindIt) {
  const std::shared_ptr<Arena> arena = NewArena(8 * kMiB);
  SlabRun run = arena->Allocate(kMiB);
  std::byte* const data = run.data;
  EXPECT_TRUE(arena->Extend(&run, 3 * kMiB - 1));
  EXPECT_EQ(run.data, data);
  EXPECT_EQ(run.bytes, 3 * kMiB);
  std::fill_n(run.data, run.bytes, std::byte{7});
  EXPECT_TRUE(arena->Extend(&run, kMiB));  // it has them
  EXPECT_EQ(run.bytes, 3 * kMiB);
  const SlabRun behind = arena->Allocate(kMiB);
  for (const std::size_t bytes : {4 * kMiB, 9 * kMiB, ~std::size_t{0}}) {
    EXPECT_FALSE(arena->Extend(&run, bytes));
  }
  EXPECT_EQ(run.bytes, 3 * kMiB);
  arena->Free(behind);
  EXPECT_TRUE(arena->Extend(&run, 8 * kMiB));
  EXPECT_EQ(arena->Report().peak_in_use_bytes, 8 * kMiB);
  arena->Free(run);
  EXPECT_EQ(arena->Report().in_use_bytes, 0u);
}

TEST(Arena, ASanitizerReportsWhoTouchesWhatWasGivenBack) {
#if !defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "only AddressSanitizer sees it";
#endif
  const std::shared_ptr<Arena> arena = NewArena(8 * kMiB);
  const SlabRun run = arena->Trim(arena->Allocate(2 * kMiB), kMiB);
  EXPECT_FALSE(IsForbidden(run.data + run.bytes - 1));
  EXPECT_TRUE(IsForbidden(run.data + run.bytes));
  arena->Free(run);
  EXPECT_TRUE(IsForbidden(run.data));
  EXPECT_FALSE(IsForbidden(arena->Allocate(kMiB).data));
}

TEST(Arena, GivesWhatAThreadHadBeforeWhereItIsFree) {
  const auto arena = Arena::Create({.bytes = std::size_t{8} << 20});
  const std::size_t slab = arena->slab_bytes();
  const SlabRun low = arena->Allocate(slab);
  const SlabRun high = arena->Allocate(3 * slab);
  arena->Free(low);
  arena->Free(high);
  const SlabRun again = arena->Allocate(2 * slab, high.data);
  EXPECT_EQ(again.data, high.data);
  const SlabRun elsewhere = arena->Allocate(slab, high.data);
  EXPECT_EQ(elsewhere.data, low.data);
  // An address at the end of the range, where so much does not fit any more, is no more than a
  // hint.
  const std::byte* const last = arena->data() + arena->bytes() - slab;
  EXPECT_TRUE(arena->Allocate(2 * slab, last));
}

TEST(Arena, BlocksDoNotCrossHugePages) {
  const std::shared_ptr<Arena> arena = NewArena(16 * kMiB);
  EXPECT_TRUE(arena->Allocate(1));
  for (int number = 0; number < 8; ++number) {
    const SlabRun run = arena->Allocate(512 * 1024);
    EXPECT_EQ(static_cast<std::size_t>(run.data - arena->data()) % (512 * 1024), 0u);
  }
}

TEST(Arena, TrimKeepsTheHead) {
  const std::shared_ptr<Arena> arena = NewArena(8 * kMiB);
  const SlabRun run = arena->Allocate(2 * kMiB);
  const SlabRun kept = arena->Trim(run, 200000);
  EXPECT_EQ(kept.data, run.data);
  EXPECT_EQ(kept.bytes, 2 * arena->slab_bytes());
  EXPECT_EQ(arena->Trim(kept, kMiB).bytes, kept.bytes);
  EXPECT_EQ(arena->Report().in_use_bytes, kept.bytes);
  EXPECT_FALSE(arena->Trim(kept, 0));
  EXPECT_EQ(arena->Report().in_use_bytes, 0u);
}

TEST(ArenaDeathTest, FreeingTwiceEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const std::shared_ptr<Arena> arena = NewArena(8 * kMiB);
        const SlabRun run = arena->Allocate(kMiB);
        arena->Free(run);
        arena->Free(run);
      },
      "freed twice");
}

TEST(Arena, QuotasOfTwoPipelinesShareTheRange) {
  const std::shared_ptr<Arena> arena = NewArena(64 * kMiB);
  EXPECT_TRUE(arena->ReserveQuota(40 * kMiB));
  EXPECT_FALSE(arena->ReserveQuota(25 * kMiB));
  EXPECT_TRUE(arena->ReserveQuota(24 * kMiB));
  EXPECT_EQ(arena->unreserved_bytes(), 0u);
  arena->ReleaseQuota(40 * kMiB);
  EXPECT_EQ(arena->unreserved_bytes(), 40 * kMiB);
  EXPECT_TRUE(arena->ReserveQuota(25 * kMiB));
}

TEST(Arena, ThreadsGetMemoryOfTheirOwn) {
  const std::shared_ptr<Arena> arena = NewArena(64 * kMiB);
  std::atomic<int> clashes{0};
  const auto work = [&](unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<SlabRun> runs;
    const auto mine = static_cast<std::byte>(seed);
    const auto is_mine = [&](const SlabRun& run) {
      return run.data[0] == mine && run.data[run.bytes / 2] == mine &&
             run.data[run.bytes - 1] == mine;
    };
    for (int step = 0; step < 3000; ++step) {
      if (!runs.empty() && (random() % 2 == 0 || runs.size() > 20)) {
        std::swap(runs[random() % runs.size()], runs.back());
        if (!is_mine(runs.back())) clashes.fetch_add(1);
        arena->Free(arena->Trim(runs.back(), runs.back().bytes / 2));
        runs.pop_back();
      } else if (const SlabRun run = arena->Allocate(1 + random() % 600000); run) {
        run.data[0] = run.data[run.bytes / 2] = run.data[run.bytes - 1] = mine;
        runs.push_back(run);
      }
    }
    for (const SlabRun& run : runs) arena->Free(run);
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  }
  EXPECT_EQ(clashes.load(), 0);
  EXPECT_EQ(arena->Report().in_use_bytes, 0u);
}

TEST(Arena, RefusesOptionsThatCannotWork) {
  ArenaOptions options;
  options.bytes = kMiB;
  options.slab_bytes = 100000;
  EXPECT_THROW(Arena::Create(options), Error);
  options.slab_bytes = 4096;
  EXPECT_THROW(Arena::Create(options), Error);
}

TEST(Arena, SaysWhatToDoWhereTheSystemRefuses) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory does not fit below a limit of address space";
#endif
  const ChildResult child = RunInChild([](std::string* text) {
    const rlimit limit{2048 * kMiB, 2048 * kMiB};
    setrlimit(RLIMIT_AS, &limit);
    try {
      NewArena(8192 * kMiB);
    } catch (const Error& error) {
      *text = error.what();
      const bool named = text->find("RINGFEED_ARENA_BYTES") != std::string::npos;
      return error.status().code() == StatusCode::kResourceExhausted && named ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST(Arena, TheDefaultTakesItsSizeFromTheEnvironment) {
  const auto size_with = [](const char* value) {
    const ChildResult child = RunInChild([value](std::string* text) {
      value == nullptr ? unsetenv("RINGFEED_ARENA_BYTES")
                       : setenv("RINGFEED_ARENA_BYTES", value, 1);
      try {
        *text = std::to_string(Arena::Default()->bytes());
        return Arena::Default() == Arena::Default() ? 0 : 1;
      } catch (const Error& error) {
        *text = StatusCodeName(error.status().code());
      }
      return 0;
    });
    return child.text;
  };
  EXPECT_EQ(size_with("4194304"), "4194304");
  EXPECT_EQ(size_with("64M"), std::to_string(64 * kMiB));
  EXPECT_EQ(size_with("1G"), std::to_string(1024 * kMiB));
  EXPECT_EQ(size_with("24MiB"), std::to_string(24 * kMiB)) << "as --arena";
  EXPECT_EQ(size_with("65536kb"), std::to_string(64 * kMiB));
  EXPECT_EQ(size_with("many"), "invalid_argument");
  EXPECT_EQ(size_with("-1"), "invalid_argument");
  EXPECT_EQ(size_with("0"), "invalid_argument");
  EXPECT_EQ(size_with("64 apples"), "invalid_argument");
  EXPECT_EQ(size_with("900P"), "invalid_argument");
  const std::size_t quarter = FindMemoryLimit().bytes / 4;
  const std::size_t rounded = (quarter + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  EXPECT_EQ(size_with(nullptr), std::to_string(rounded));
}

TEST(Arena, AChildOfForkGetsADefaultOfItsOwn) {
  if (!kThreadsAfterFork) GTEST_SKIP() << "the sanitizer allows no thread in a child of fork";
  const std::shared_ptr<Arena> arena = NewArena(8 * kMiB);
  const SlabRun run = arena->Allocate(kMiB);
  std::memset(run.data, 1, run.bytes);
  const ChildResult child = RunInChild([&](std::string* /*text*/) {
    setenv("RINGFEED_ARENA_BYTES", "4M", 1);
    const SlabRun own = Arena::Default()->Allocate(kMiB);
    std::memset(own.data, 2, own.bytes);
    return own ? 0 : 1;
  });
  EXPECT_EQ(child.status, 0) << child.text;
  EXPECT_EQ(run.data[5], std::byte{1});
}

// A device's: nobody here can look at it, and no device copies from it as from host memory.
TEST(Arena, HandsOutARangeThatIsNotItsOwnWithoutTouchingIt) {
  constexpr std::size_t kBytes = 4 * kMiB;
  void* const range = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(range, MAP_FAILED);
  const auto address = (reinterpret_cast<std::uintptr_t>(range) + 65535) / 65536 * 65536;
  auto* const data = reinterpret_cast<std::byte*>(address);
  int given_back = 0;
  {
    const std::shared_ptr<Arena> arena =
        Arena::Over(data, kBytes - 65536 - 100, [&] { ++given_back; });
    EXPECT_EQ(arena->bytes(), kBytes - 2 * 65536);
    EXPECT_EQ(Arena::Containing(data), nullptr);
    const SlabRun first = arena->Allocate(100'000);
    EXPECT_EQ(first.data, data);
    EXPECT_EQ(first.bytes, 131'072u);
    SlabRun second = arena->Allocate(kMiB);
    EXPECT_TRUE(arena->Extend(&second, kMiB + 1));
    arena->Free(first);
    EXPECT_EQ(arena->Allocate(65'536).data, data);
    EXPECT_FALSE(arena->Allocate(kBytes));
    EXPECT_EQ(arena->Report().populated_bytes, 0u);
    EXPECT_EQ(arena->Report().pages, "not host memory");
    EXPECT_TRUE(arena->ReserveQuota(kMiB));
  }
  EXPECT_EQ(given_back, 1);
  EXPECT_THROW(Arena::Over(data, 100, [] {}), Error);
  EXPECT_THROW(Arena::Over(data + 1, kBytes / 2, [] {}), Error);
  munmap(range, kBytes);
}

}  // namespace
}  // namespace ringfeed
