#include <gtest/gtest.h>

#include <string>

#include "ringfeed/formats.h"
#include "tests/readers/parsers/lod_records.h"

namespace ringfeed {
namespace {

TEST(LoDTensorBuilderTest, RecordsHavePaddlesBytes) {
  std::mt19937_64 random(3);
  LoDTensorBuilder builder;
  for (int i = 0; i < 50; ++i) {
    const LoDRecord record = RandomRecord(0, &random);
    for (const LoDValue& value : record) {
      builder.Add(value.dtype, value.shape, BytesOf(value.bytes), value.lod);
    }
    ASSERT_EQ(Text(builder.Finish()), EncodedRecord(record));
  }
}

TEST(LoDTensorBuilderTest, ATensorIsTakenWithItsLevels) {
  const std::vector<std::int64_t> level = {0, 1, 3};
  const std::string values = "abc";
  Tensor tensor;
  tensor.dtype = kInt8;
  tensor.shape = {3};
  tensor.data = BytesOf(values).data();
  tensor.bytes = 3;
  tensor.lod = {level};
  EXPECT_EQ(Text(LoDTensorBuilder().Add(tensor).Finish()),
            EncodedRecord({{kInt8, {3}, {level}, values}}));
}

TEST(LoDTensorBuilderTest, WithoutATensorARecordIsItsCount) {
  LoDTensorBuilder builder;
  EXPECT_EQ(Text(builder.Finish()), std::string(4, '\0'));
  builder.Add(kInt8, {1}, BytesOf("a"));
  EXPECT_EQ(Text(builder.Finish()), EncodedRecord({{kInt8, {1}, {}, "a"}}));
  EXPECT_EQ(Text(builder.Finish()), std::string(4, '\0'));
}

TEST(LoDTensorBuilderTest, WhatDoesNotFitTogetherIsRefusedAndLeavesTheRecordAsItWas) {
  LoDTensorBuilder builder;
  builder.Add(kInt8, {2}, BytesOf("ab"), {{0, 2}});
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THROW(builder.Add(kUInt16, {1}, BytesOf("ab")), Error);
  EXPECT_THROW(builder.Add(kInt8, {3}, BytesOf("ab")), Error);
  EXPECT_THROW(builder.Add(kInt8, {-1}, BytesOf("ab")), Error);
  EXPECT_THROW(builder.Add(kInt8, {huge, huge}, BytesOf("ab")), Error);
  EXPECT_THROW(builder.Add(kInt8, {2}, BytesOf("ab"), {{0, 1}}), Error);
  EXPECT_THROW(builder.Add(kInt8, {2}, BytesOf("ab"), {{1, 2}}), Error);
  EXPECT_THROW(builder.Add(kInt8, {2}, BytesOf("ab"), {{0, 2, 1, 2}}), Error);
  EXPECT_THROW(builder.Add(kInt8, {2}, BytesOf("ab"), {{}}), Error);
  EXPECT_THROW(builder.Add(kInt8, {2}, BytesOf("ab"), {{0, 2}, {0, 2}}), Error);
  EXPECT_THROW(builder.Add(kInt8, {}, BytesOf("a"), {{0, 1}}), Error);
  EXPECT_EQ(Text(builder.Finish()), EncodedRecord({{kInt8, {2}, {{0, 2}}, "ab"}}));
}

}  // namespace
}  // namespace ringfeed
