#include "io/remote/piece_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/io/remote/cached_data.h"
#include "tests/support/pattern_file.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;
constexpr std::uint64_t kSmallBytes = 100'000;
// Room for 43 pieces of a small object.
constexpr std::uint64_t kLittle = 43 * (kSmallBytes + 300) + 4000;

class PieceCacheTest : public testing::Test {
 protected:
  std::shared_ptr<PieceCache> Open(std::uint64_t most_bytes = kPlenty) const {
    std::shared_ptr<PieceCache> cache;
    const Status status = PieceCache::Open(folder_, most_bytes, &cache);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return cache;
  }
  std::string FileOf(const CachedObject& object, std::uint64_t number) const {
    return folder_ + "/" + PieceFileName(object, number);
  }
  static bool AddSmall(PieceCache* cache, std::uint64_t seed) {
    const CachedObject object = PatternObject(seed, kSmallBytes);
    return cache->Add(object, 0, PatternPiece(seed, object, 0));
  }
  static Given TakeSmall(PieceCache* cache, std::uint64_t seed) {
    const CachedObject object = PatternObject(seed, kSmallBytes);
    return Take(cache, object, 0, PatternPiece(seed, object, 0));
  }
  static Status Refusal(const std::string& folder) {
    std::shared_ptr<PieceCache> cache;
    return PieceCache::Open(folder, kPlenty, &cache);
  }

  const TempDir place_;
  const std::string folder_ = place_.File("cache");
};

std::vector<char> ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Overwrite(const std::string& path, const std::vector<char>& content) {
  std::ofstream(path, std::ios::binary).write(content.data(), std::ssize(content));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
}

TEST_F(PieceCacheTest, WhatIsAddedIsFoundByEveryLaterCache) {
  const CachedObject object = PatternObject(7, 2 * std::uint64_t{kPieceBytes} + 5000);
  std::shared_ptr<PieceCache> cache = Open();
  for (const std::uint64_t number : {2U, 0U, 1U}) {
    EXPECT_EQ(cache->Find(object, number), nullptr);
    EXPECT_TRUE(cache->Add(object, number, PatternPiece(7, object, number)));
    EXPECT_FALSE(cache->Add(object, number, PatternPiece(7, object, number)));
  }
  EXPECT_FALSE(cache->Add(object, 3, {}));
  cache = Open();
  std::mt19937 random(1);
  for (const std::uint64_t number : {0U, 1U, 2U}) {
    const std::vector<std::byte> expected = PatternPiece(7, object, number);
    EXPECT_EQ(Take(cache.get(), object, number, expected), Given::kItsBytes);
    const std::unique_ptr<CachedPiece> piece = cache->Find(object, number);
    for (int round = 0; round < 50; ++round) {
      const auto begin = static_cast<std::uint32_t>(random() % (piece->bytes() + 1));
      std::vector<std::byte> part(random() % std::min(piece->bytes() - begin + 1, 20'000U));
      ASSERT_TRUE(piece->Read(begin, part));
      ASSERT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + begin));
    }
  }
  const PieceCacheStats stats = cache->Stats();
  EXPECT_EQ(stats.hits, 6);
  EXPECT_EQ(stats.misses + stats.bad + stats.written, 0);
  EXPECT_EQ(cache->bytes(), LookAt(folder_).bytes);
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
}

TEST_F(PieceCacheTest, AnotherVersionSizeNameOrPieceIsAMiss) {
  const CachedObject object = PatternObject(7, 2 * std::uint64_t{kPieceBytes});
  const std::shared_ptr<PieceCache> cache = Open();
  ASSERT_TRUE(cache->Add(object, 0, PatternPiece(7, object, 0)));
  EXPECT_EQ(cache->Find({object.name, object.bytes, "\"v2\""}, 0), nullptr);
  EXPECT_EQ(cache->Find({object.name, object.bytes + 1, object.version}, 0), nullptr);
  EXPECT_EQ(cache->Find({object.name + "\"", object.bytes, "v1\""}, 0), nullptr);
  EXPECT_EQ(cache->Find(object, 1), nullptr);
  EXPECT_EQ(cache->Find(object, 2), nullptr);
  EXPECT_EQ(cache->Find(object, ~std::uint64_t{0}), nullptr);
  EXPECT_EQ(cache->Stats().misses, 6);
  EXPECT_EQ(cache->Stats().bad, 0);
  // Nothing tells its versions apart.
  const CachedObject versionless{"http://a/b", 10, ""};
  EXPECT_FALSE(cache->Add(versionless, 0, std::vector<std::byte>(10)));
}

TEST_F(PieceCacheTest, PartsComeInAnyOrderByTheCallersOwnWrites) {
  const CachedObject object = PatternObject(1, 3 * kPieceBlockBytes + 17);
  const std::vector<std::byte> bytes = PatternPiece(1, object, 0);
  const std::shared_ptr<PieceCache> cache = Open();
  {
    const std::unique_ptr<PieceWriter> writer = cache->Begin(object, 0);
    ASSERT_NE(writer, nullptr);
    EXPECT_EQ(cache->Begin(object, 0), nullptr);  // one writer is enough
    writer->Write(0, std::span(bytes).first(kPieceBlockBytes));
    EXPECT_FALSE(writer->Finish());  // bytes are missing
    EXPECT_EQ(cache->Find(object, 0), nullptr);
  }
  EXPECT_EQ(LookAt(folder_).parts, 0);
  EXPECT_EQ(cache->bytes(), 0);
  const std::unique_ptr<PieceWriter> writer = cache->Begin(object, 0);
  for (const std::uint32_t block : {3U, 0U, 2U, 1U}) {
    const auto rest = std::span(bytes).subspan(block * kPieceBlockBytes);
    const auto part = rest.first(std::min<std::size_t>(rest.size(), kPieceBlockBytes));
    writer->Note(block * kPieceBlockBytes, part);
    ASSERT_EQ(WriteAllAt(writer->descriptor(), block * kPieceBlockBytes, part), 0);
  }
  EXPECT_TRUE(writer->Finish());
  EXPECT_EQ(Take(cache.get(), object, 0, bytes), Given::kItsBytes);
}

TEST_F(PieceCacheTest, DamageAtAnyByteGivesNoWrongBytesAndThePieceIsAddedAnew) {
  const CachedObject object = PatternObject(3, 2 * kPieceBlockBytes + 100);
  const std::vector<std::byte> bytes = PatternPiece(3, object, 0);
  const std::shared_ptr<PieceCache> cache = Open();
  ASSERT_TRUE(cache->Add(object, 0, bytes));
  const std::string file = FileOf(object, 0);
  const std::vector<char> intact = ContentOf(file);
  ASSERT_EQ(intact.size(), PieceFileBytes(object, 0));
  const std::size_t step = kSanitized ? 7 : 1;
  std::uint64_t damaged = 0;
  for (std::size_t place = 0; place < intact.size(); place += step, damaged += 2) {
    std::vector<char> content = intact;
    content[place] = static_cast<char>(content[place] ^ 1 << place % 8);
    ASSERT_NO_FATAL_FAILURE(Overwrite(file, content));
    ASSERT_EQ(Take(cache.get(), object, 0, bytes), Given::kNothing) << place;
    ASSERT_FALSE(fs::exists(file));
    content.resize(place);
    ASSERT_NO_FATAL_FAILURE(Overwrite(file, content));
    ASSERT_EQ(Take(cache.get(), object, 0, bytes), Given::kNothing) << place;
  }
  EXPECT_EQ(cache->Stats().bad, damaged);
  EXPECT_TRUE(cache->Add(object, 0, bytes));
  EXPECT_EQ(Take(cache.get(), object, 0, bytes), Given::kItsBytes);
  EXPECT_EQ(cache->Stats().off_reason, "");
}

TEST_F(PieceCacheTest, AMovedFileIsNeverTakenForAnotherPiece) {
  const std::shared_ptr<PieceCache> cache = Open();
  ASSERT_TRUE(AddSmall(cache.get(), 1));
  fs::rename(FileOf(PatternObject(1, kSmallBytes), 0), FileOf(PatternObject(2, kSmallBytes), 0));
  EXPECT_EQ(TakeSmall(cache.get(), 2), Given::kNothing);
  EXPECT_EQ(cache->Stats().bad, 1);
  EXPECT_EQ(LookAt(folder_).pieces, 0);
}

TEST_F(PieceCacheTest, TheFormatOfAPieceStays) {
  const fs::path kept = fs::path(RINGFEED_TEST_DATA) / "piece_cache";
  const std::shared_ptr<PieceCache> cache = Open();
  ASSERT_TRUE(cache->Add({"s3://bucket/a.tfrecord", 10, "\"etag\""}, 0,
                         std::as_bytes(std::span("0123456789", 10))));
  for (const auto& entry : fs::directory_iterator(kept)) {
    EXPECT_EQ(ContentOf(folder_ + "/" + entry.path().filename().string()),
              ContentOf(entry.path().string()));
  }
  EXPECT_FALSE(fs::is_empty(kept));
}

TEST_F(PieceCacheTest, AtTheBoundARunKeepsWhatItHasUsedAndTheNextOneRemovesTheOldestFirst) {
  std::shared_ptr<PieceCache> cache = Open(kLittle);
  std::vector<std::uint64_t> there;  // the least recently used first
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    if (AddSmall(cache.get(), seed)) there.push_back(seed);
    ASSERT_LE(LookAt(folder_).bytes, kLittle);
    ASSERT_EQ(LookAt(folder_).bytes, cache->bytes());
  }
  EXPECT_EQ(there.size(), 43);
  EXPECT_EQ(cache->Stats().declined, 60 - 43);
  EXPECT_EQ(cache->Stats().removed, 0);
  std::mt19937 random(5);
  std::ranges::shuffle(there, random);
  for (const std::uint64_t seed : there) {
    ASSERT_EQ(TakeSmall(cache.get(), seed), Given::kItsBytes);
  }

  cache = Open(kLittle);
  const std::uint64_t used = there.front();
  ASSERT_EQ(TakeSmall(cache.get(), used), Given::kItsBytes);
  std::vector<std::uint64_t> oldest(there.begin() + 1, there.end());
  for (std::uint64_t seed = 100; !oldest.empty(); ++seed) {
    ASSERT_TRUE(AddSmall(cache.get(), seed));
    ASSERT_LE(LookAt(folder_).bytes, kLittle);
    ASSERT_EQ(fs::exists(FileOf(PatternObject(oldest.front(), kSmallBytes), 0)), false);
    oldest.erase(oldest.begin());
    ASSERT_EQ(LookAt(folder_).pieces, 43);
  }
  EXPECT_FALSE(AddSmall(cache.get(), 99));
  EXPECT_EQ(TakeSmall(cache.get(), used), Given::kItsBytes);
  EXPECT_EQ(cache->Stats().removed, 42);

  ASSERT_TRUE(cache->Trim(5 * kSmallBytes).ok());
  EXPECT_EQ(LookAt(folder_).pieces, 4);
  EXPECT_EQ(TakeSmall(cache.get(), used), Given::kItsBytes);
  EXPECT_EQ(Open(kLittle)->bytes(), LookAt(folder_).bytes);
}

TEST_F(PieceCacheTest, OpeningWithASmallerBoundRemovesWhatIsMore) {
  {
    const std::shared_ptr<PieceCache> cache = Open();
    for (std::uint64_t seed = 0; seed < 60; ++seed) ASSERT_TRUE(AddSmall(cache.get(), seed));
  }
  const std::shared_ptr<PieceCache> cache = Open(kLittle);
  EXPECT_EQ(cache->Stats().removed, 17);
  EXPECT_LE(LookAt(folder_).bytes, kLittle);
  EXPECT_EQ(TakeSmall(cache.get(), 16), Given::kNothing);
  EXPECT_EQ(TakeSmall(cache.get(), 17), Given::kItsBytes);
}

TEST_F(PieceCacheTest, AClockThatWasSetBackKeepsNoPieceForEver) {
  {
    const std::shared_ptr<PieceCache> cache = Open();
    for (std::uint64_t seed = 0; seed < 10; ++seed) ASSERT_TRUE(AddSmall(cache.get(), seed));
  }
  fs::last_write_time(FileOf(PatternObject(7, kSmallBytes), 0),
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  const std::shared_ptr<PieceCache> cache = Open();
  ASSERT_TRUE(cache->Trim(LookAt(folder_).bytes - 1).ok());
  EXPECT_EQ(TakeSmall(cache.get(), 7), Given::kNothing);
  EXPECT_EQ(LookAt(folder_).pieces, 9);
}

TEST_F(PieceCacheTest, APieceInUseStaysReadableAfterItsRemoval) {
  const std::shared_ptr<PieceCache> cache = Open();
  ASSERT_TRUE(AddSmall(cache.get(), 1));
  const CachedObject object = PatternObject(1, kSmallBytes);
  const std::unique_ptr<CachedPiece> piece = cache->Find(object, 0);
  ASSERT_TRUE(Open()->Trim(0).ok());
  EXPECT_EQ(LookAt(folder_).pieces, 0);
  std::vector<std::byte> bytes(piece->bytes());
  EXPECT_TRUE(piece->Read(0, bytes));
  EXPECT_EQ(FirstDifference(bytes, 0, 1), bytes.size());
  // Discarding the removed one leaves another file of its name alone.
  ASSERT_TRUE(AddSmall(cache.get(), 1));
  piece->Discard();
  EXPECT_EQ(TakeSmall(cache.get(), 1), Given::kItsBytes);
}

TEST_F(PieceCacheTest, TheBoundIsHeldWhenTheTotalOrAllFilesAreRemovedBySomebody) {
  const std::shared_ptr<PieceCache> cache = Open(kLittle);
  for (std::uint64_t seed = 0; seed < 40; ++seed) ASSERT_TRUE(AddSmall(cache.get(), seed));
  ASSERT_TRUE(fs::remove(folder_ + "/.total"));
  for (std::uint64_t seed = 40; seed < 50; ++seed) AddSmall(cache.get(), seed);
  EXPECT_EQ(LookAt(folder_).pieces, 43);
  Overwrite(folder_ + "/.total", std::vector<char>(24));
  EXPECT_FALSE(AddSmall(cache.get(), 50));
  const std::unique_ptr<PieceWriter> writer = [&] {
    for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry.path());
    return cache->Begin(PatternObject(60, kSmallBytes), 0);
  }();
  ASSERT_NE(writer, nullptr);
  for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry.path());
  writer->Write(0, PatternPiece(60, PatternObject(60, kSmallBytes), 0));
  (void)writer->Finish();
  EXPECT_TRUE(AddSmall(cache.get(), 61));
  EXPECT_EQ(cache->Stats().off_reason, "");
  EXPECT_EQ(LookAt(folder_).bytes, cache->bytes());
}

TEST_F(PieceCacheTest, FilesThatAreNotOfTheCacheStay) {
  fs::create_directory(folder_);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const std::string own = folder_ + "/notes.txt";
  Overwrite(own, {'a'});
  const std::string folder = folder_ + "/" + std::string(32, 'a');
  fs::create_directory(folder);
  const std::shared_ptr<PieceCache> cache = Open();
  ASSERT_TRUE(AddSmall(cache.get(), 1));
  ASSERT_TRUE(cache->Trim(0).ok());
  EXPECT_EQ(cache->bytes(), 0);
  EXPECT_TRUE(fs::exists(own) && fs::exists(folder));
}

TEST_F(PieceCacheTest, AFolderThatOthersCouldChangeIsRefusedWithTheRemedy) {
  EXPECT_EQ(Refusal(place_.File("none/cache")).code(), StatusCode::kNotFound);
  fs::create_directory(folder_);
  for (const mode_t mode : {0770U, 0702U}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    const Status refusal = Refusal(folder_);
    EXPECT_EQ(refusal.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refusal.message().find("chmod go-w " + folder_), std::string::npos);
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  const std::string link = place_.File("link");
  fs::create_symlink(folder_, link);
  EXPECT_NE(Refusal(link).message().find("is a link"), std::string::npos);
  std::shared_ptr<PieceCache> cache;
  EXPECT_NE(PieceCache::Open(folder_, 4 << 20, &cache).message().find("1 GiB"), std::string::npos);
  EXPECT_EQ(PieceCache::OpenExisting(place_.File("none"), &cache).code(), StatusCode::kNotFound);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  ASSERT_EQ(chown(folder_.c_str(), 12345, 0), 0);
  EXPECT_NE(Refusal(folder_).message().find("another user"), std::string::npos);
}

TEST_F(PieceCacheTest, AFileThatOthersCouldChangeIsABadPiece) {
  const std::shared_ptr<PieceCache> cache = Open();
  ASSERT_TRUE(AddSmall(cache.get(), 1));
  const std::string file = FileOf(PatternObject(1, kSmallBytes), 0);
  ASSERT_EQ(chmod(file.c_str(), 0620), 0);
  EXPECT_EQ(TakeSmall(cache.get(), 1), Given::kNothing);
  EXPECT_FALSE(fs::exists(file));
  // Nor is a link followed.
  ASSERT_TRUE(AddSmall(cache.get(), 1));
  fs::rename(file, place_.File("elsewhere"));
  fs::create_symlink(place_.File("elsewhere"), file);
  EXPECT_EQ(TakeSmall(cache.get(), 1), Given::kNothing);
  EXPECT_EQ(cache->Stats().bad, 1);
}

TEST_F(PieceCacheTest, ExamineTellsEveryPieceAndRemovesBadOnesIfItReadsAll) {
  const std::shared_ptr<PieceCache> cache = Open();
  for (std::uint64_t seed = 0; seed < 4; ++seed) ASSERT_TRUE(AddSmall(cache.get(), seed));
  const std::string damaged = FileOf(PatternObject(2, kSmallBytes), 0);
  std::vector<char> content = ContentOf(damaged);
  content[5000] ^= 1;
  Overwrite(damaged, content);
  for (const bool all : {false, true}) {
    std::size_t good = 0;
    std::size_t bad = 0;
    const Status status = cache->Examine(all, [&](const PieceCache::Examined& piece) {
      (piece.bad ? bad : good) += 1;
      EXPECT_TRUE(piece.footer && piece.footer->object.bytes == kSmallBytes);
    });
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(good, all ? 3 : 4);
    EXPECT_EQ(bad, all ? 1 : 0);
  }
  EXPECT_FALSE(fs::exists(damaged));
  EXPECT_EQ(LookAt(folder_).bytes, cache->bytes());
}

TEST_F(PieceCacheTest, ThreadsOfTwoCachesShareAFolder) {
  const std::shared_ptr<PieceCache> caches[] = {Open(kLittle), Open(kLittle)};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      std::mt19937 random(n);
      for (int round = 0; round < StressRounds(300); ++round) {
        PieceCache* const cache = caches[n % 2].get();
        const std::uint64_t seed = random() % 60;
        const Given given = TakeSmall(cache, seed);
        if (given == Given::kWrongBytes) ++wrong;
        if (given == Given::kNothing) AddSmall(cache, seed);
        if (round % 50 == 49 && !cache->Trim(kLittle / 2).ok()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(LookAt(folder_).bytes, kLittle);
  EXPECT_EQ(LookAt(folder_).parts, 0);
  EXPECT_EQ(caches[0]->bytes(), LookAt(folder_).bytes);
  for (const auto& cache : caches) {
    EXPECT_EQ(cache->Stats().off_reason, "");
    EXPECT_EQ(cache->Stats().bad, 0);
  }
}

}  // namespace
}  // namespace ringfeed
