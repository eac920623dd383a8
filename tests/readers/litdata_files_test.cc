// Data sets of LitData as chains read them. litdata 0.2.76 wrote them (tests/data/litdata/make.py);
// what its StreamingDataset gives of the items was written down as digests.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "readers/parsers/parser.h"
#include "tests/readers/sample_files_fixture.h"

namespace ringfeed {
namespace {

using LitDataFilesTest = SampleFilesTest;
using Digests = std::map<std::string, std::string>;

const Digests kMixed = {
    {"id", "6b9e59ec9b1b4418408c54eb8fafbe6df95f95823c72348f3345a26b6b754c3e"},
    {"f", "2d7457418c63f9c29931d1b131bb3cbff5c2a3a520312974edf21b9d53df5e98"},
    {"ok", "b89cfe236c5c063d6a91923f756af890766d9c3fb60cfede97f1aee6ceb8ba70"},
    {"s", "5bd80b9add4a2fa426965ddd8018a2207a2bc901488f01913f16340986f5f3d0"},
    {"b", "d9a3efbe86d99b18f5d8d76fe51de7ac3ba047e45efb2ae33b87c6a524cec477"},
    {"t", "c03dad525dfbfa2ff91546c48f22f3062e1ad7f20a33c720e28c79243676f9c2"},
    {"m", "1ef012479ebc0e686bdf0dd231167f5fda2348e524882198ba0c3b7bb1a48988"},
    {"c", "b34763a7529e92920da4820bc5bd60fdcb05b5b9b387deea2b1986a822710023"},
    {"v", "23e6f35fab717220fa3433e6e140179dfdab821abf9355673457df8c30c303f8"},
    {"in.x", "b029f42945a68458d2bfdebb7bfb150e9bb45ad5eb216c10ff492adabaeb5081"}};
const Digests kRows = {{"id", "6bab9bde132ab7ff48f5273f15bec4080cf27d73589c48db39860ac75bf75d90"},
                       {"f", "10c624e70ae62b14a476acd8356320dbe5fc436ca06db793498dae0140abf5e7"},
                       {"ok", "f19f0c49bf467d1cff4b9fae74699de5c52830f8e9eba4143ba451cac69957ec"},
                       {"s", "29eeff3a1ad1b11329bf8dbb778d54a3deaea298ae6a1b370e4d707abc81b145"},
                       {"b", "4145af0864fbf7855a5bf6a5657aa7d3269b5c1cf446cfbfcfd3c3f12b36e3ac"},
                       {"in.x", "2981d0e9e878a7fb7f42291a683d26112ae236759f1e45721ab686f96c9c16f2"},
                       {"in.y", "1dd69263b1581e52b38136257072fe45b8338c48a1333305e09220e9e43cef7d"},
                       {"l", "e0df3b97db76eb9c84217b4561104df562b736cc16f322a5a241f01504b87bd8"}};

TEST_F(LitDataFilesTest, ColumnsAreFieldsWithTheValuesOfTheRealReaderInAllLayouts) {
  const std::map<std::string, Digests> sets = {{"plain", kMixed},  {"whole", kMixed},
                                               {"frames", kMixed}, {"items", kMixed},
                                               {"arrow", kRows},   {"arrow_zstd", kRows}};
  for (const auto& [set, digests] : sets) {
    InferredParser inferred;
    auto values = ValuesOf(Copied("litdata/" + set), &inferred);
    EXPECT_EQ(inferred.name, "litdata") << inferred.why;
    for (const auto& [name, digest] : digests) {
      EXPECT_EQ(DigestOf(values[name]), digest) << set << " " << name;
    }
    for (const FeatureSpec& field : inferred.fields) {
      if (field.name == "m") {
        EXPECT_EQ(field.shape, (Shape{-1, 2}));
      }
      if (field.name == "c") {
        EXPECT_EQ(field.shape, Shape());
      }
      if (field.name == "n") {  // not alike: as encoded
        EXPECT_EQ(field.dtype, DType::kUInt8);
      }
    }
    if (set == "arrow") {
      EXPECT_EQ(values["w"].at(1), "[\"a\"]");
    }
  }
}

TEST_F(LitDataFilesTest, EveryOrderGivesEachItemOnceOnThreeRanksAlsoRestored) {
  ExpectEveryOrder(Copied("litdata/plain"), 25);
  ExpectEveryOrder(Copied("litdata/frames"), 25);
  ExpectEveryOrder(Copied("litdata/items"), 25);
  ExpectEveryOrder(Copied("litdata/arrow_zstd"), 300);
}

TEST_F(LitDataFilesTest, AFolderItsIndexAndItsChunksAreOneDataSet) {
  const std::string folder = Copied("litdata/plain");
  const auto records = RecordsOf({folder});
  EXPECT_EQ(records.size(), 25U);
  EXPECT_EQ(RecordsOf({folder + "/index.json"}), records);
  EXPECT_EQ(RecordsOf({folder + "/*"}), records);
  EXPECT_EQ(RecordsOf({Copied("litdata/whole")}), records);
}

TEST_F(LitDataFilesTest, AnOldDataSetIsReadWhoseIndexCountsFewerBytes) {
  EXPECT_EQ(RecordsOf({Copied("litdata/old")}).size(), 25U);
}

TEST_F(LitDataFilesTest, TokensComeInBlocksOfEachChunk) {
  OpenOptions options = Options();
  options.threads = 1;
  options.cycle = 1;
  options.format = "litdata:block=8,tail=drop";
  const std::string folder = Copied("litdata/tokens");
  EXPECT_EQ(DigestOf(RecordsOf(OpenFiles({folder}, options))),
            "513663cbb4caa72cc35cbf6c7c8d010efadd66595b29c6ff22ecf75c7b8a408f");
  const InferredParser inferred = InferParser({folder}, options);
  EXPECT_EQ(inferred.name, "tokens");
  EXPECT_EQ(inferred.fields.at(0).dtype, DType::kInt32);
  EXPECT_EQ(inferred.fields.at(0).shape, (Shape{8}));
  // Without an option they are found, too, and no token is left out.
  std::size_t bytes = 0;
  for (const std::string& record : RecordsOf({folder})) bytes += record.size();
  EXPECT_EQ(bytes, 4U * (96 + 97 + 42));
}

TEST_F(LitDataFilesTest, ADamagedItemIsAHoleThatIsNamed) {
  const std::string folder = Copied("litdata/plain");
  const std::string file = folder + "/chunk-0-1.bin";
  std::string bytes = ReadBytes(file);
  bytes[0xee] ^= 4;  // a size in item 1
  WriteBytes(file, std::as_bytes(std::span(bytes)));
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
    Reader reader = OpenFiles({folder}, options);
    if (mode == ShuffleMode::kGlobal) reader = Shuffle(reader, {.seed = 5, .mode = mode});
    reader = Batch(Parse(reader, InferParser({folder}, options).parser), {.size = 7});
    Instance batch;
    std::int64_t rows = 0;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) rows += batch["id"].shape[0];
    EXPECT_EQ(rows, 24);
    ASSERT_EQ(reader.Stats().damage.size(), 1U);
    EXPECT_EQ(reader.Stats().damage[0].file, file);
    EXPECT_EQ(reader.Stats().damage[0].begin, 0xeeU);
  }
}

TEST_F(LitDataFilesTest, AChunkWithoutItsIndexGivesItemsAsTheyAre) {
  const std::string folder = Copied("litdata/plain");
  const auto records = RecordsOf({folder});
  std::filesystem::remove(folder + "/index.json");
  EXPECT_EQ(RecordsOf({folder}), records);
}

TEST(LitDataParserTest, ATextNamesAllColumnsAndPassesOverSome) {
  const ParserResult made = ParserFromText(
      "litdata: id:int image:jpeg ids:no_header_tensor:18 box:tensor=f4[,4] -p:pickle "
      "t:a:file:mp3");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  ASSERT_EQ(made.parser->fields().size(), 5U);
  EXPECT_EQ(made.parser->fields()[2].dtype, DType::kInt64);
  EXPECT_EQ(made.parser->fields()[3].shape, (Shape{-1, 4}));
  EXPECT_EQ(made.parser->fields()[4].name, "t:a");
  for (const char* text : {"litdata: id:long", "litdata: p:pickle", "litdata: g:graph",
                           "litdata: a:tensor", "litdata: a:int=f4", "litdata: a:no_header_tensor",
                           "litdata: a:no_header_tensor:4", "litdata: -a:int"}) {
    EXPECT_FALSE(ParserFromText(text).status.ok()) << text;
  }
}

}  // namespace
}  // namespace ringfeed
