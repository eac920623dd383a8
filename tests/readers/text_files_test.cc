#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/read_engine.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/source.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"

namespace ringfeed {
namespace {

/// Files of text as other programs leave them.
class TextFilesTest : public PipelineTest {
 protected:
  std::string Make(const std::string& name, const std::string& text) const {
    const std::string path = directory_.File(name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static std::vector<std::string> Texts(Reader* reader, Status* status) {
    std::vector<std::string> texts;
    Instance row;
    ReadResult result = ReadResult::kRecord;
    while ((result = reader->TryReadNext(&row)) == ReadResult::kRecord) {
      texts.emplace_back(reinterpret_cast<const char*>(row[0].data), row[0].bytes);
    }
    *status = result == ReadResult::kFailed ? reader->status() : Status();
    return texts;
  }
  static Reader Global(Reader reader) {
    return Shuffle(std::move(reader), {.seed = 3, .mode = ShuffleMode::kGlobal});
  }
};

TEST_F(TextFilesTest, WhatCannotBeReadIsNotSkippedAsDamage) {
  const std::string good = Make("good.csv", "id,x\n1,2\n");
  std::vector<std::string> others = {
      Make("utf16.csv", "\xff\xfei" + std::string("\0d\0\r\0\n\0", 7)),
      Make("mac.csv", "id,x\r1,2\r3,4\r"),
  };
  for (const std::string& other : others) {
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      for (const bool global : {false, true}) {
        OpenOptions options = Options();
        options.cycle = 1;
        options.on_damage = on_damage;
        options.format = "csv:header";
        Status status;
        try {
          Reader reader = OpenFiles({good, other}, options);
          if (global) reader = Global(std::move(reader));
          (void)Texts(&reader, &status);
        } catch (const Error& error) {
          status = error.status();
        }
        EXPECT_EQ(status.code(), StatusCode::kUnsupported) << other << status.ToString() << global;
        EXPECT_EQ(status.place().file, other);
      }
    }
  }
}

TEST_F(TextFilesTest, BlankLinesOfJsonHaveNoNumberInAnyOrder) {
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 5000; ++i) {
    expected.push_back("{\"id\":" + std::to_string(i) + "}");
    text += expected.back() + (i % 3 == 0 ? "\n\n" : i % 3 == 1 ? "\r\n \t\r\n" : "\n");
  }
  const std::string file = Make("blank.jsonl", "\n" + text);
  Status status;
  OpenOptions options = Options();
  options.cycle = 1;
  Reader in_order = OpenFiles({file}, options);
  EXPECT_EQ(Texts(&in_order, &status), expected);
  EXPECT_TRUE(status.ok()) << status.ToString();
  std::vector<std::string> first;
  for (int round = 0; round < 2; ++round) {  // the second one finds the index
    Reader shuffled = Global(OpenFiles({file}, options));
    std::vector<std::string> texts = Texts(&shuffled, &status);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (round == 0) first = texts;
    EXPECT_EQ(texts, first);
    std::sort(texts.begin(), texts.end());
    std::vector<std::string> sorted = expected;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(texts, sorted);
  }
}

TEST_F(TextFilesTest, ARowThatIsTooLongTakesTwiceItsLimitAtMost) {
  constexpr std::size_t kLimit = std::size_t{8} << 20;
  const std::string text = std::string(3 * kLimit, 'x') + "\ntail\n";
  const std::string plain = Make("long.txt", text);
  const auto bytes = std::as_bytes(std::span(text));
  const std::vector<std::byte> packed = Compress(bytes, {});
  const std::string zipped =
      Make("long.txt.gz", {reinterpret_cast<const char*>(packed.data()), packed.size()});
  const auto read = [&](Reader reader) {
    Status status;
    EXPECT_EQ(Texts(&reader, &status), std::vector<std::string>{"tail"});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(reader.Stats().damage.size(), 1U);
  };
  OpenOptions options;
  options.threads = 1;
  options.cycle = 1;
  options.on_damage = OnDamage::kSkip;
  options.max_record_bytes = kLimit;
  options.stripe_bytes = std::size_t{1} << 20;
  options.io.block_bytes = std::size_t{256} << 10;
  const auto small = [&] {
    options.arena = std::make_shared<PinnedArena>(2 * kLimit + (std::size_t{7} << 20));
  };
  std::vector<IoPath> paths = {IoPath::kAuto, IoPath::kPread, IoPath::kMmap};
  if (ProbeUring().available) paths.push_back(IoPath::kUring);
  for (const IoPath path : paths) {
    options.io.path = path;
    small();
    read(OpenFiles({plain}, options));
  }
  options.io.path = IoPath::kAuto;
  small();
  read(OpenFiles({zipped}, options));
  small();
  options.format = "lines";
  read(OpenStreamSource(OpenDescriptor(open(plain.c_str(), O_RDONLY), plain, true), options));
}

/// A line that never ends, of somebody who does not look whether anybody waits for it.
class EndlessLine final : public StreamSource {
 public:
  explicit EndlessLine(std::atomic<std::uint64_t>* reads) : reads_(reads) {}
  std::string name() const override { return "endless.txt"; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read,
              std::stop_token /*stop*/) override {
    std::fill(buffer.begin(), buffer.end(), std::byte{'x'});
    *bytes_read = buffer.size();
    reads_->fetch_add(1);
    return {};
  }

 private:
  std::atomic<std::uint64_t>* const reads_;
};

TEST_F(TextFilesTest, CloseEndsALineWithoutEnd) {
  std::atomic<std::uint64_t> reads = 0;
  OpenOptions options = Options();
  options.format = "lines";
  options.on_damage = OnDamage::kSkip;
  options.max_record_bytes = std::size_t{1} << 20;
  Reader reader = OpenStreamSource(std::make_unique<EndlessLine>(&reads), options);
  Instance row;
  EXPECT_EQ(reader.TryReadNext(&row, {.deadline = DeadlineAfter(std::chrono::milliseconds(1))}),
            ReadResult::kTimeout);
  while (reads.load() < 20) std::this_thread::yield();
  reader.Close();
}

}  // namespace
}  // namespace ringfeed
