#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "example.pb.h"
#include "ofrecord.pb.h"
#include "ringfeed/formats.h"
#include "tests/readers/formats/ofrecord_file.h"
#include "tests/readers/parsers/lod_records.h"

namespace ringfeed {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr std::array<std::int64_t, 5> kSomeInts = {
    0, 127, -1, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
constexpr std::array<std::int32_t, 3> kSomeInt32s = {-1, std::numeric_limits<std::int32_t>::min(),
                                                     300};
constexpr std::array<float, 3> kSomeFloats = {1.5F, -0.0F, std::numeric_limits<float>::infinity()};
constexpr std::array<double, 2> kSomeDoubles = {0.1, -1e300};

// One byte, none, and so many that their length takes two bytes.
const std::vector<std::string> kSomeTexts = {"a", "", std::string(200, '\0')};

std::vector<std::span<const std::byte>> BytesOfTexts() {
  std::vector<std::span<const std::byte>> values;
  for (const std::string& text : kSomeTexts) values.push_back(BytesOf(text));
  return values;
}

template <typename Message>
Message Parsed(std::span<const std::byte> record) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(Text(record)));
  return message;
}

TEST(ExampleBuilderTest, ProtobufReadsEveryKindAsItWasAdded) {
  ExampleBuilder builder;
  builder.AddBytes("one", "bytes").AddBytesList("many", BytesOfTexts()).AddBytesList("none", {});
  builder.AddFloats("floats", kSomeFloats).AddFloats("no floats", {});
  builder.AddInts("ints", kSomeInts).AddInts("no ints", {});

  testdata::ExampleMessage expected;
  auto& features = *expected.mutable_features()->mutable_feature();
  features["one"].mutable_bytes_list()->add_value("bytes");
  for (const std::string& text : kSomeTexts) features["many"].mutable_bytes_list()->add_value(text);
  features["none"].mutable_bytes_list();
  features["floats"].mutable_float_list()->mutable_value()->Assign(kSomeFloats.begin(),
                                                                   kSomeFloats.end());
  features["no floats"].mutable_float_list();
  features["ints"].mutable_int64_list()->mutable_value()->Assign(kSomeInts.begin(),
                                                                 kSomeInts.end());
  features["no ints"].mutable_int64_list();
  const auto message = Parsed<testdata::ExampleMessage>(builder.Finish());
  EXPECT_TRUE(MessageDifferencer::Equals(message, expected)) << message.DebugString();
}

TEST(ExampleBuilderTest, ARecordOfOneFeatureHasProtobufsBytes) {
  testdata::ExampleMessage expected;
  auto& feature = (*expected.mutable_features()->mutable_feature())["label"];
  feature.mutable_int64_list()->add_value(-7);
  constexpr std::int64_t kLabel = -7;
  EXPECT_EQ(Text(ExampleBuilder().AddInts("label", {&kLabel, 1}).Finish()),
            expected.SerializeAsString());
}

TEST(OFRecordBuilderTest, ProtobufReadsEveryKindAsItWasAdded) {
  OFRecordBuilder builder;
  builder.AddBytes("one", "bytes").AddBytesList("many", BytesOfTexts()).AddBytesList("none", {});
  builder.AddFloats("floats", kSomeFloats).AddDoubles("doubles", kSomeDoubles);
  builder.AddInt32s("int32s", kSomeInt32s).AddInts("ints", kSomeInts);
  builder.AddDoubles("no doubles", {}).AddInt32s("no int32s", {});

  ofrecord_testdata::RecordMessage expected;
  auto& features = *expected.mutable_feature();
  features["one"].mutable_bytes_list()->add_value("bytes");
  for (const std::string& text : kSomeTexts) features["many"].mutable_bytes_list()->add_value(text);
  features["none"].mutable_bytes_list();
  features["floats"].mutable_float_list()->mutable_value()->Assign(kSomeFloats.begin(),
                                                                   kSomeFloats.end());
  features["doubles"].mutable_double_list()->mutable_value()->Assign(kSomeDoubles.begin(),
                                                                     kSomeDoubles.end());
  features["int32s"].mutable_int32_list()->mutable_value()->Assign(kSomeInt32s.begin(),
                                                                   kSomeInt32s.end());
  features["ints"].mutable_int64_list()->mutable_value()->Assign(kSomeInts.begin(),
                                                                 kSomeInts.end());
  features["no doubles"].mutable_double_list();
  features["no int32s"].mutable_int32_list();
  const auto message = Parsed<ofrecord_testdata::RecordMessage>(builder.Finish());
  EXPECT_TRUE(MessageDifferencer::Equals(message, expected)) << message.DebugString();
}

// The one that docs/FORMATS.md has, as OneFlow writes it.
TEST(OFRecordBuilderTest, TheRecordOfTheDocumentHasItsBytes) {
  constexpr std::int32_t kLabel = 7;
  constexpr float kX = 1.5F;
  OFRecordBuilder builder;
  builder.AddInt32s("class/label", {&kLabel, 1}).AddFloats("x", {&kX, 1});
  const std::string expected =
      PlainFeature("class/label", 4, "\x07") + PlainFeature("x", 2, std::string("\0\0\xc0\x3f", 4));
  ASSERT_EQ(expected.size(), 37U);
  EXPECT_EQ(Text(builder.Finish()), expected);
}

TEST(OFRecordBuilderTest, ABuilderStartsOverBehindItsRecord) {
  OFRecordBuilder builder;
  builder.AddBytes("a", "first");
  EXPECT_EQ(Text(builder.Finish()), PlainFeature("a", 1, "first"));
  builder.AddBytes("b", "second");
  EXPECT_EQ(Text(builder.Finish()), PlainFeature("b", 1, "second"));
  EXPECT_EQ(Text(builder.Finish()), "");
}

}  // namespace
}  // namespace ringfeed
