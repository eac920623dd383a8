#include "readers/formats/recordio/recordio.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/recordio_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, const Feeding& feeding = {}) {
  return FrameAll(*RecordIoFormat({}), file, OnDamage::kFail, feeding);
}

// What the writer of `format` makes of `records`.
std::string Written(const std::string& format, const Strings& records) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / ("recordio_test_" + std::to_string(::getpid())))
          .string();
  RecordWriterResult out = OpenRecordWriter(path, format);
  EXPECT_TRUE(out.status.ok()) << out.status.ToString();
  for (const std::string& record : records) {
    EXPECT_TRUE(out.writer->Write(std::as_bytes(std::span(record))).ok());
  }
  EXPECT_TRUE(out.writer->Close().ok());
  std::string bytes = ReadBytes(path);
  std::filesystem::remove(path);
  return bytes;
}

const Strings kWritten = {"recordio:fluid,none", "recordio:fluid,snappy", "recordio:go,none",
                          "recordio:go,snappy",  "recordio:go,gzip",      "recordio"};

TEST(RecordIoTest, TheWorkedExamplesAreReadAndWritten) {
  const Strings records = {"ABC", "BCD"};
  const std::string plain = FluidChunk(records);
  EXPECT_EQ(plain.substr(8, 4), std::string("\x71\x04\xc7\x63"));
  EXPECT_EQ(Frame(plain).records, records);
  EXPECT_EQ(Written("recordio:fluid,none", records), plain);
  EXPECT_EQ(Written("recordio:go,none", records), GoChunk(records));
  EXPECT_EQ(Written("recordio:fluid,snappy", {"ABC", "BCD", "CDE"}),
            ReadFixture("recordio/tiny_snappy.recordio"));
}

TEST(RecordIoTest, FilesOfOtherWritersAreReadAsTheirDigestsSay) {
  struct Fixture {
    std::string name;
    std::size_t records;
    std::string digest;
  };
  const std::vector<Fixture> fixtures = {
      {"dense_snappy_max3", 10, "108a590a8c0d62cee12d3d6596aa46197a7efe94d9296005562580030021622d"},
      {"records_over_64KiB_snappy_max2", 3,
       "cb563da354bb782ec09dfc6615d1e774ab3e06d23ee1648a5823295dfe6f04d4"},
      {"raw_bytes_none_max4", 9,
       "c4c86eadfb0c77498813bfb4bdc7bed60aaccbb3d17f3b83b12bfe414ade240b"},
      {"raw_bytes_snappy_max4", 9,
       "c4c86eadfb0c77498813bfb4bdc7bed60aaccbb3d17f3b83b12bfe414ade240b"},
      {"go_gzip", 3, "c5bb27abd5477ceee6ab3df322f41d88037be134f972367eee38a487acfae4e9"},
      {"go_none", 3, "1bacae9d2ec80f2223d8865737ebf7c07bec467539111caf659309c1f2ccab8b"},
      {"go_snappy_compressible", 40,
       "0523b2092ddda8beac145a42a704a10a922c0bb35c70166d962736777afe55c6"},
      {"empty_record_inside", 3,
       "be3d7d4f585c4466c3039b243e68ca5bced0a4c2312d0311cf6a114cd5644014"},
      {"lodtensor_dense_none", 1,
       "018f201cb901ccbccc3cfbfa4486d18a23fc746d25df372d22523dbccd86bcd8"},
      {"tiny_snappy", 3, "2148bf35bbc80214f58786ff2ac542132d44df20c8d6462c6b379252427a286d"}};
  for (const Fixture& fixture : fixtures) {
    const std::string file = ReadFixture("recordio/" + fixture.name + ".recordio");
    const auto head = std::as_bytes(std::span(file)).first(std::min<std::size_t>(64, file.size()));
    ASSERT_EQ(DetectFormat("data.bin", head).format->name(), "recordio") << fixture.name;
    const Framed framed = Frame(file);
    ASSERT_TRUE(framed.status.ok()) << fixture.name << framed.status.ToString();
    EXPECT_EQ(framed.records.size(), fixture.records) << fixture.name;
    EXPECT_EQ(DigestOf(framed.records), fixture.digest) << fixture.name;
  }
}

TEST(RecordIoTest, WhatIsWrittenIsReadHoweverItComes) {
  Strings records = SomePayloads();
  for (int i = 0; i < 2500; ++i)
    records.push_back(std::string(static_cast<std::size_t>(i) % 97, 'a'));
  records.push_back(std::string(200'000, 'z'));
  for (const std::string& format : kWritten) {
    const std::string file = Written(format, records);
    EXPECT_EQ(Frame(file).records, records) << format;
    Feeding pieces{.ends = {}, .limit_step = 700, .known_size = false};
    for (std::size_t end = 1; end < file.size(); end += 1 + end / 7) pieces.ends.push_back(end);
    const Framed framed = Frame(file, pieces);
    EXPECT_TRUE(framed.status.ok()) << framed.status.ToString();
    EXPECT_EQ(framed.records, records) << format;
  }
}

TEST(RecordIoTest, DialectsAndCompressorsMayBeMixed) {
  std::string file;
  Strings all;
  for (const std::string& format : kWritten) {
    const Strings records = {format, std::string(1000, format.back()), ""};
    file += Written(format, records);
    all.insert(all.end(), records.begin(), records.end());
  }
  EXPECT_EQ(Frame(file).records, all);
}

TEST(RecordIoTest, AChunkBelongsToTheStripeInWhichItStarts) {
  const std::string file = FluidChunk({"a", "b"}) + FluidChunk({"c"}) + FluidChunk({"d"});
  const auto framer = RecordIoFormat({})->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  FrameResult result = framer->Frame({bytes, 0, 31, true}, &output);
  EXPECT_EQ(output.records.size(), 3U);
  EXPECT_EQ(result.consumed, file.size() - FluidChunk({"d"}).size());
}

TEST(RecordIoTest, ALargeChunkIsCutLikeTheAncestorsDid) {
  const Strings small(2500, "x");
  const Framed fluid = Frame(Written("recordio:fluid,none", small));
  EXPECT_EQ(fluid.records.size(), 2500U);
  const std::string file = Written("recordio:fluid,none", small);
  EXPECT_EQ(static_cast<unsigned char>(file[4]) + 256 * static_cast<unsigned char>(file[5]), 1000);
  EXPECT_EQ(Written("recordio:go,none", small).size(), 20 + 2500 * 5U);
}

TEST(RecordIoTest, OptionsAreCheckedWhenTheFormatIsNamed) {
  EXPECT_EQ(FindFormat("recordio:brotli").status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FindFormat("recordio:fluid,gzip").status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(FindFormat("recordio:go,gzip").status.ok());
}

TEST(RecordIoTest, TheThirdDialectIsNamed) {
  std::string file = FluidChunk({"abc"});
  const std::string stored = file.substr(20);
  // The CRC-32C, unmasked.
  const std::uint32_t masked = PlainMaskedCrc(stored) - 0xa282ead8U;
  file.replace(8, 4, PlainLe((masked << 15) | (masked >> 17)));
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    const Framed framed = FrameAll(*RecordIoFormat({}), file, on_damage);
    EXPECT_EQ(framed.status.code(), StatusCode::kUnsupported);
    EXPECT_NE(framed.status.message().find("pyrecordio"), std::string::npos);
  }
}

TEST(RecordIoTest, AnUnknownCompressorOfAnotherDialectIsNoDamage) {
  const std::string good = FluidChunk({"abc"});
  for (const std::string& chunk : {FluidChunk("whatever", 1, 3), GoChunk("whatever it is", 1, 3)}) {
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      const Framed framed = FrameAll(*RecordIoFormat({}), good + chunk + good, on_damage);
      EXPECT_EQ(framed.records.size(), 1U);
      EXPECT_EQ(framed.status.code(), StatusCode::kUnsupported) << framed.status.ToString();
      EXPECT_NE(framed.status.message().find("compressor 3"), std::string::npos);
    }
  }
}

TEST(RecordIoTest, ACompressorThatTheChunksBytesContradictIsDamage) {
  const std::string snappy("snappy\0", 7);
  const Framed framed = FrameAll(*RecordIoFormat({}),
                                 FluidChunk(snappy, 0, 3) + FluidChunk({"abc"}), OnDamage::kSkip);
  EXPECT_TRUE(framed.status.ok()) << framed.status.ToString();
  EXPECT_EQ(framed.records.size(), 1U);
  EXPECT_EQ(framed.damage.size(), 1U);
}

}  // namespace
}  // namespace ringfeed
