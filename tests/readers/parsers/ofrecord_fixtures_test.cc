#include <gtest/gtest.h>

#include "ringfeed/parsers.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/parsers/fixture_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

std::string Joined(const std::vector<std::string>& rows) {
  std::string all;
  for (const std::string& row : rows) all += row;
  return all;
}

// The digests are of the batch of four that OneFlow's own reader and raw decoders gave.
TEST(OFRecordFixturesTest, AllKindsGiveOneFlowsOwnBatch) {
  const ParsedRows parsed = RowsRunner(OFRecordParser({{"x", kFloat32, {3}},
                                                       {"y", kInt64, {1}},
                                                       {"i", kInt32, {2}},
                                                       {"d", kFloat64, {2}},
                                                       {"b", kUInt8, {6}}}))
                                .Run(RecordsOf("ofrecord", "ofrecord/alltypes/part-0"));
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  const std::vector<std::string> digests = {
      "a8735d6e721c07bec1e700d37f456b2727c8434533af034d4eacd19044dd92f7",
      "dcd1817864ca1ad029444b0edb759f1c85ede9b39e43f8ab1b01384811efbfb0",
      "35b628940f368f7d8649e97adb0fa1777da66b65ad797fd1e3ec8c47439089af",
      "9853dfa59f150fdec9e67882a95118d6efd48ec289f70d093a515fc40f70b1b1",
      "3bc57cae2c3ff76849f29e85a2d72361835300e324960368a495ec9dd7609fb3"};
  for (std::size_t f = 0; f < digests.size(); ++f) {
    EXPECT_EQ(parsed.values[f].size(), 4U);
    EXPECT_EQ(Sha256(Joined(parsed.values[f])), digests[f]) << f;
  }
}

TEST(OFRecordFixturesTest, RaggedFeaturesHaveTheirValues) {
  const ParsedRows parsed =
      RowsRunner(OFRecordParser({{"t", kInt64, {-1, 2}}, {"f", kFloat32, {-1}}}))
          .Run(RecordsOf("ofrecord", "ofrecord/ragged/part-0"));
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  ASSERT_EQ(parsed.values[0].size(), 8U);
  for (std::size_t row = 0; row < 8; ++row) {
    std::vector<std::int64_t> integers;
    std::vector<float> floats{0};
    for (std::size_t i = 0; i < row; ++i) {
      integers.insert(integers.begin(), -static_cast<std::int64_t>(i + 1));
      floats.push_back(static_cast<float>(i + 1));
    }
    for (std::size_t i = 0; i < row; ++i) integers.push_back(static_cast<std::int64_t>(i));
    EXPECT_EQ(parsed.values[0][row], Packed(integers));
    EXPECT_EQ(parsed.values[1][row], Packed(floats));
  }
}

TEST(OFRecordFixturesTest, ImagesAndLabelsHaveTheirValues) {
  const ParsedRows parsed =
      RowsRunner(OFRecordParser({{"encoded", kUInt8, {-1}}, {"class/label", kInt32, {}}}))
          .Run(RecordsOf("ofrecord", "ofrecord/imagenet_like/part-00000"));
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  const std::vector<std::string> digests = {
      "6dd1e989830d1a872e5089cb53253fce295bfc6d83bb8b02fcf58a48521b3f39",
      "e3d1fde7cc9311242d7e6e8d16cb504109243ed588ebd0f17b3774fd0e7fbae2",
      "589a7ec148fe8611a077ac56aa6c9d585147429a508207ace9fa414c2bcffdbe",
      "3764182dc51c8ca29027e6cbca96fd340ee73254bbe5e5e5c76ae3eb7c9ece1c",
      "f133c0deb2dd8ece07c155a40a2c8dcac6cbab6de817d844cbd2b60242a3a23a",
      "f2b9968071e2436acc3b34b7ea8ee8c8ef1de3e3505df1fd3229b72804f5679c"};
  ASSERT_EQ(parsed.values[0].size(), digests.size());
  for (std::size_t row = 0; row < digests.size(); ++row) {
    EXPECT_EQ(Sha256(parsed.values[0][row]), digests[row]);
    EXPECT_EQ(parsed.values[1][row], Packed<std::int32_t>({static_cast<std::int32_t>(row) * 111}));
  }
}

}  // namespace
}  // namespace ringfeed
