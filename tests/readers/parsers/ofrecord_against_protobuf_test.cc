#include <gtest/gtest.h>

#include "ofrecord.pb.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/protobuf_comparison.h"
#include "tests/readers/parsers/reference_field.h"

namespace ringfeed {
namespace {

using Spec = OFRecordFeatureSpec;

// As the usual writer's lists have them.
std::vector<Spec> FixedFeatures() {
  return {{"raw", kUInt8, {8}},     {"x", kFloat32, {13}},       {"d", kFloat64, {3}},
          {"wide", kInt64, {2, 3}}, {"class/label", kInt32, {}}, {"small", kInt8, {4}, 7}};
}

// All of them converted, some clipped, some filled up.
std::vector<Spec> ConvertedFeatures() {
  return {{"raw", kFloat32, {8}},          {"x", kUInt8, {10}, {}, true},
          {"d", kInt32, {5}, {}, true},    {"wide", kFloat64, {6}, 0.5},
          {"class/label", kInt64, {1}, 3}, {"small", kUInt8, {7}, std::string("default"), true}};
}

std::vector<Spec> RaggedFeatures() {
  return {{"encoded", kUInt8, {-1}}, {"x", kFloat32, {-1}},      {"d", kInt64, {-1}, ""},
          {"wide", kInt64, {-1, 2}}, {"small", kInt32, {-1, 2}}, {"class/label", kInt64, {}, 3}};
}

struct OFRecordDialect {
  using Message = ofrecord_testdata::RecordMessage;
  using Spec = OFRecordFeatureSpec;

  static OddDialect Odd() {
    return {"BFDVV",
            false,
            true,
            {{"encoded", 1, 1},
             {"raw", 1, 1},
             {"x", 2, 13},
             {"d", 3, 3},
             {"class/label", 4, 1},
             {"small", 4, 4},
             {"wide", 5, 6},
             {"a feature nobody asks for", 5, 5},
             {"", 3, 3}}};
  }
  static std::shared_ptr<const Parser> MakeParser(const std::vector<Spec>& specs) {
    return OFRecordParser(specs);
  }

  static std::optional<std::string> Expected(const Message& message, const Spec& spec) {
    using Feature = ofrecord_testdata::FeatureMessage;
    ReferenceField field(spec.dtype, spec.shape);
    field.truncate = spec.truncate;
    const auto found = message.feature().find(spec.name);
    const bool there = found != message.feature().end();
    switch (there ? found->second.kind_case() : Feature::KIND_NOT_SET) {
      case Feature::kBytesList:
        if (found->second.bytes_list().value_size() != 1) return std::nullopt;
        return FieldOf(field, RawBytes{found->second.bytes_list().value(0)});
      case Feature::kFloatList:
        return FieldOf(field, found->second.float_list().value());
      case Feature::kDoubleList:
        return FieldOf(field, found->second.double_list().value());
      case Feature::kInt32List:
        return FieldOf(field, found->second.int32_list().value());
      case Feature::kInt64List:
        return FieldOf(field, found->second.int64_list().value());
      default:
        return DefaultField(field, spec.missing);
    }
  }
};

using Comparison = ProtobufComparison<OFRecordDialect>;

class OFRecordAgainstProtobufTest : public testing::TestWithParam<double> {};

TEST_P(OFRecordAgainstProtobufTest, FieldsAreProtobufs) {
  for (const auto& features : {FixedFeatures(), ConvertedFeatures(), RaggedFeatures()}) {
    Comparison(features).ExpectAgreement(GetParam());
  }
}

TEST_P(OFRecordAgainstProtobufTest, DamagedRecordsAgreeWhereProtobufTakesThem) {
  for (const auto& features : {FixedFeatures(), ConvertedFeatures(), RaggedFeatures()}) {
    Comparison(features).ExpectAgreementOnDamaged(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Oddness, OFRecordAgainstProtobufTest,
                         testing::Values(0.0, 0.02, 0.1, 0.4, 1.0));

TEST(OFRecordTruncationTest, EveryCutIsTakenAsProtobufTakesIt) {
  for (const auto& features : {FixedFeatures(), ConvertedFeatures(), RaggedFeatures()}) {
    Comparison(features).ExpectAgreementOnCuts();
  }
}

}  // namespace
}  // namespace ringfeed
