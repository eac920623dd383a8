#include "readers/formats/tfrecord/tfrecord.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/tfrecord_file.h"

namespace ringfeed {
namespace {

TEST(TfRecordTest, DeliversEveryRecordInOrder) {
  const auto payloads = SomePayloads();
  const Framed framed = FrameAll(*TfRecordFormat(), PlainFile(payloads), OnDamage::kFail);
  EXPECT_TRUE(framed.status.ok()) << framed.status.ToString();
  EXPECT_FALSE(framed.stuck);
  EXPECT_EQ(framed.records, payloads);
}

TEST(TfRecordTest, ALengthThatNoMemoryHasIsTooLongWhateverTheLimit) {
  for (const std::uint64_t length :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 15, ~std::uint64_t{0} / 2}) {
    std::string file(64, '\0');
    auto* const header = reinterpret_cast<std::byte*>(file.data());
    std::uint32_t crc = 0;
    Crc32cOfEachU64({&length, 1}, &crc);
    StoreLe(header, length);
    StoreLe(header + 8, MaskCrc32c(crc));
    for (const bool known : {true, false}) {
      for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
        const auto framer = TfRecordFormat()->NewFramer(
            {"f", known ? file.size() : kUnknownSize, policy, ~std::size_t{0}});
        FrameOutput output;
        const FrameResult result =
            framer->Frame({std::as_bytes(std::span(file)), 0, kUnknownSize, known}, &output);
        EXPECT_EQ(result.status.ok(), policy == OnDamage::kSkip);
        EXPECT_TRUE(output.records.empty());
        EXPECT_LE(result.need_bytes, 16u);
      }
    }
  }
}

TEST(TfRecordTest, EmptyFileHasNoRecords) {
  for (const bool known : {true, false}) {
    const Framed framed = FrameAll(*TfRecordFormat(), "", OnDamage::kFail, {.known_size = known});
    EXPECT_TRUE(framed.status.ok());
    EXPECT_TRUE(framed.records.empty());
  }
}

TEST(TfRecordTest, EverySplitOfTheInputGivesTheSame) {
  const auto payloads = SomePayloads();
  const std::string file = PlainFile(payloads);
  for (const bool known : {true, false}) {
    for (std::size_t split = 0; split < file.size(); ++split) {
      const Framed framed = FrameAll(*TfRecordFormat(), file, OnDamage::kFail,
                                     {.ends = {split, split + 9}, .known_size = known});
      ASSERT_TRUE(framed.status.ok()) << split << framed.status.ToString();
      ASSERT_EQ(framed.records, payloads) << split;
      ASSERT_FALSE(framed.stuck);
    }
  }
}

TEST(TfRecordTest, StripesOfAnySizeGiveTheSame) {
  const auto payloads = SomePayloads();
  const std::string file = PlainFile(payloads);
  for (std::uint64_t stripe = 1; stripe < 120; ++stripe) {
    const Framed framed =
        FrameAll(*TfRecordFormat(), file, OnDamage::kFail, {.ends = {}, .limit_step = stripe});
    ASSERT_TRUE(framed.status.ok()) << stripe << framed.status.ToString();
    ASSERT_EQ(framed.records, payloads) << stripe;
  }
}

TEST(TfRecordTest, LimitEndsWithTheLastRecordThatStartsBeforeIt) {
  const std::string file = PlainFile({"aaaa", "bbbb", "cccc"});
  const auto framer = TfRecordFormat()->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  FrameResult result = framer->Frame({bytes, 0, 21, true}, &output);
  EXPECT_EQ(output.records.size(), 2U);  // the second starts at 20
  EXPECT_EQ(result.consumed, 40U);
  EXPECT_EQ(result.need_bytes, 0U);
  result = framer->Frame({bytes.subspan(40), 40, 60, true}, &output);
  EXPECT_EQ(output.records.size(), 3U);
  EXPECT_EQ(result.consumed, 20U);
}

TEST(TfRecordTest, AsksForTheWholeRecord) {
  const std::string file = PlainRecord(std::string(1000, 'x'));
  const auto framer = TfRecordFormat()->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  EXPECT_EQ(framer->Frame({bytes.first(5), 0, file.size(), false}, &output).need_bytes, 12U);
  EXPECT_EQ(framer->Frame({bytes.first(12), 0, file.size(), false}, &output).need_bytes, 1016U);
  EXPECT_TRUE(output.records.empty());
  EXPECT_EQ(framer->Frame({bytes, 0, file.size(), false}, &output).consumed, 1016U);
  EXPECT_EQ(output.records.size(), 1U);
}

TEST(TfRecordTest, EmptyRecordsAreNotDamagedOnes) {
  const Framed framed = FrameAll(*TfRecordFormat(), PlainFile({"", ""}), OnDamage::kSkip);
  EXPECT_EQ(framed.damaged, (std::vector<bool>{false, false}));
}

}  // namespace
}  // namespace ringfeed
