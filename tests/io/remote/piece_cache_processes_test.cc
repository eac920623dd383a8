#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/remote/piece_cache.h"
#include "tests/io/remote/cached_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kObjects = 40;
constexpr std::uint64_t kObjectBytes = 300'000;
constexpr std::uint64_t kMostBytes = 5'000'000;  // of 12 MB

std::shared_ptr<PieceCache> OpenShared(const std::string& folder) {
  std::shared_ptr<PieceCache> cache;
  const Status status = PieceCache::Open(folder, kMostBytes, &cache);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return cache;
}

/// A process that runs `body` and exits with its result, unless it is killed.
class Process {
 public:
  template <typename Body>
  explicit Process(const Body& body) : pid_(fork()) {
    if (pid_ == 0) _exit(body());
  }
  void Kill() const { (void)kill(pid_, SIGKILL); }
  /// The exit status; -1: it was killed.
  int Wait() const {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  const pid_t pid_;
};

// Made before the processes are: they read and write, and little else.
const std::vector<std::byte>& BytesOf(std::uint64_t number) {
  static const std::vector<std::vector<std::byte>> made = [] {
    std::vector<std::vector<std::byte>> all;
    for (std::uint64_t n = 0; n < kObjects; ++n) {
      all.push_back(PatternPiece(n, PatternObject(n, kObjectBytes), 0));
    }
    return all;
  }();
  return made[number];
}

/// Reads objects by chance and adds what is not there. 0: all bytes were right.
int UseShared(const std::string& folder, unsigned seed, int rounds) {
  std::shared_ptr<PieceCache> cache;
  if (!PieceCache::Open(folder, kMostBytes, &cache).ok()) return 1;
  std::mt19937 random(seed);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t number = random() % kObjects;
    const CachedObject object = PatternObject(number, kObjectBytes);
    const std::vector<std::byte>& bytes = BytesOf(number);
    const Given given = Take(cache.get(), object, 0, bytes);
    if (given == Given::kWrongBytes) return 2;
    if (given == Given::kNothing) cache->Add(object, 0, bytes);
    if (round % 20 == 19 && !PieceCache::Open(folder, kMostBytes, &cache).ok()) return 3;
  }
  const PieceCacheStats stats = cache->Stats();
  return stats.bad != 0 || !stats.off_reason.empty() ? 4 : 0;
}

void ExpectRight(const std::string& folder) {
  ASSERT_LE(LookAt(folder).bytes, kMostBytes);
  const std::shared_ptr<PieceCache> cache = OpenShared(folder);
  ASSERT_EQ(LookAt(folder).parts, 0);
  ASSERT_EQ(LookAt(folder).bytes, cache->bytes());
  for (std::uint64_t number = 0; number < kObjects; ++number) {
    const CachedObject object = PatternObject(number, kObjectBytes);
    ASSERT_NE(Take(cache.get(), object, 0, BytesOf(number)), Given::kWrongBytes);
  }
  ASSERT_EQ(cache->Stats().bad, 0);
  ASSERT_EQ(cache->Stats().off_reason, "");
}

TEST(PieceCacheProcessesTest, ThreeProcessesShareAFolder) {
  const TempDir place;
  const std::string folder = place.File("cache");
  (void)BytesOf(0);
  const auto use = [&](unsigned n) {
    return Process([&, n] { return UseShared(folder, n, StressRounds(200)); });
  };
  const std::array<Process, 3> processes{use(1), use(2), use(3)};
  for (const Process& process : processes) EXPECT_EQ(process.Wait(), 0);
  ExpectRight(folder);
  EXPECT_GT(LookAt(folder).pieces, 10);
}

TEST(PieceCacheProcessesTest, ProcessesThatAreKilledLeaveWholePiecesWithinTheBound) {
  const TempDir place;
  const std::string folder = place.File("cache");
  std::mt19937 random(11);
  (void)BytesOf(0);
  int killed = 0;
  std::size_t parts = 0;  // that they left: some were killed while they wrote
  for (unsigned round = 0; killed < StressRounds(100) || parts == 0; ++round) {
    const auto use = [&](unsigned n) {
      return Process([&, n] { return UseShared(folder, 3 * round + n, 100'000); });
    };
    const std::array<Process, 3> processes{use(0), use(1), use(2)};
    for (const Process& process : processes) {
      // Not how long something takes: any moment will do.
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5'000));
      process.Kill();
    }
    for (const Process& process : processes) {
      ASSERT_EQ(process.Wait(), -1);
      ++killed;
    }
    parts += LookAt(folder).parts;
    ASSERT_NO_FATAL_FAILURE(ExpectRight(folder)) << round;
    ASSERT_TRUE(OpenShared(folder)->Trim(0).ok());  // so that the next ones write
  }
}

TEST(PieceCacheProcessesTest, TheSamePieceOfAKilledWriterIsTakenOverAtOnce) {
  const TempDir place;
  const std::string folder = place.File("cache");
  const std::shared_ptr<PieceCache> cache = OpenShared(folder);
  const CachedObject object = PatternObject(1, kObjectBytes);
  const std::vector<std::byte>& bytes = BytesOf(1);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const Process writer([&] {
    const std::shared_ptr<PieceCache> own = OpenShared(folder);
    const std::unique_ptr<PieceWriter> begun = own->Begin(object, 0);
    if (begun == nullptr || write(ends[1], "", 1) != 1) return 1;
    pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_FALSE(cache->Add(object, 0, bytes));  // it is being written
  EXPECT_EQ(OpenShared(folder)->bytes(), PieceFileBytes(object, 0));
  writer.Kill();
  EXPECT_EQ(writer.Wait(), -1);
  EXPECT_TRUE(cache->Add(object, 0, bytes));
  EXPECT_EQ(Take(cache.get(), object, 0, bytes), Given::kItsBytes);
  EXPECT_EQ(cache->bytes(), PieceFileBytes(object, 0));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace ringfeed
