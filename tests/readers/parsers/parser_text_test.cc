#include <gtest/gtest.h>

#include "readers/parsers/parser.h"

namespace ringfeed {
namespace {

TEST(ParserTextTest, RowsAreNamedByTheirNumberUnlessTheyHaveNames) {
  const ParserResult made = ParserFromText("rows: f4[13] i4[26] label=i4 x:u1[2,3]");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  const auto& fields = made.parser->fields();
  ASSERT_EQ(fields.size(), 4U);
  EXPECT_EQ(fields[0].name, "c0");
  EXPECT_EQ(fields[0].dtype, kFloat32);
  EXPECT_EQ(fields[0].shape, (Shape{13}));
  EXPECT_EQ(fields[2].name, "label");
  EXPECT_TRUE(fields[2].shape.empty());
  EXPECT_EQ(fields[3].name, "x");
  EXPECT_EQ(fields[3].shape, (Shape{2, 3}));
  EXPECT_FALSE(made.parser->two_phase());
}

TEST(ParserTextTest, ExampleFeaturesMayBeRaggedOrHaveDefaults) {
  const ParserResult made =
      ParserFromText("example: image=u1[] label=i8[1] x=f4[13]?0 y=float32[,4]? a/b:c=i4?-5");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  const auto& fields = made.parser->fields();
  ASSERT_EQ(fields.size(), 5U);
  EXPECT_TRUE(fields[0].ragged());
  EXPECT_EQ(fields[3].shape, (Shape{-1, 4}));
  EXPECT_EQ(fields[4].name, "a/b:c");
  EXPECT_TRUE(made.parser->two_phase());
}

TEST(ParserTextTest, OFRecordFeaturesMayBeTruncatedToo) {
  const ParserResult made =
      ParserFromText("ofrecord: encoded=u1[] class/label=i4 x=f4[13]~?0 y=f8[,2] z=i1~ w=i8[3]?-1");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  EXPECT_EQ(made.parser->name(), "ofrecord");
  const auto& fields = made.parser->fields();
  ASSERT_EQ(fields.size(), 6U);
  EXPECT_TRUE(fields[0].ragged());
  EXPECT_EQ(fields[1].name, "class/label");
  EXPECT_EQ(fields[2].shape, (Shape{13}));
  EXPECT_EQ(fields[3].shape, (Shape{-1, 2}));
  EXPECT_EQ(fields[4].dtype, kInt8);
}

TEST(ParserTextTest, SequencesStandBehindABar) {
  const ParserResult made =
      ParserFromText("sequence: id=i8 x=f4[3]?0 | tokens=i8[]? frames=f4[,2,64]");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  EXPECT_EQ(made.parser->name(), "sequence");
  const auto& fields = made.parser->fields();
  ASSERT_EQ(fields.size(), 4U);
  EXPECT_FALSE(fields[1].ragged());
  EXPECT_TRUE(fields[2].ragged());
  EXPECT_EQ(fields[3].shape, (Shape{-1, 2, 64}));
  EXPECT_TRUE(ParserFromText("sequence: id=i8").status.ok());
  EXPECT_TRUE(ParserFromText("sequence: | tokens=i8[]").status.ok());
}

TEST(ParserTextTest, CsvColumnsAreNamedOrNumbered) {
  const ParserResult made = ParserFromText(
      "csv: -delimiter=tab -columns=any -noquotes id@7=i8 x=f4[3]?-1 note=u1[]?5 f8");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  EXPECT_EQ(made.parser->name(), "csv");
  const auto& fields = made.parser->fields();
  ASSERT_EQ(fields.size(), 4U);
  EXPECT_EQ(fields[0].name, "id");
  EXPECT_EQ(fields[1].shape, (Shape{3}));
  EXPECT_TRUE(fields[2].ragged());
  EXPECT_EQ(fields[3].name, "c3");
  EXPECT_TRUE(ParserFromText("csv: -header=a,b b=f8").status.ok());
}

TEST(ParserTextTest, JsonLinesKeysHaveTypes) {
  const ParserResult made = ParserFromText("jsonl: id=i8 text=u1[]?none v=f4[]? ok=b1?1");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  EXPECT_EQ(made.parser->name(), "jsonl");
  EXPECT_EQ(made.parser->fields().size(), 4U);
  const ParserResult paths = ParserFromText("jsonl: /a/b~1c=u1[,]? a.b=f4[2] /x/0=u1[]?none");
  ASSERT_TRUE(paths.status.ok()) << paths.status.ToString();
  EXPECT_EQ(paths.parser->role(1), FieldRole::kNestedRows);
  EXPECT_EQ(paths.parser->fields()[1].name, "/a/b~1c");
  EXPECT_EQ(paths.parser->fields()[3].name, "/x/0");
}

TEST(ParserTextTest, TensorsMayHaveLevelsOfLoD) {
  const ParserResult made =
      ParserFromText("lod: image=f4[,784] i8[,1]/2 a/b:c=bf2[3] class/label=i8[]/1");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  EXPECT_EQ(made.parser->name(), "lod");
  const auto& fields = made.parser->fields();
  ASSERT_EQ(fields.size(), 7U);
  EXPECT_EQ(fields[0].shape, (Shape{-1, 784}));
  EXPECT_EQ(made.parser->role(0), FieldRole::kLodValues);
  EXPECT_EQ(made.parser->role(1), FieldRole::kLodLevel);
  EXPECT_EQ(fields[3].name, "t1");
  EXPECT_EQ(made.parser->role(3), FieldRole::kLodValues);
  EXPECT_EQ(fields[4].name, "a/b:c");
  EXPECT_EQ(made.parser->role(4), FieldRole::kTensor);
  EXPECT_EQ(fields[6].name, "class/label");
}

TEST(ParserTextTest, SlotsOfInstancesAreTensorsWithNames) {
  const ParserResult made = ParserFromText("instance: image=f4[,784] words=i8[,1]/1 id=u4[2]");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  EXPECT_EQ(made.parser->name(), "instance");
  const auto& fields = made.parser->fields();
  ASSERT_EQ(fields.size(), 4U);
  EXPECT_EQ(made.parser->role(0), FieldRole::kLodValues);
  EXPECT_EQ(made.parser->role(1), FieldRole::kLodLevel);
  EXPECT_EQ(fields[2].shape, (Shape{-1, 1}));
  EXPECT_EQ(made.parser->role(3), FieldRole::kTensor);
}

TEST(ParserTextTest, TokensMayBeConvertedAndHaveALength) {
  const std::vector<std::pair<std::string, FieldSpec>> texts = {
      {"tokens: u2", {"tokens", kUInt16, {-1}}},
      {"tokens: u4 as i8", {"tokens", kInt64, {-1}}},
      {"tokens: ids=u2[1024] as i4", {"ids", kInt32, {1024}}},
      {"tokens: f4[,3]", {"tokens", kFloat32, {-1, 3}}}};
  for (const auto& [text, expected] : texts) {
    const ParserResult made = ParserFromText(text);
    ASSERT_TRUE(made.status.ok()) << made.status.ToString();
    EXPECT_EQ(made.parser->name(), "tokens");
    const FieldSpec& field = made.parser->fields().at(0);
    EXPECT_EQ(field.name, expected.name);
    EXPECT_EQ(field.dtype, expected.dtype) << text;
    EXPECT_EQ(field.shape, expected.shape) << text;
  }
}

TEST(ParserTextTest, MembersOfSamplesHaveTheirExtensions) {
  const ParserResult made =
      ParserFromText("tar: __key__=u1[] jpg;png=u1[] seg.txt=u1[]?none cls=i8?-1");
  ASSERT_TRUE(made.status.ok()) << made.status.ToString();
  EXPECT_EQ(made.parser->name(), "tar");
  EXPECT_EQ(made.parser->fields().size(), 4U);
  EXPECT_EQ(made.parser->fields()[1].name, "jpg;png");
}

TEST(ParserTextTest, RawHasOneField) {
  EXPECT_EQ(ParserFromText("raw").parser->fields().size(), 1U);
}

TEST(ParserTextTest, MistakesAreNamedWithTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"csv", "\"csv\" is unknown"},
      {"", "unknown"},
      {"rows:", "at least one field"},
      {"rows: q4", "\"q4\" is no type"},
      {"rows: f4[x]", "\"x\" is no dimension"},
      {"rows: f4[3", "not closed"},
      {"rows: f4[]", "fixed"},
      {"rows: f4?1", "no default"},
      {"example: f4[3]", "needs its name"},
      {"example: x=f8", "float64"},
      {"example: x=i8?half", "no number"},
      {"example: x=i8?1.5", "no integer"},
      {"example: x=i4?5000000000", "does not fit"},
      {"example: x=f4[]?1", "ragged"},
      {"example: x=f4[0]", "none may be 0"},
      {"example: x=f4 x=f4", "named twice"},
      {"example:", "at least one feature"},
      {"example: x=f4[3]~", "only OFRecord's"},
      {"rows: f4[3]~", "only OFRecord's"},
      {"sequence: |", "at least one feature"},
      {"sequence: x=i8 | x=i8[]", "named twice"},
      {"sequence: x=i8 | y=i8[4]", "first dimension is -1"},
      {"sequence: x=i8 | y=i8[] | z=i8[]", "\"|\" is no type"},
      {"sequence: | x=f4[]~", "only OFRecord's"},
      {"ofrecord:", "at least one feature"},
      {"csv:", "at least one field"},
      {"csv: -x a=f4", "no option of csv"},
      {"csv: -columns=0 a=f4", "no option of csv"},
      {"csv: -header=a,b c=f4", "column \"c\" is missing; the nearest name there is: \"a\""},
      {"csv: a=f4[]", "ragged"},
      {"csv: a@-3=f4", "counted from 0"},
      {"jsonl:", "at least one key"},
      {"jsonl: f4", "needs its name"},
      {"jsonl: x=f2", "float16"},
      {"lod:", "at least one tensor"},
      {"lod: x=f4[]?1", "no default"},
      {"lod: x=f4[]/one", "levels of LoD"},
      {"lod: x=f4[3]/1", "first dimension is -1"},
      {"instance:", "at least one slot"},
      {"instance: f4[]", "needs its name"},
      {"instance: x=f4[]?1", "no default"},
      {"instance: x=f4[] x=f4[]", "named twice"},
      {"instance: x=f4[3]/1", "first dimension is -1"},
      {"tokens:", "one type"},
      {"tokens: u2 as", "one type"},
      {"tokens: u2 to i8", "one type"},
      {"tokens: u2 as q8", "is no type"},
      {"tokens: u2 as f4", "int32 or int64"},
      {"tokens: u2?0", "no default"},
      {"tar:", "at least one member"},
      {"tar: u1[]", "needs its extension"},
      {"tar: v=f4[]", "or one number"},
      {"tar: cls=i8?x", "no number"},
      {"ofrecord: f4[3]", "needs its name"},
      {"ofrecord: x=f2", "float16"},
      {"ofrecord: x=i4[]~", "no length to truncate to"}};
  for (const auto& [text, expected] : mistakes) {
    const ParserResult made = ParserFromText(text);
    EXPECT_EQ(made.parser, nullptr) << text;
    EXPECT_EQ(made.status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(made.status.message().find(expected), std::string::npos) << made.status.ToString();
  }
}

// Of every mistake: what it is, how it is written, and the types.
TEST(ParserTextTest, AMistakeTakesThreeLinesAtMost) {
  const auto said = [](const std::string& text) { return ParserFromText(text).status.message(); };
  EXPECT_EQ(
      said("exmaple: image=u1[]"),
      "parser \"exmaple: image=u1[]\" is unknown; did you mean example?\n"
      "expected \"raw\" \"rows\" \"example\" \"sequence\" \"ofrecord\" \"csv\" \"jsonl\" \"lod\" "
      "\"instance\" \"tokens\" \"tar\" \"mds\" \"litdata\", as in "
      "\"example: image=u1[] label=i8[1] x=f4[13]?0\"");
  EXPECT_EQ(said("csv"),
            "parser \"csv\" is unknown without its fields\n"
            "expected as in \"csv: -delimiter=; -header=id,x,note x=f8 note=u1[] id@0=i8\"");
  EXPECT_EQ(said("rows: q4"),
            "in \"q4\": \"q4\" is no type\nexpected as in \"rows: f4[13] i4[26] label=i4\"\n"
            "TYPE is b1 u1 u2 u4 u8 i1 i2 i4 i8 f2 bf2 f4 or f8; [] ragged, [3,4] a shape, ?V a "
            "default, /1 LoD");
}

}  // namespace
}  // namespace ringfeed
