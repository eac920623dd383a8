#include <gtest/gtest.h>

#include <limits>

#include "ringfeed/parsers.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/parsers/fixture_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

TEST(ExampleFixturesTest, FeaturesOfTensorFlowsFileHaveTheirValues) {
  const auto records = RecordsOf("tfrecord", "tfrecord/examples.tfrecord");
  ASSERT_EQ(records.size(), 40U);
  const ParsedRows parsed = RowsRunner(ExampleParser({{"id", kInt64, {}},
                                                      {"name", kUInt8, {-1}},
                                                      {"neg", kInt64, {3}},
                                                      {"x", kFloat32, {8}},
                                                      {"no such", kFloat32, {1}, 1.0}}))
                                .Run(records);
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  for (std::int64_t i = 0; i < 40; ++i) {
    const auto row = static_cast<std::size_t>(i);
    const std::int64_t neg[] = {-i, std::numeric_limits<std::int64_t>::max(),
                                std::numeric_limits<std::int64_t>::min()};
    EXPECT_EQ(parsed.values[0][row], std::string(reinterpret_cast<const char*>(&i), 8));
    EXPECT_EQ(parsed.values[1][row], "item " + std::to_string(i) + " \xc3\xbc");
    EXPECT_EQ(parsed.values[2][row], std::string(reinterpret_cast<const char*>(neg), 24));
  }
  EXPECT_EQ(Sha256(parsed.values[3][0]),
            "326d47213d02b76f716b7cef2da6f54aff93b8b86351e07037c84af27280095b");
  EXPECT_EQ(Sha256(parsed.values[3][1]),
            "0084fbc16a2002a453fc5669a0fdb01864a05779da1c0fef5620a835e5630dbb");
}

TEST(ExampleFixturesTest, EdgesOfTensorFlowsFile) {
  const auto records = RecordsOf("tfrecord", "tfrecord/edge_examples.tfrecord");
  ASSERT_EQ(records.size(), 5U);
  const ParsedRows parsed = RowsRunner(ExampleParser({{"unset", kInt64, {-1}, ""},
                                                      {"e", kFloat32, {-1}, ""},
                                                      {"b", kUInt8, {-1}, "none"},
                                                      {"f", kFloat32, {-1}, ""}}))
                                .Run(records);
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  EXPECT_EQ(parsed.values[2][1], "none");
  EXPECT_EQ(parsed.values[2][2], "");  // a list without a value is there, and empty
  EXPECT_EQ(Sha256(parsed.values[3][3]),
            "431f4631cdb7cca0b60a5203f72eef0459dab4e943cb06ae5af89afd8d0b18b5");
}

}  // namespace
}  // namespace ringfeed
