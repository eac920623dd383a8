#include "readers/formats/ofrecord/ofrecord.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/ofrecord_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, const Feeding& feeding = {}) {
  return FrameAll(*OfRecordFormat(), file, OnDamage::kFail, feeding);
}

FormatResult Detect(const std::string& name, const std::string& file) {
  return DetectFormat(
      name, std::as_bytes(std::span(file)).first(std::min<std::size_t>(file.size(), 4096)));
}

TEST(OfRecordTest, DeliversEveryRecordInOrder) {
  const Framed framed = Frame(PlainOfRecordFile(SomeOfRecords()));
  EXPECT_TRUE(framed.status.ok()) << framed.status.ToString();
  EXPECT_FALSE(framed.stuck);
  EXPECT_EQ(framed.records, SomeOfRecords());
}

// docs/FORMATS.md shows these bytes.
TEST(OfRecordTest, WorkedBytesAreARecord) {
  const std::string file(
      "\x25\0\0\0\0\0\0\0\x0a\x14\x0a\x0b"
      "class/label\x12\x05\x22\x03\x0a\x01\x07\x0a\x0d\x0a\x01"
      "x\x12\x08\x12\x06\x0a\x04\0\0\xc0\x3f",
      45);
  const Framed framed = Frame(file);
  EXPECT_TRUE(framed.status.ok()) << framed.status.ToString();
  ASSERT_EQ(framed.records.size(), 1U);
  EXPECT_EQ(framed.records[0], PlainFeature("class/label", 4, "\x07") +
                                   PlainFeature("x", 2, std::string("\0\0\xc0\x3f", 4)));
}

TEST(OfRecordTest, EmptyFileHasNoRecords) {
  for (const bool known : {true, false}) {
    const Framed framed = Frame("", {.known_size = known});
    EXPECT_TRUE(framed.status.ok());
    EXPECT_TRUE(framed.records.empty());
  }
}

TEST(OfRecordTest, EverySplitOfTheInputGivesTheSame) {
  const std::string file = PlainOfRecordFile(SomeOfRecords());
  for (const bool known : {true, false}) {
    for (std::size_t split = 0; split < file.size(); ++split) {
      const Framed framed = Frame(file, {.ends = {split, split + 9}, .known_size = known});
      ASSERT_TRUE(framed.status.ok()) << split << framed.status.ToString();
      ASSERT_EQ(framed.records, SomeOfRecords()) << split;
      ASSERT_FALSE(framed.stuck);
    }
  }
}

TEST(OfRecordTest, StripesOfAnySizeGiveTheSame) {
  const std::string file = PlainOfRecordFile(SomeOfRecords());
  for (std::uint64_t stripe = 1; stripe < 120; ++stripe) {
    const Framed framed = Frame(file, {.ends = {}, .limit_step = stripe});
    ASSERT_TRUE(framed.status.ok()) << stripe << framed.status.ToString();
    ASSERT_EQ(framed.records, SomeOfRecords()) << stripe;
  }
}

TEST(OfRecordTest, AsksForTheLengthThenForTheWholeRecord) {
  const std::string file = PlainOfRecordFile({PlainFeature("x", 1, std::string(1000, 'x'))});
  const auto framer = OfRecordFormat()->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  for (const std::size_t here : {std::size_t{0}, std::size_t{7}}) {
    EXPECT_EQ(framer->Frame({bytes.first(here), 0, file.size(), false}, &output).need_bytes, 8U);
  }
  EXPECT_EQ(framer->Frame({bytes.first(8), 0, file.size(), false}, &output).need_bytes,
            file.size());
  EXPECT_TRUE(output.records.empty());
  EXPECT_EQ(framer->Frame({bytes, 0, file.size(), false}, &output).consumed, file.size());
  EXPECT_EQ(output.records.size(), 1U);
}

TEST(OfRecordTest, IsFoundByItsBytesUnderAnyName) {
  const std::string file = PlainOfRecordFile(SomeOfRecords());
  const FormatResult found = Detect("data.bin", file);
  ASSERT_TRUE(found.status.ok()) << found.status.ToString();
  EXPECT_EQ(found.format->name(), "ofrecord");
  // The head may end anywhere in a record.
  for (std::size_t head = 18; head < file.size(); ++head) {
    EXPECT_TRUE(Detect("data.bin", file.substr(0, head)).status.ok()) << head;
  }
}

TEST(OfRecordTest, IsFoundByItsNamesWhereThereAreNoBytes) {
  for (const std::string name : {"a.ofrecord", "part-0", "/x/part-00012"}) {
    const FormatResult found = Detect(name, "");
    ASSERT_TRUE(found.status.ok()) << name;
    EXPECT_EQ(found.format->name(), "ofrecord");
  }
  for (const std::string name : {"part-", "part-1.bin", "part-00000-of-00010", "my-part-0", "0"}) {
    EXPECT_FALSE(Detect(name, "").status.ok()) << name;
  }
}

TEST(OfRecordTest, OtherBytesAreNotTakenForIt) {
  const std::string whole = PlainOfRecordFile({PlainFeature("x", 1, "yyyyyyyy")});
  std::string broken_second = whole + whole;
  broken_second[whole.size() + 8] = '\x12';
  const Strings others = {
      "hello, this is a text file",
      std::string(64, '\0'),
      std::string("\x0c\0\0\0\0\0\0\0", 8) + "\x0a\x0a" +
          std::string(10, '\x12'),  // entries without a key
      whole.substr(1),
      PlainLength(-20) + whole.substr(8),
      PlainLength(static_cast<std::int64_t>(whole.size()) - 9) + whole.substr(8),
      broken_second,
  };
  for (const std::string& other : others) EXPECT_FALSE(Detect("data.bin", other).status.ok());
}

class OfRecordWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("ofrecord_writer_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "part-0").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::string path_;
};

TEST_F(OfRecordWriterTest, WritesTheFileAsItIsDefined) {
  RecordWriterResult out = OpenRecordWriter(path_, "ofrecord");
  ASSERT_TRUE(out.status.ok()) << out.status.ToString();
  for (const std::string& record : SomeOfRecords()) {
    ASSERT_TRUE(out.writer->Write(std::as_bytes(std::span(record))).ok());
  }
  ASSERT_TRUE(out.writer->Close().ok());
  EXPECT_EQ(ReadBytes(path_), PlainOfRecordFile(SomeOfRecords()));
}

TEST_F(OfRecordWriterTest, RefusesWhatNoReaderTakes) {
  RecordWriterResult out = OpenRecordWriter(path_, "ofrecord");
  ASSERT_TRUE(out.status.ok());
  const std::string good = PlainFeature("x", 1, "y");
  for (const std::string& record :
       {std::string(), std::string("text"), good + "\x0a", good + "x"}) {
    const Status status = out.writer->Write(std::as_bytes(std::span(record)));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(status.message().empty());
  }
}

}  // namespace
}  // namespace ringfeed
