// Reader::MakeIndex, and what breaks it off.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "ringfeed/decorators.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/record_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

constexpr std::size_t kRecords = 1200;
constexpr int kReadsOfIdentity = 8;  // in front of those of the scan

std::vector<std::byte> Contents() {
  const std::vector<std::size_t> sizes(kRecords, 10000);
  return MakeTfRecords(0, sizes).bytes;
}

// A store that tells of each read; several threads may read it.
class WatchedSource final : public MemorySource {
 public:
  WatchedSource(std::string name, std::function<void(int)> on_read)
      : MemorySource(std::move(name), Contents()), on_read_(std::move(on_read)) {}

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    on_read_(reads_.fetch_add(1) + 1);
    return MemorySource::ReadAt(offset, buffer, bytes_read);
  }
  int reads() const { return reads_.load(); }

 private:
  std::function<void(int)> on_read_;
  std::atomic<int> reads_{0};
};

StatusCode CodeOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

Reader ShuffledOver(const std::shared_ptr<Source>& source) {
  return Shuffle(OpenSources({source}), {.seed = 1, .mode = ShuffleMode::kGlobal});
}

std::size_t CountOf(Reader& reader) {
  std::size_t records = 0;
  RecordBlock block;
  while (reader.TryReadBlock(&block) == ReadResult::kRecord) records += block.size();
  return records;
}

TEST(MakeIndex, ReadsTheFilesOnceAndLeavesNothingForTheFirstRead) {
  const auto source = std::make_shared<WatchedSource>("a.tfrecord", [](int) {});
  Reader reader = ShuffledOver(source);
  reader.MakeIndex(IndexPurpose::kReading);
  const int reads = source->reads();
  EXPECT_GT(reads, 0);
  reader.MakeIndex(IndexPurpose::kCounting);
  EXPECT_EQ(reader.FileRecords(), std::vector<std::uint64_t>{kRecords});
  EXPECT_EQ(source->reads(), reads);
  EXPECT_EQ(CountOf(reader), kRecords);
}

TEST(MakeIndex, IsNotMadeForReadingWhereFilesAreReadInOrder) {
  const auto source = std::make_shared<WatchedSource>("a.tfrecord", [](int) {});
  Reader reader = OpenSources({source});
  reader.MakeIndex(IndexPurpose::kReading);
  EXPECT_EQ(source->reads(), 0);
  reader.MakeIndex(IndexPurpose::kCounting);
  EXPECT_GT(source->reads(), 0);
}

TEST(MakeIndex, AStopBeforehandOrAtAnyReadBreaksItOffAndTheNextOneWorks) {
  int all = 0;
  {
    const auto source = std::make_shared<WatchedSource>("a.tfrecord", [](int) {});
    ShuffledOver(source).MakeIndex(IndexPurpose::kReading);
    all = source->reads();
  }
  ASSERT_GT(all, kReadsOfIdentity + 2);
  for (int at = 0; at < all; at += kSanitized ? 3 : 1) {
    std::stop_source stop;
    if (at == 0) stop.request_stop();
    const auto source = std::make_shared<WatchedSource>("a.tfrecord", [&](int read) {
      if (read == at) stop.request_stop();
    });
    Reader reader = ShuffledOver(source);
    EXPECT_EQ(CodeOf([&] { reader.MakeIndex(IndexPurpose::kReading, stop.get_token()); }),
              StatusCode::kCancelled)
        << at;
    EXPECT_LE(source->reads(), std::max(at, kReadsOfIdentity) + 1);
    EXPECT_EQ(CountOf(reader), kRecords);
  }
}

TEST(MakeIndex, SkippedDamageDoesNotHideThatItWasBrokenOff) {
  std::stop_source stop;
  const auto source = std::make_shared<WatchedSource>("a.tfrecord", [&](int read) {
    if (read == kReadsOfIdentity + 1) stop.request_stop();
  });
  OpenOptions options;
  options.on_damage = OnDamage::kSkip;
  Reader reader = Shuffle(OpenSources({source}, options), {.mode = ShuffleMode::kGlobal});
  EXPECT_EQ(CodeOf([&] { reader.MakeIndex(IndexPurpose::kReading, stop.get_token()); }),
            StatusCode::kCancelled);
  EXPECT_EQ(CountOf(reader), kRecords);
}

// Of whatever makes it: the reader's own first read here.
TEST(MakeIndex, CloseEndsItUnderWay) {
  std::atomic<int> reads{0};
  const auto source = std::make_shared<WatchedSource>("a.tfrecord", [&](int read) {
    reads.store(read);
    reads.notify_all();
    if (read == kReadsOfIdentity + 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  Reader reader = ShuffledOver(source);
  std::jthread closer([&] {
    for (int seen = 0; seen <= kReadsOfIdentity; seen = reads.load()) reads.wait(seen);
    reader.Close();
  });
  RecordBlock block;
  EXPECT_EQ(reader.TryReadBlock(&block), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(CodeOf([&] { (void)reader.ReadNext(); }), StatusCode::kCancelled);
}

TEST(MakeIndex, NothingIsLeftOnTheDiskOfOneThatWasBrokenOff) {
  const TestFolder folder;
  const std::string name = folder.File("a.tfrecord");
  WriteBytes(name, Contents());
  Reader reader = Shuffle(OpenFiles({name}), {.mode = ShuffleMode::kGlobal});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CodeOf([&] { reader.MakeIndex(IndexPurpose::kReading, stop.get_token()); }),
            StatusCode::kCancelled);
  const auto files = std::filesystem::directory_iterator(std::filesystem::path(name).parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_EQ(CountOf(reader), kRecords);
}

}  // namespace
}  // namespace ringfeed
