#include <gtest/gtest.h>

#include <array>
#include <string>

#include "ringfeed/formats.h"
#include "ringfeed/instance.pb.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/lod_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

proto::Instance MessageOf(const std::string& record) {
  proto::Instance message;
  EXPECT_TRUE(message.ParseFromString(record));
  return message;
}

TEST(InstanceBuilderTest, EveryTypeComesBackAsItWasAdded) {
  InstanceBuilder builder;
  for (const DType dtype : {kBool, kUInt8, kInt8, kUInt16, kInt16, kUInt32, kInt32, kUInt64, kInt64,
                            kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const std::string bytes(2 * DTypeBytes(dtype), '\1');
    const std::string record = Text(builder.Add("v", dtype, {2}, BytesOf(bytes)).Finish());
    const ParsedRows parsed = RowsRunner(InstanceProtoParser({{"v", dtype, {-1}}})).Run({record});
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
    EXPECT_EQ(parsed.values[0][0], bytes) << DTypeName(dtype);
    const proto::Instance message = MessageOf(record);
    const proto::Description& description = message.field(0).description();
    EXPECT_TRUE(description.has_dtype());
    EXPECT_TRUE(proto::Description::Type_IsValid(description.dtype()));
  }
}

TEST(InstanceBuilderTest, ATensorIsTakenWithItsLevels) {
  const std::vector<std::int64_t> level = {0, 1, 3};
  const std::string values = "abc";
  Tensor tensor;
  tensor.dtype = kInt8;
  tensor.shape = {3};
  tensor.data = BytesOf(values).data();
  tensor.bytes = 3;
  tensor.lod = {level};
  EXPECT_EQ(Text(InstanceBuilder().Add("t", tensor).Finish()),
            Text(InstanceBuilder().Add("t", kInt8, {3}, BytesOf(values), {level}).Finish()));
}

TEST(InstanceBuilderTest, ANameThatIsAddedAgainReplacesTheFirst) {
  InstanceBuilder builder;
  builder.Add("a", kInt8, {1}, BytesOf("a")).Add("b", kInt8, {1}, BytesOf("b"));
  builder.Add("a", kInt8, {2}, BytesOf("xy"));
  InstanceBuilder other;
  other.Add("b", kInt8, {1}, BytesOf("b")).Add("a", kInt8, {2}, BytesOf("xy"));
  EXPECT_EQ(Text(builder.Finish()), Text(other.Finish()));
  EXPECT_EQ(Text(builder.Finish()), "");
}

TEST(InstanceBuilderTest, WhatIsNotReplacedStaysByteForByte) {
  InstanceBuilder builder;
  builder.Add("a", kInt8, {1}, BytesOf("a")).Add("b", kInt8, {1}, BytesOf("b"));
  proto::Instance message = MessageOf(Text(builder.Finish()));
  const auto note = [](google::protobuf::Message* of) {
    of->GetReflection()->MutableUnknownFields(of)->AddLengthDelimited(77, "kept");
  };
  note(&message);
  note(message.mutable_field(0));
  note(message.mutable_field(0)->mutable_description());
  const std::string record = message.SerializeAsString();
  ASSERT_TRUE(builder.StartFrom(BytesOf(record)).ok());
  EXPECT_EQ(Text(builder.Finish()), record);
  ASSERT_TRUE(builder.StartFrom(BytesOf(record)).ok());
  proto::Instance rewritten = MessageOf(Text(builder.Add("b", kInt8, {2}, BytesOf("xy")).Finish()));
  EXPECT_EQ(rewritten.field(0).SerializeAsString(), message.field(0).SerializeAsString());
  EXPECT_EQ(rewritten.field(1).value(), "xy");
  EXPECT_EQ(rewritten.GetReflection()->GetUnknownFields(rewritten).field(0).length_delimited(),
            "kept");
}

TEST(InstanceBuilderTest, ItsOwnRecordMayBeRewritten) {
  InstanceBuilder builder;
  builder.Add("a", kInt8, {1}, BytesOf("a"));
  const std::string record = Text(builder.Finish());
  ASSERT_TRUE(
      builder.StartFrom(builder.StartFrom(BytesOf(record)).ok() ? builder.Finish() : BytesOf("?"))
          .ok());
  EXPECT_EQ(Text(builder.Finish()), record);
}

TEST(InstanceBuilderTest, WhatIsNoInstanceIsRefusedAndLeavesTheRecordAsItWas) {
  InstanceBuilder builder;
  builder.Add("a", kInt8, {1}, BytesOf("a"));
  const std::string cut("\x0a\x00\x0a\x05xx", 6);
  const Status status = builder.StartFrom(BytesOf(cut));
  EXPECT_EQ(status.code(), StatusCode::kDamaged);
  EXPECT_NE(status.message().find("byte 2 of the record"), std::string::npos) << status.ToString();
  EXPECT_EQ(MessageOf(Text(builder.Finish())).field_size(), 1);
}

TEST(InstanceBuilderTest, WhatDoesNotFitTogetherIsRefusedAndLeavesTheRecordAsItWas) {
  InstanceBuilder builder;
  builder.Add("a", kInt8, {2}, BytesOf("ab"), {{0, 2}});
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THROW(builder.Add("", kInt8, {1}, BytesOf("a")), Error);
  EXPECT_THROW(builder.Add("a", kInt8, {3}, BytesOf("ab")), Error);
  EXPECT_THROW(builder.Add("a", kInt8, {-1}, BytesOf("ab")), Error);
  EXPECT_THROW(builder.Add("a", kInt8, {huge, huge}, BytesOf("ab")), Error);
  EXPECT_THROW(builder.Add("a", kInt8, {2}, BytesOf("ab"), {{0, 1}}), Error);
  EXPECT_THROW(builder.Add("a", kInt8, {2}, BytesOf("ab"), {{0, 2}, {0, 2}}), Error);
  EXPECT_THROW(builder.Add("a", kInt8, {}, BytesOf("a"), {{0, 1}}), Error);
  InstanceBuilder other;
  other.Add("a", kInt8, {2}, BytesOf("ab"), {{0, 2}});
  EXPECT_EQ(Text(builder.Finish()), Text(other.Finish()));
}

}  // namespace
}  // namespace ringfeed
