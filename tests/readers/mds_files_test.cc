// Data sets of MosaicML's streaming as chains read them. What its own reader gives of the samples
// was written down as digests.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "readers/parsers/parser.h"
#include "tests/readers/sample_files_fixture.h"

namespace ringfeed {
namespace {

constexpr std::size_t kSamples = 30;

using MdsFilesTest = SampleFilesTest;

TEST_F(MdsFilesTest, AFolderItsTableAndItsShardsAreOneDataSet) {
  const std::string folder = Copied("mds/columns_none");
  std::vector<std::string> shards;
  for (const char* number : {"0", "1", "2"}) {
    shards.push_back(folder + "/shard.0000" + number + ".mds");
  }
  const auto records = RecordsOf(shards);
  ASSERT_EQ(records.size(), kSamples);
  EXPECT_EQ(DigestOf({records.begin(), records.begin() + 14}),
            "959729a0d27be3e5fc39b2e64ed35d8c3c15db30d66efbfe0a12a5941a8f45ee");
  EXPECT_EQ(RecordsOf({folder}), records);
  EXPECT_EQ(RecordsOf({folder + "/index.json"}), records);
  EXPECT_EQ(RecordsOf({folder + "/*"}), records);
  EXPECT_EQ(RecordsOf({Copied("mds/columns_zstd")}), records);
  EXPECT_EQ(RecordsOf({Copied("mds/columns_br")}), records);
  EXPECT_EQ(RecordsOf({Copied("mds/columns_snappy")}), records);
}

TEST_F(MdsFilesTest, ATableThatNamesAShardTwiceIsDamaged) {
  const std::string folder = Copied("mds/columns_none");
  std::string table = ReadBytes(folder + "/index.json");
  table[table.find("shard.00001.mds") + 10] = '0';  // one flipped bit
  WriteBytes(folder + "/index.json", std::as_bytes(std::span(table)));
  try {
    (void)OpenFiles({folder}, Options());
    FAIL() << "it opens";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kDamaged);
    EXPECT_NE(error.status().message().find("names a file twice"), std::string::npos);
  }
}

TEST_F(MdsFilesTest, EveryOrderGivesEachSampleOnceOnThreeRanksAlsoRestored) {
  ExpectEveryOrder(Copied("mds/columns_none"), kSamples);
}

TEST_F(MdsFilesTest, ColumnsAreFieldsWithTheValuesOfTheRealReader) {
  const std::map<std::string, std::string> expected = {
      {"a:b", "858471c258706234901ca4b43e3bd312e3c28a56a1f14e109a07c8ebaee878e8"},
      {"b", "21d0ded23960d039cb6c6041e4350f918ed8dc37760a0a6ddd1610666101b121"},
      {"f16", "221a1a29fdcc4b8619a21cb825a2d509228e535cec15057f872633337b18417e"},
      {"f32", "35e7c4b2884b8db05940f28441dd8f4383435089484fbc58c9950783fdb3b68e"},
      {"f64", "f938d82d4a7c4cb89c013e484bc20bc0743533957852e45d5547d10c3367560a"},
      {"i16", "529c184901cce8a33e7c28f904f0b0bb34a654855f8697e81a06eb39aa58a7ff"},
      {"i32", "226532d2502a23bbcc133e5b6640ea26ca1d4de3cafa36dd90c8adb08251d7f6"},
      {"i64", "f03b4b3ee29d8e4ee919b70b8243f46e30b89b9793ad8843503ff83033d48c37"},
      {"i8", "bf7feb3e22380ccaaeb45aa86a09adb1a93036271a4d62988629a2ad59470dd5"},
      {"js", "51a14d7a222e845ed183ae83ce605224f8ede45791f6ea68a9f89c9f10730637"},
      {"nd", "c2ea5df8a2e03df2f1c63a3159ea152825435c6d0b7bb619c71db3d43fce52f9"},
      {"nf", "67203260f8c695b049e1ccc3db953a2478bb101b6c65307a0073a59c626bbbac"},
      {"nm", "ac29fb54655b0b3202a27e661ccec7a06b62d300c122fe0861dc5b590983e80c"},
      {"nt", "edd37c00d7ef9351bff96a16bfe967d7f6b5e44ec561fadfdf69071b759e744d"},
      {"s", "aab1293ef1b6d3f71e29a6b5bcca1cf3e804ee5f26ba3f23bc09b625d8bb4259"},
      {"sd", "2a6614868c333265295b0c23dc817f5e1c55773ed8ab27a98dcaa1f57d6b6611"},
      {"sf", "7c6f7c0aefaf12cbcc363bacba1e323937171b2f3e52da41dce5db09b4c2f322"},
      {"si", "dda2301d42a84a8709e3d963dc7ba43a9568a71ae4eb39ad669b25f1dd788712"},
      {"u16", "538cf75fad9eed7d48dc74b2967830ea34bde6ddf57455e02a0715ca5e315271"},
      {"u32", "5d989c1cc6d2d0357ee76cf5b96bc8bc164887927e2c5bcf508051ad3c315f41"},
      {"u64", "2d9ba2cb8925d87bdb72d687794b72646b94e50bdb434cae7b33450924b69d15"},
      {"u8", "4db32adee1f8ff2141fee9bfa76d46e1e8cc0c0d16b08c04796100139b31b7ed"}};
  const std::string folder = Copied("mds/encodings");
  InferredParser inferred;
  auto values = ValuesOf(folder, &inferred);
  EXPECT_EQ(inferred.name, "mds");
  std::map<std::string, Shape> shapes;
  for (const FeatureSpec& field : inferred.fields) shapes[field.name] = field.shape;
  for (const auto& [name, digest] : expected) EXPECT_EQ(DigestOf(values[name]), digest) << name;
  EXPECT_EQ(shapes["nd"], (Shape{-1, 2, 3}));
  EXPECT_EQ(shapes["nt"], (Shape{-1}));
  EXPECT_EQ(shapes["nf"], (Shape{2, 2}));
  EXPECT_EQ(shapes["nn"], (Shape{-1}));  // of several types: as they are encoded
  EXPECT_EQ(values["nn"].at(1).substr(0, 6), std::string("\x09\x04\x03\0\1\2", 6));
}

TEST_F(MdsFilesTest, ADamagedSampleIsAHoleThatIsNamed) {
  const std::string folder = Copied("mds/columns_none");
  const std::string shard = folder + "/shard.00001.mds";
  std::string bytes = ReadBytes(shard);
  // The first size of a sample in the middle.
  const auto offset = LoadLe<std::uint32_t>(std::as_bytes(std::span(bytes)).data() + 4 + 4 * 5);
  bytes[offset] ^= 4;
  WriteBytes(shard, std::as_bytes(std::span(bytes)));
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
    Reader reader = OpenFiles({folder}, options);
    if (mode == ShuffleMode::kGlobal) reader = Shuffle(reader, {.seed = 5, .mode = mode});
    reader = Batch(Parse(reader, InferParser({folder}, options).parser), {.size = 7});
    Instance batch;
    std::int64_t rows = 0;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) rows += batch["id"].shape[0];
    EXPECT_EQ(rows, static_cast<std::int64_t>(kSamples) - 1);
    ASSERT_EQ(reader.Stats().damage.size(), 1U);
    EXPECT_EQ(reader.Stats().damage[0].file, shard);
    EXPECT_EQ(reader.Stats().damage[0].begin, offset);
  }
}

TEST_F(MdsFilesTest, CompressedShardsHaveNoOrderByNumber) {
  OpenOptions options = Options();
  Reader reader = Shuffle(OpenFiles({Copied("mds/columns_zstd")}, options),
                          {.seed = 5, .mode = ShuffleMode::kGlobal});
  RecordBlock block;
  Status status;
  try {
    (void)reader.TryReadBlock(&block);
    status = reader.status();
  } catch (const Error& error) {
    status = error.status();
  }
  EXPECT_NE(status.ToString().find("decompress it"), std::string::npos) << status.ToString();
}

TEST_F(MdsFilesTest, ShardsOfOtherColumnsAreRefusedWithBoth) {
  const std::string other = Copied("mds/encodings");
  const std::string folder = Copied("mds/columns_none");
  const auto parser = InferParser({folder}, Options()).parser;
  Reader reader = Parse(OpenFiles({folder, other}, Options()), parser);
  Instance row;
  Status status;
  try {
    while (reader.TryReadNext(&row) == ReadResult::kRecord) {
    }
    status = reader.status();
  } catch (const Error& error) {
    status = error.status();
  }
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  EXPECT_NE(status.message().find("blob:bytes"), std::string::npos) << status.ToString();
}

TEST(MdsParserTest, ATextNamesAllColumnsAndPassesOverSome) {
  const ParserResult made =
      ParserFromText("mds: id:int image:jpeg box:ndarray:float32=f4[,4] -p:pkl t:a:str");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  ASSERT_EQ(made.parser->fields().size(), 4U);
  EXPECT_EQ(made.parser->fields()[2].shape, (Shape{-1, 4}));
  EXPECT_EQ(made.parser->fields()[3].name, "t:a");
  for (const char* text :
       {"mds: id:long", "mds: p:pkl", "mds: a:ndarray", "mds: a:int=f4", "mds: a:str=f4[]",
        "mds: a:int a:int", "mds: -a:int", "mds: a:ndarray:float32=i4[]", "mds: a:ndarray=i4"}) {
    EXPECT_FALSE(ParserFromText(text).status.ok()) << text;
  }
}

}  // namespace
}  // namespace ringfeed
