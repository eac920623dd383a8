#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/remote/piece_cache.h"
#include "tests/io/remote/cached_data.h"
#include "tests/support/pattern_file.h"
#include "tests/support/restrictions.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

std::atomic<bool> counts{false};
std::atomic<long> calls{0};
std::atomic<long> failing_call{0};
std::atomic<int> error{0};
std::atomic<bool> disk_is_full{false};

/// Whether this system call fails, with errno set.
bool Fails(std::string_view call) {
  const bool full = disk_is_full && call == "pwrite";
  if (!full && (!counts || ++calls != failing_call)) return false;
  errno = full ? ENOSPC : error.load();
  return true;
}

}  // namespace
}  // namespace ringfeed

// They go before the C library's.
#define RINGFEED_CALL(result, name, parameters, ...)                                           \
  extern "C" result name parameters {                                                          \
    static auto* const real = reinterpret_cast<result(*) parameters>(dlsym(RTLD_NEXT, #name)); \
    return ringfeed::Fails(#name) ? -1 : real(__VA_ARGS__);                                    \
  }
RINGFEED_CALL(int, fstat, (int file, struct stat* to) noexcept, file, to)
RINGFEED_CALL(int, fstatat, (int in, const char* path, struct stat* to, int flags) noexcept, in,
              path, to, flags)
RINGFEED_CALL(ssize_t, pread, (int file, void* to, size_t bytes, off_t at), file, to, bytes, at)
RINGFEED_CALL(ssize_t, preadv, (int file, const iovec* to, int count, off_t at), file, to, count,
              at)
RINGFEED_CALL(ssize_t, pwrite, (int file, const void* from, size_t bytes, off_t at), file, from,
              bytes, at)
RINGFEED_CALL(int, ftruncate, (int file, off_t bytes) noexcept, file, bytes)
RINGFEED_CALL(int, flock, (int file, int operation) noexcept, file, operation)
RINGFEED_CALL(int, renameat, (int in, const char* from, int out, const char* to) noexcept, in, from,
              out, to)
RINGFEED_CALL(int, unlinkat, (int in, const char* path, int flags) noexcept, in, path, flags)
RINGFEED_CALL(int, futimens, (int file, const timespec* times) noexcept, file, times)
// The one mode that a cache gives.
extern "C" int openat(int in, const char* path, int flags, ...) {
  static auto* const real =
      reinterpret_cast<int (*)(int, const char*, int, ...)>(dlsym(RTLD_NEXT, "openat"));
  return ringfeed::Fails("openat") ? -1 : real(in, path, flags, 0600);
}

namespace ringfeed {
namespace {

constexpr std::uint64_t kObjectBytes = 1'000'000;
constexpr std::uint64_t kRoomOfFour = 4'500'000;

// Made once: there are thousands of uses.
std::span<const std::byte> BytesOf(std::uint64_t seed) {
  static std::map<std::uint64_t, std::vector<std::byte>> made;
  std::vector<std::byte>& bytes = made[seed];
  if (bytes.empty()) bytes = PatternPiece(seed, PatternObject(seed, kObjectBytes), 0);
  return bytes;
}

bool AddOne(PieceCache* cache, std::uint64_t seed) {
  return cache->Add(PatternObject(seed, kObjectBytes), 0, BytesOf(seed));
}

Given TakeOne(PieceCache* cache, std::uint64_t seed) {
  return Take(cache, PatternObject(seed, kObjectBytes), 0, BytesOf(seed));
}

std::shared_ptr<PieceCache> OpenOne(const std::string& folder) {
  std::shared_ptr<PieceCache> cache;
  (void)PieceCache::Open(folder, kRoomOfFour, &cache);
  return cache;
}

TEST(PieceCacheFaultsTest, AFullDiskTurnsTheCacheOffAndWhatIsThereIsStillRead) {
  const TempDir place;
  const std::shared_ptr<PieceCache> cache = OpenOne(place.File("cache"));
  ASSERT_TRUE(AddOne(cache.get(), 1));
  disk_is_full = true;
  EXPECT_FALSE(AddOne(cache.get(), 2));
  disk_is_full = false;
  EXPECT_NE(cache->Stats().off_reason.find("No space left"), std::string::npos);
  EXPECT_FALSE(AddOne(cache.get(), 3));
  EXPECT_EQ(cache->Stats().declined, 2);
  EXPECT_EQ(TakeOne(cache.get(), 1), Given::kItsBytes);
  EXPECT_EQ(TakeOne(cache.get(), 2), Given::kNothing);
  EXPECT_EQ(LookAt(place.File("cache")).parts, 0);
  EXPECT_TRUE(AddOne(OpenOne(place.File("cache")).get(), 3));
}

TEST(PieceCacheFaultsTest, TheCallersOwnFailedWriteTurnsItOffIfItLasts) {
  const TempDir place;
  const std::shared_ptr<PieceCache> cache = OpenOne(place.File("cache"));
  for (const int number : {ENOMEM, EDQUOT}) {
    EXPECT_EQ(cache->Stats().off_reason, "");
    const std::unique_ptr<PieceWriter> writer = cache->Begin(PatternObject(1, 10), 0);
    ASSERT_NE(writer, nullptr);
    writer->Fail(number);
    EXPECT_FALSE(writer->Finish());
    EXPECT_EQ(LookAt(place.File("cache")).parts, 0);
  }
  EXPECT_NE(cache->Stats().off_reason.find("quota"), std::string::npos);
}

TEST(PieceCacheFaultsTest, ALimitOfTheSizeOfFilesTurnsItOffInPlaceOfASignal) {
  const ChildResult result = RunInChild([](std::string* text) {
    const TempDir place;
    const rlimit limit{1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    const std::shared_ptr<PieceCache> cache = OpenOne(place.File("cache"));
    *text = cache->Stats().off_reason;
    return AddOne(cache.get(), 1) ? 1 : 0;
  });
  EXPECT_FALSE(result.signalled);
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.text.find("ulimit -f"), std::string::npos);
}

// Opens, adds beyond the bound, reads, reads a bad piece.
void UseCache(const std::string& folder) {
  const std::shared_ptr<PieceCache> cache = OpenOne(folder);
  if (cache == nullptr) return;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    EXPECT_NE(TakeOne(cache.get(), seed), Given::kWrongBytes);
    AddOne(cache.get(), seed);
    EXPECT_NE(TakeOne(cache.get(), seed), Given::kWrongBytes);
  }
  if (const auto piece = cache->Find(PatternObject(2, kObjectBytes), 0)) piece->Discard();
}

// Four pieces that are old, and one that a killed writer left.
void Prepare(const std::string& folder) {
  const std::shared_ptr<PieceCache> cache = OpenOne(folder);
  for (std::uint64_t seed = 10; seed < 14; ++seed) ASSERT_TRUE(AddOne(cache.get(), seed));
  const std::string left = folder + "/" + std::string(32, 'f') + ".part";
  WritePatternFile(left, 1000);
  ASSERT_EQ(chmod(left.c_str(), 0600), 0);
}

TEST(PieceCacheFaultsTest, WhicheverSystemCallFailsNothingWrongIsReadAndTheBoundIsHeld) {
  for (const int number : {ENOSPC, EMFILE}) {
    for (long at = 1; failing_call <= calls; at += kSanitized ? 7 : 1) {
      const TempDir place;
      const std::string folder = place.File("cache");
      ASSERT_NO_FATAL_FAILURE(Prepare(folder));
      error = number;
      calls = 0;
      failing_call = at;
      counts = true;
      UseCache(folder);
      counts = false;
      ASSERT_LE(LookAt(folder).bytes, kRoomOfFour) << at;
      const std::shared_ptr<PieceCache> next = OpenOne(folder);
      ASSERT_NE(next, nullptr);
      ASSERT_EQ(next->Stats().off_reason, "");
      ASSERT_EQ(LookAt(folder).parts, 0) << at;
      ASSERT_EQ(LookAt(folder).bytes, next->bytes()) << at;
      for (std::uint64_t seed = 0; seed < 14; ++seed) {
        ASSERT_NE(TakeOne(next.get(), seed), Given::kWrongBytes) << at;
      }
    }
    EXPECT_GT(calls, 100);
    failing_call = 0;
  }
}

}  // namespace
}  // namespace ringfeed
