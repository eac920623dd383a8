#include "readers/formats/tokens/megatron.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/support/pattern_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

struct Fixture {
  std::string name;
  std::size_t sequences;
  std::size_t bytes;
  std::string digest;
};

const Fixture kFixtures[] = {
    {"gpt_uint16", 34, 1284, "ef3fd20b3f0166d0c4d66609db58c224cba50ea41b5c3858644ffb4bed115e94"},
    {"gpt_int32", 41, 2992, "b1227b6c8879f8229d7cca095b481f6552fed4cad16901f2054aeb3cc4b6e82a"},
    {"multimodal_uint16", 20, 620,
     "44b69929f97f3f8b2864c542c64a6019f5d5049d66685885467f7f26f4b31071"}};

/// A pair of files of which either may be damaged.
class MegatronTest : public testing::Test {
 protected:
  void Write(const std::string& index, const std::string& data) {
    WriteBytes(directory_.File("a.idx"), std::as_bytes(std::span(index)));
    WriteBytes(directory_.File("a.bin"), std::as_bytes(std::span(data)));
    data_ = data;
  }
  Framed Read(OnDamage on_damage, const Feeding& feeding = {}) const {
    const CompanionResult found = MegatronFormat({})->FindCompanion(directory_.File("a.idx"));
    if (!found.status.ok()) {
      Framed refused;
      refused.status = found.status;
      return refused;
    }
    EXPECT_EQ(found.data_file, directory_.File("a.bin"));
    return FrameAll(*found.format, data_, on_damage, feeding);
  }
  /// What is delivered stands at its own number in the intact pair.
  static void ExpectIntactOnes(const Framed& framed, const std::vector<std::string>& intact) {
    std::size_t delivered = 0;
    for (std::size_t i = 0; i < framed.damaged.size(); ++i) {
      if (framed.damaged[i]) continue;
      ASSERT_LT(i, intact.size());
      ASSERT_EQ(framed.records[delivered++], intact[i]) << i;
    }
  }

  TempDir directory_;
  std::string data_;
};

TEST_F(MegatronTest, PairsOfMegatronCoreAreReadAsTheirDigestsSay) {
  for (const Fixture& fixture : kFixtures) {
    Write(ReadFixture("megatron/" + fixture.name + ".idx"),
          ReadFixture("megatron/" + fixture.name + ".bin"));
    for (const Feeding& feeding :
         {Feeding{}, Feeding{.ends = {1, 100, 500}}, Feeding{.limit_step = 64}}) {
      const Framed framed = Read(OnDamage::kFail, feeding);
      ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
      EXPECT_FALSE(framed.stuck);
      EXPECT_EQ(framed.records.size(), fixture.sequences);
      EXPECT_EQ(DigestOf(framed.records), fixture.digest) << fixture.name;
    }
  }
}

TEST_F(MegatronTest, TheIndexIsFoundByItsBytesAndEitherFileMayBeNamed) {
  const std::string index = ReadFixture("megatron/gpt_int32.idx");
  Write(index, ReadFixture("megatron/gpt_int32.bin"));
  const auto head = std::as_bytes(std::span(index));
  EXPECT_EQ(DetectFormat("a.idx", head).format->name(), "megatron");
  for (const std::string name : {"a.idx", "a.bin"}) {
    const FormatResult found = ChooseFormat("megatron", directory_.File(name), head);
    ASSERT_TRUE(found.status.ok()) << found.status.ToString();
    EXPECT_EQ(found.data_file, directory_.File("a.bin"));
  }
  EXPECT_EQ(ChooseFormat("megatron", directory_.File("b.idx"), head).status.code(),
            StatusCode::kNotFound);
  EXPECT_EQ(ChooseFormat("megatron", "a", head).status.code(), StatusCode::kInvalidArgument);
}

TEST_F(MegatronTest, EmptySequencesAreRecordsAlsoAtTheEnd) {
  const std::string data = "aabb";
  std::string index("MMIDIDX\0\0", 9);
  const auto append = [&index](auto value) {
    index.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(std::uint64_t{1});
  append(std::uint8_t{1});
  append(std::uint64_t{5});
  append(std::uint64_t{1});
  for (const std::int32_t size : {0, 2, 0, 2, 0}) append(size);
  for (const std::int64_t begin : {0, 0, 2, 2, 4}) append(begin);
  append(std::int64_t{0});
  Write(index, data);
  for (const Feeding& feeding : {Feeding{}, Feeding{.limit_step = 2}, Feeding{.ends = {1, 2, 3}}}) {
    EXPECT_EQ(Read(OnDamage::kFail, feeding).records,
              (std::vector<std::string>{"", "aa", "", "bb", ""}));
  }
}

TEST_F(MegatronTest, EveryFlippedByteOfTheIndexCostsAtMostItsNeighbours) {
  const std::string index = ReadFixture("megatron/gpt_uint16.idx");
  const std::string data = ReadFixture("megatron/gpt_uint16.bin");
  Write(index, data);
  const Framed intact = Read(OnDamage::kFail);
  const std::size_t begins = MegatronIndex::kHeaderBytes + 34 * 4;
  for (std::size_t at = 0; at < index.size(); ++at) {
    std::string damaged = index;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    Write(damaged, data);
    const Framed failed = Read(OnDamage::kFail);
    const Framed skipped = Read(OnDamage::kSkip);
    ExpectIntactOnes(skipped, intact.records);
    if (at < MegatronIndex::kHeaderBytes || at >= begins + 34 * 8) continue;
    EXPECT_FALSE(failed.status.ok()) << at;
    EXPECT_FALSE(skipped.damage.empty()) << at;
    EXPECT_GE(skipped.records.size(), 32U) << at;
    EXPECT_EQ(
        std::vector(intact.records.begin(),
                    intact.records.begin() + static_cast<std::ptrdiff_t>(failed.records.size())),
        failed.records);
  }
}

TEST_F(MegatronTest, EveryCutOfEitherFileIsReportedAndWhatIsWholeIsDelivered) {
  const std::string index = ReadFixture("megatron/gpt_uint16.idx");
  const std::string data = ReadFixture("megatron/gpt_uint16.bin");
  Write(index, data);
  const Framed intact = Read(OnDamage::kFail);
  for (std::size_t cut = 0; cut < index.size(); ++cut) {
    Write(index.substr(0, cut), data);
    EXPECT_EQ(Read(OnDamage::kSkip).status.code(), StatusCode::kTruncated) << cut;
  }
  std::size_t whole = 0;
  std::size_t end = intact.records[0].size();
  for (std::size_t cut = 1; cut < data.size(); ++cut) {
    Write(index, data.substr(0, cut));
    while (end <= cut) end += intact.records[++whole].size();
    const Framed skipped = Read(OnDamage::kSkip);
    EXPECT_EQ(skipped.records.size(), whole) << cut;
    EXPECT_FALSE(skipped.damage.empty()) << cut;
    ExpectIntactOnes(skipped, intact.records);
    EXPECT_EQ(Read(OnDamage::kFail).status.code(), StatusCode::kTruncated) << cut;
  }
  Write(index, data + "behind");
  const Framed longer = Read(OnDamage::kSkip);
  EXPECT_EQ(longer.records, intact.records);
  ASSERT_EQ(longer.damage.size(), 1U);
  EXPECT_EQ(longer.damage[0].begin, data.size());
  EXPECT_EQ(Read(OnDamage::kFail).status.code(), StatusCode::kDamaged);
}

TEST_F(MegatronTest, PromisedCountsAreCheckedAgainstTheFile) {
  std::string index = ReadFixture("megatron/gpt_uint16.idx");
  for (const std::size_t field : {18U, 26U}) {
    for (const std::uint64_t count :
         {std::uint64_t{1} << 62, ~std::uint64_t{0}, std::uint64_t{400}}) {
      std::string damaged = index;
      damaged.replace(field, 8, reinterpret_cast<const char*>(&count), 8);
      Write(damaged, "");
      EXPECT_EQ(Read(OnDamage::kFail).status.code(), StatusCode::kTruncated) << field << count;
    }
  }
}

// Its mapping reads as zeros then, which would be empty sequences.
TEST_F(MegatronTest, AnIndexThatIsEmptiedWhileItIsReadIsNotBelieved) {
  const std::string index = ReadFixture("megatron/gpt_int32.idx");
  const std::string data = ReadFixture("megatron/gpt_int32.bin");
  for (const std::uintmax_t left : {std::uintmax_t{0}, std::uintmax_t{index.size() / 2}}) {
    Write(index, data);
    const CompanionResult found = MegatronFormat({})->FindCompanion(directory_.File("a.idx"));
    ASSERT_TRUE(found.status.ok());
    std::vector<std::byte> head;
    const OwnIndexResult own = found.format->OwnIndex({found.data_file, data.size()}, head);
    ASSERT_NE(own.index, nullptr);
    std::filesystem::resize_file(directory_.File("a.idx"), left);
    const Framed failed = FrameAll(*found.format, data, OnDamage::kFail);
    EXPECT_EQ(failed.status.code(), StatusCode::kTruncated) << failed.status.ToString();
    EXPECT_TRUE(failed.records.empty());
    const Framed skipped = FrameAll(*found.format, data, OnDamage::kSkip);
    EXPECT_TRUE(skipped.status.ok()) << skipped.status.ToString();
    EXPECT_TRUE(skipped.records.empty());
    ASSERT_EQ(skipped.damage.size(), 1U);
    EXPECT_EQ(skipped.damage[0].end, data.size());
    std::uint64_t record = 0;
    RecordUnit unit;
    EXPECT_EQ(own.index->Find({&record, 1}, {&unit, 1}).code(), StatusCode::kTruncated);
  }
}

}  // namespace
}  // namespace ringfeed
