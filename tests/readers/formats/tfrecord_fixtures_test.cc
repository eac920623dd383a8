#include <gtest/gtest.h>

#include "readers/formats/format.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

struct Fixture {
  std::string name;
  std::size_t records;
  std::string sha256;  // over each record's length as u64 and its payload
};

FormatResult Detect(const std::string& name, const std::string& file) {
  return DetectFormat(
      name, std::as_bytes(std::span(file)).first(std::min<std::size_t>(file.size(), 4096)));
}

TEST(TfRecordFixturesTest, FilesOfTensorFlowAreReadAsTheirDigestsSay) {
  const std::vector<Fixture> fixtures = {
      {"examples.tfrecord", 40, "3eec463647d5764e4734bb6f50e97b3e385bc6d96a3fc9f4aeb45b582e9608c5"},
      {"sequence_examples.tfrecord", 7,
       "90c1514bce8528d3882230392f6f6981b7c0e666a948b9cae60910bfe827299a"},
      {"empty_records.tfrecord", 6,
       "25d947b5cf65b260cdb809690c42527690ebae099e012623235c908d2afa829b"},
      {"no_records.tfrecord", 0,
       "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"edge_examples.tfrecord", 5,
       "58187d7b654b3cc566efd53aadcb004b906954023981e7ee703c15f1696c96f1"}};
  for (const Fixture& fixture : fixtures) {
    const std::string file = ReadFixture("tfrecord/" + fixture.name);
    const FormatResult found = Detect(fixture.name, file);
    ASSERT_TRUE(found.status.ok()) << found.status.ToString();
    const Framed framed = FrameAll(*found.format, file, OnDamage::kFail);
    ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
    EXPECT_EQ(framed.records.size(), fixture.records);
    EXPECT_EQ(DigestOf(framed.records), fixture.sha256) << fixture.name;
  }
}

TEST(TfRecordFixturesTest, FoundByTheirBytesUnderAnyName) {
  const FormatResult found = Detect("data.bin", ReadFixture("tfrecord/examples.tfrecord"));
  ASSERT_TRUE(found.status.ok());
  EXPECT_EQ(found.format->name(), "tfrecord");
}

TEST(TfRecordFixturesTest, CompressedOnesAreFoundByTheirContent) {
  for (const auto& [name, compression] :
       {std::pair("examples.tfrecord.gz", Compression::kGzip),
        std::pair("examples.tfrecord.zlib", Compression::kZlib)}) {
    for (const std::string as : {name, "data.tfrecord", "data"}) {
      const FormatResult found = Detect(as, ReadFixture(std::string("tfrecord/") + name));
      ASSERT_TRUE(found.status.ok()) << found.status.ToString();
      EXPECT_EQ(found.format->name(), "tfrecord");
      EXPECT_EQ(found.compression, compression);
    }
  }
}

}  // namespace
}  // namespace ringfeed
