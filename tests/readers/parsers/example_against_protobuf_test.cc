#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "example.pb.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/odd_examples.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

std::vector<FeatureSpec> FixedFeatures() {
  return {{"dense", kFloat32, {13}}, {"sparse", kInt64, {2, 13}},
          {"label", kInt64, {}},     {"fixed", kUInt8, {8}, std::string("defaults")},
          {"small", kInt32, {2}, 7}, {"x", kFloat32, {1}, 0.5}};
}

std::vector<FeatureSpec> RaggedFeatures() {
  return {{"image", kUInt8, {-1}},    {"label", kInt64, {1}, 3}, {"sparse", kInt64, {-1}, ""},
          {"small", kInt32, {-1, 2}}, {"dense", kFloat32, {-1}}, {"x", kFloat32, {-1}, ""}};
}

template <typename T, typename From>
std::string AsBytes(const From& values) {
  std::string out;
  for (const auto value : values) {
    const auto narrow = static_cast<T>(value);
    out.append(reinterpret_cast<const char*>(&narrow), sizeof(T));
  }
  return out;
}

std::string DefaultOf(const FeatureSpec& spec, std::size_t elements) {
  if (const auto* text = std::get_if<std::string>(&*spec.missing)) return *text;
  const auto* whole = std::get_if<std::int64_t>(&*spec.missing);
  if (spec.dtype == kFloat32) {
    const double value =
        whole != nullptr ? static_cast<double>(*whole) : std::get<double>(*spec.missing);
    return AsBytes<float>(std::vector<double>(elements, value));
  }
  const std::vector<std::int64_t> values(elements, *whole);
  return spec.dtype == kInt32 ? AsBytes<std::int32_t>(values) : AsBytes<std::int64_t>(values);
}

// The field that Protobuf's parse of the record gives; nothing where the record has to fail.
std::optional<std::string> Expected(const testdata::ExampleMessage& message,
                                    const FeatureSpec& spec) {
  std::size_t elements = 1;
  const bool ragged = !spec.shape.empty() && spec.shape[0] < 0;
  for (std::size_t i = ragged ? 1 : 0; i < spec.shape.size(); ++i) {
    elements *= static_cast<std::size_t>(spec.shape[i]);
  }
  const auto& features = message.features().feature();
  const auto found = features.find(spec.name);
  using Kind = testdata::FeatureMessage::KindCase;
  if (found == features.end() || found->second.kind_case() == Kind::KIND_NOT_SET) {
    if (!spec.missing) return std::nullopt;
    return DefaultOf(spec, elements);
  }
  const testdata::FeatureMessage& feature = found->second;
  std::string bytes;
  std::size_t count = 0;
  if (spec.dtype == kUInt8) {
    if (feature.kind_case() != Kind::kBytesList) return std::nullopt;
    if (feature.bytes_list().value_size() > 1) return std::nullopt;
    if (feature.bytes_list().value_size() == 1) bytes = feature.bytes_list().value(0);
    count = bytes.size();
  } else if (spec.dtype == kFloat32) {
    if (feature.kind_case() != Kind::kFloatList) return std::nullopt;
    bytes = AsBytes<float>(feature.float_list().value());
    count = bytes.size() / sizeof(float);
  } else {
    if (feature.kind_case() != Kind::kInt64List) return std::nullopt;
    const auto& values = feature.int64_list().value();
    count = static_cast<std::size_t>(values.size());
    for (const std::int64_t value : values) {
      const bool fits = value == static_cast<std::int32_t>(value);
      if (spec.dtype == kInt32 && !fits) return std::nullopt;
    }
    bytes = spec.dtype == kInt32 ? AsBytes<std::int32_t>(values) : AsBytes<std::int64_t>(values);
  }
  if (ragged ? count % elements != 0 : count != elements) return std::nullopt;
  return bytes;
}

struct Tally {
  int accepted = 0;
  int failed_by_spec = 0;
  int rejected = 0;
};

// Where Protobuf takes a record, the parser must agree on every field, or on its failure.
void Compare(const std::vector<FeatureSpec>& features, const std::vector<std::string>& records,
             RowsRunner* runner, Tally* tally) {
  const ParsedRows parsed = runner->Run(records);
  for (std::size_t row = 0; row < records.size(); ++row) {
    testdata::ExampleMessage message;
    if (!message.ParseFromString(records[row])) {
      ++tally->rejected;
      continue;
    }
    bool fails = false;
    for (const FeatureSpec& feature : features) fails |= !Expected(message, feature).has_value();
    ASSERT_EQ(parsed.failures.count(row) != 0, fails)
        << (fails ? "accepted" : parsed.failures.at(row).ToString());
    if (fails) {
      ++tally->failed_by_spec;
      continue;
    }
    ++tally->accepted;
    for (std::size_t f = 0; f < features.size(); ++f) {
      ASSERT_EQ(parsed.values[f][row], *Expected(message, features[f])) << features[f].name;
    }
  }
}

void CompareMany(const std::vector<FeatureSpec>& features, double oddness, bool damaged,
                 Tally* tally) {
  const google::protobuf::LogSilencer silence;  // about keys that are not UTF-8
  OddExamples examples(static_cast<std::uint64_t>(oddness * 100) + (damaged ? 7 : 0));
  RowsRunner runner(ExampleParser(features));
  for (int round = 0; round < 600 && !testing::Test::HasFatalFailure(); ++round) {
    std::vector<std::string> records;
    for (int i = 0; i <= round % 40; ++i) {
      records.push_back(examples.Make(oddness));
      if (damaged) records.back() = examples.Damage(records.back());
    }
    Compare(features, records, &runner, tally);
  }
}

class ExampleAgainstProtobufTest : public testing::TestWithParam<double> {};

TEST_P(ExampleAgainstProtobufTest, FixedFieldsAreProtobufs) {
  Tally tally;
  CompareMany(FixedFeatures(), GetParam(), false, &tally);
  // Protobuf refuses some overlong forms that the wire format allows.
  EXPECT_GT(tally.accepted + tally.failed_by_spec, tally.rejected);
  if (GetParam() == 0) {
    EXPECT_GT(tally.accepted, 100);
  }
}

TEST_P(ExampleAgainstProtobufTest, RaggedFieldsAreProtobufs) {
  Tally tally;
  CompareMany(RaggedFeatures(), GetParam(), false, &tally);
  EXPECT_GT(tally.accepted + tally.failed_by_spec, tally.rejected);
  if (GetParam() < 0.1) {
    EXPECT_GT(tally.accepted, 100);
  }
}

TEST_P(ExampleAgainstProtobufTest, DamagedRecordsAgreeWhereProtobufTakesThem) {
  Tally tally;
  CompareMany(FixedFeatures(), GetParam(), true, &tally);
  CompareMany(RaggedFeatures(), GetParam(), true, &tally);
  EXPECT_GT(tally.rejected, 1000);
  EXPECT_GT(tally.accepted + tally.failed_by_spec, 1000);
}

INSTANTIATE_TEST_SUITE_P(Oddness, ExampleAgainstProtobufTest,
                         testing::Values(0.0, 0.02, 0.1, 0.4, 1.0));

TEST(ExampleTruncationTest, EveryCutIsTakenAsProtobufTakesIt) {
  const google::protobuf::LogSilencer silence;
  OddExamples examples(5);
  for (const double oddness : {0.0, 0.5}) {
    const std::string whole = examples.Make(oddness);
    std::vector<std::string> records;
    for (std::size_t size = 0; size <= whole.size(); ++size)
      records.push_back(whole.substr(0, size));
    for (const auto& features : {FixedFeatures(), RaggedFeatures()}) {
      Tally tally;
      RowsRunner runner(ExampleParser(features));
      Compare(features, records, &runner, &tally);
    }
  }
}

TEST(ExampleBuilderTest, WritesWhatProtobufReads) {
  const std::vector<float> floats = {1, -2.5};
  const std::vector<std::int64_t> ints = {0, -1, 1LL << 62, 300};
  ExampleBuilder builder;
  for (int round = 0; round < 2; ++round) {  // starts over after Finish
    builder.AddBytes("b", "some bytes").AddFloats("f", floats).AddInts("i", ints);
    builder.AddInts("none", {}).AddBytes("empty", "").AddBytes("large", std::string(70000, 'x'));
    const auto record = builder.Finish();
    testdata::ExampleMessage message;
    ASSERT_TRUE(message.ParseFromArray(record.data(), static_cast<int>(record.size())));
    auto& features = *message.mutable_features()->mutable_feature();
    ASSERT_EQ(features.size(), 6U);
    EXPECT_EQ(features["b"].bytes_list().value(0), "some bytes");
    EXPECT_EQ(features["f"].float_list().value(1), -2.5F);
    EXPECT_EQ(features["i"].int64_list().value(1), -1);
    EXPECT_TRUE(features["none"].has_int64_list());
    EXPECT_EQ(features["empty"].bytes_list().value_size(), 1);
    EXPECT_EQ(features["large"].bytes_list().value(0).size(), 70000U);
  }
}

}  // namespace
}  // namespace ringfeed
