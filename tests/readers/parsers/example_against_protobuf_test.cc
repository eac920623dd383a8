#include <gtest/gtest.h>

#include "example.pb.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/protobuf_comparison.h"
#include "tests/readers/parsers/reference_field.h"

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

// The field of a feature that has a kind; nothing where the record has to fail.
std::optional<std::string> ExpectedOf(const testdata::FeatureMessage& feature,
                                      const ReferenceField& field) {
  using Kind = testdata::FeatureMessage::KindCase;
  const Kind wanted = field.dtype == kUInt8     ? Kind::kBytesList
                      : field.dtype == kFloat32 ? Kind::kFloatList
                                                : Kind::kInt64List;
  if (feature.kind_case() != wanted) return std::nullopt;
  if (wanted == Kind::kFloatList) return FieldOf(field, feature.float_list().value());
  if (wanted == Kind::kInt64List) return FieldOf(field, feature.int64_list().value());
  const auto& values = feature.bytes_list().value();
  if (values.size() > 1) return std::nullopt;
  return FieldOf(field, RawBytes{values.empty() ? "" : values[0]});
}

std::optional<std::string> ExpectedIn(const testdata::FeaturesMessage& features,
                                      const FeatureSpec& spec) {
  const ReferenceField field(spec.dtype, spec.shape);
  const auto found = features.feature().find(spec.name);
  if (found == features.feature().end() ||
      found->second.kind_case() == testdata::FeatureMessage::KIND_NOT_SET) {
    return DefaultField(field, spec.missing);
  }
  return ExpectedOf(found->second, field);
}

struct ExampleDialect {
  using Message = testdata::ExampleMessage;
  using Spec = FeatureSpec;

  static OddDialect Odd() {
    return {"BFV",
            true,
            false,
            {{"image", 1, 1},
             {"fixed", 1, 1},
             {"dense", 2, 13},
             {"sparse", 3, 26},
             {"label", 3, 1},
             {"small", 3, 2},
             {"x", 2, 1},
             {"a feature nobody asks for", 3, 5},
             {"", 2, 3}}};
  }
  static std::shared_ptr<const Parser> MakeParser(const std::vector<Spec>& specs) {
    return ExampleParser(specs);
  }

  static std::optional<std::string> Expected(const Message& message, const Spec& spec) {
    return ExpectedIn(message.features(), spec);
  }
};

using Comparison = ProtobufComparison<ExampleDialect>;

class ExampleAgainstProtobufTest : public testing::TestWithParam<double> {};

TEST_P(ExampleAgainstProtobufTest, FixedFieldsAreProtobufs) {
  Comparison(FixedFeatures()).ExpectAgreement(GetParam());
}

TEST_P(ExampleAgainstProtobufTest, RaggedFieldsAreProtobufs) {
  Comparison(RaggedFeatures()).ExpectAgreement(GetParam());
}

TEST_P(ExampleAgainstProtobufTest, DamagedRecordsAgreeWhereProtobufTakesThem) {
  Comparison(FixedFeatures()).ExpectAgreementOnDamaged(GetParam());
  Comparison(RaggedFeatures()).ExpectAgreementOnDamaged(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Oddness, ExampleAgainstProtobufTest,
                         testing::Values(0.0, 0.02, 0.1, 0.4, 1.0));

TEST(ExampleTruncationTest, EveryCutIsTakenAsProtobufTakesIt) {
  Comparison(FixedFeatures()).ExpectAgreementOnCuts();
  Comparison(RaggedFeatures()).ExpectAgreementOnCuts();
}

struct SequenceDialect {
  using Message = testdata::SequenceExampleMessage;
  struct Spec {
    FeatureSpec feature;
    bool sequence = false;
  };

  static OddDialect Odd() {
    return {"BFV",
            true,
            false,
            {{"id", 3, 1}, {"x", 2, 3}, {"tokens", 3, 2}},
            {{"tokens", 3, 1},
             {"pairs", 3, 2},
             {"frames", 2, 4},
             {"words", 1, 1},
             {"a list nobody asks for", 3, 5},
             {"", 2, 3}}};
  }
  static std::shared_ptr<const Parser> MakeParser(const std::vector<Spec>& specs) {
    std::vector<FeatureSpec> context;
    std::vector<FeatureSpec> sequences;
    for (const Spec& spec : specs) (spec.sequence ? sequences : context).push_back(spec.feature);
    return SequenceExampleParser(std::move(context), std::move(sequences));
  }
  static std::optional<std::string> Expected(const Message& message, const Spec& spec) {
    if (!spec.sequence) return ExpectedIn(message.context(), spec.feature);
    const auto& lists = message.feature_lists().feature_list();
    const auto found = lists.find(spec.feature.name);
    ReferenceField field(spec.feature.dtype, spec.feature.shape);
    if (found == lists.end()) return DefaultField(field, spec.feature.missing);
    field.ragged = false;  // a step
    std::string row;
    for (const testdata::FeatureMessage& step : found->second.feature()) {
      const auto elements = ExpectedOf(step, field);
      if (!elements) return std::nullopt;
      row += *elements;
    }
    return row;
  }
};

std::vector<SequenceDialect::Spec> SequenceFeatures() {
  return {{{"id", kInt64, {}}},
          {{"x", kFloat32, {-1}, ""}},
          {{"tokens", kInt64, {-1}, ""}, true},
          {{"pairs", kInt32, {-1, 2}, ""}, true},
          {{"frames", kFloat32, {-1, 2, 2}}, true},
          {{"words", kUInt8, {-1, 8}, ""}, true}};
}

using SequenceComparison = ProtobufComparison<SequenceDialect>;

class SequenceAgainstProtobufTest : public testing::TestWithParam<double> {};

TEST_P(SequenceAgainstProtobufTest, FieldsAreProtobufs) {
  SequenceComparison(SequenceFeatures()).ExpectAgreement(GetParam());
}

TEST_P(SequenceAgainstProtobufTest, DamagedRecordsAgreeWhereProtobufTakesThem) {
  SequenceComparison(SequenceFeatures()).ExpectAgreementOnDamaged(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Oddness, SequenceAgainstProtobufTest,
                         testing::Values(0.0, 0.02, 0.1, 0.4));

TEST(SequenceTruncationTest, EveryCutIsTakenAsProtobufTakesIt) {
  SequenceComparison(SequenceFeatures()).ExpectAgreementOnCuts();
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
