#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "ofrecord.pb.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/odd_ofrecords.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Spec = OFRecordFeatureSpec;
using ofrecord_testdata::FeatureMessage;
using ofrecord_testdata::RecordMessage;

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

struct Wanted {
  std::size_t elements = 1;
  bool ragged = false;
};

Wanted WantedOf(const Spec& spec) {
  Wanted wanted{1, !spec.shape.empty() && spec.shape[0] < 0};
  for (std::size_t i = wanted.ragged ? 1 : 0; i < spec.shape.size(); ++i) {
    wanted.elements *= static_cast<std::size_t>(spec.shape[i]);
  }
  return wanted;
}

// The number's bytes as To; none where To cannot hold it. A long double holds every one exactly.
template <typename To, typename From>
std::optional<std::string> NumberAs(From from) {
  To to{};
  if constexpr (std::is_same_v<To, From> || std::is_floating_point_v<To>) {
    to = static_cast<To>(from);
  } else if constexpr (std::is_same_v<From, signed char>) {
    to = static_cast<To>(from);
  } else {
    const long double whole = std::trunc(static_cast<long double>(from));
    const bool fits = whole >= static_cast<long double>(std::numeric_limits<To>::min()) &&
                      whole <= static_cast<long double>(std::numeric_limits<To>::max());
    if (!fits) return std::nullopt;
    to = static_cast<To>(whole);
  }
  return std::string(reinterpret_cast<const char*>(&to), sizeof(To));
}

template <typename From>
std::optional<std::string> BytesAs(DType dtype, From from) {
  switch (dtype) {
    case kFloat32:
      return NumberAs<float>(from);
    case kFloat64:
      return NumberAs<double>(from);
    case kInt8:
      return NumberAs<signed char>(from);
    case kInt32:
      return NumberAs<std::int32_t>(from);
    case kInt64:
      return NumberAs<std::int64_t>(from);
    default:
      return NumberAs<unsigned char>(from);
  }
}

template <typename Numbers>
std::optional<std::string> Convert(const Spec& spec, const Numbers& numbers) {
  const Wanted wanted = WantedOf(spec);
  auto count = static_cast<std::size_t>(numbers.size());
  const bool right = wanted.ragged ? count % wanted.elements == 0 : count == wanted.elements;
  if (!right && !spec.truncate) return std::nullopt;
  if (spec.truncate) count = std::min(count, wanted.elements);
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = BytesAs(spec.dtype, numbers[static_cast<int>(i)]);
    if (!bytes) return std::nullopt;
    out += *bytes;
  }
  if (spec.truncate) out.resize(wanted.elements * DTypeBytes(spec.dtype), '\0');
  return out;
}

struct RawBytes {
  const std::string* bytes;
  std::size_t size() const { return bytes->size(); }
  signed char operator[](int i) const {
    return static_cast<signed char>((*bytes)[static_cast<std::size_t>(i)]);
  }
};

std::string DefaultOf(const Spec& spec) {
  if (const auto* text = std::get_if<std::string>(&*spec.missing)) return *text;
  const auto* whole = std::get_if<std::int64_t>(&*spec.missing);
  std::string out;
  for (std::size_t i = 0; i < WantedOf(spec).elements; ++i) {
    out += whole != nullptr ? *BytesAs(spec.dtype, *whole)
                            : *BytesAs(spec.dtype, std::get<double>(*spec.missing));
  }
  return out;
}

// The field that Protobuf's parse of the record gives; nothing where the record has to fail.
std::optional<std::string> Expected(const RecordMessage& message, const Spec& spec) {
  const auto found = message.feature().find(spec.name);
  const bool there = found != message.feature().end();
  switch (there ? found->second.kind_case() : FeatureMessage::KIND_NOT_SET) {
    case FeatureMessage::kBytesList:
      if (found->second.bytes_list().value_size() != 1) return std::nullopt;
      return Convert(spec, RawBytes{&found->second.bytes_list().value(0)});
    case FeatureMessage::kFloatList:
      return Convert(spec, found->second.float_list().value());
    case FeatureMessage::kDoubleList:
      return Convert(spec, found->second.double_list().value());
    case FeatureMessage::kInt32List:
      return Convert(spec, found->second.int32_list().value());
    case FeatureMessage::kInt64List:
      return Convert(spec, found->second.int64_list().value());
    default:
      if (!spec.missing) return std::nullopt;
      return DefaultOf(spec);
  }
}

struct Tally {
  int accepted = 0;
  int failed_by_spec = 0;
  int rejected = 0;
};

// Where Protobuf takes a record, the parser must agree on every field, or on its failure.
void Compare(const std::vector<Spec>& features, const std::vector<std::string>& records,
             RowsRunner* runner, Tally* tally) {
  const ParsedRows parsed = runner->Run(records);
  for (std::size_t row = 0; row < records.size(); ++row) {
    RecordMessage message;
    if (!message.ParseFromString(records[row])) {
      ++tally->rejected;
      continue;
    }
    bool fails = false;
    for (const Spec& feature : features) fails |= !Expected(message, feature).has_value();
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

void CompareMany(const std::vector<Spec>& features, double oddness, bool damaged, Tally* tally) {
  OddOFRecords random(static_cast<std::uint64_t>(oddness * 100) + (damaged ? 7 : 0));
  RowsRunner runner(OFRecordParser(features));
  for (int round = 0; round < 400 && !testing::Test::HasFatalFailure(); ++round) {
    std::vector<std::string> records;
    for (int i = 0; i <= round % 40; ++i) {
      records.push_back(random.Make(oddness));
      if (damaged) records.back() = random.Damage(records.back());
    }
    Compare(features, records, &runner, tally);
  }
}

class OFRecordAgainstProtobufTest : public testing::TestWithParam<double> {};

TEST_P(OFRecordAgainstProtobufTest, FieldsAreProtobufs) {
  for (const auto& features : {FixedFeatures(), ConvertedFeatures(), RaggedFeatures()}) {
    Tally tally;
    CompareMany(features, GetParam(), false, &tally);
    // Protobuf refuses some overlong forms that the wire format allows.
    EXPECT_GT(tally.accepted + tally.failed_by_spec, tally.rejected);
    if (GetParam() < 0.1) {
      EXPECT_GT(tally.accepted, 100);
    }
  }
}

TEST_P(OFRecordAgainstProtobufTest, DamagedRecordsAgreeWhereProtobufTakesThem) {
  Tally tally;
  for (const auto& features : {FixedFeatures(), ConvertedFeatures(), RaggedFeatures()}) {
    CompareMany(features, GetParam(), true, &tally);
  }
  EXPECT_GT(tally.rejected, 1000);
  EXPECT_GT(tally.accepted + tally.failed_by_spec, 1000);
}

INSTANTIATE_TEST_SUITE_P(Oddness, OFRecordAgainstProtobufTest,
                         testing::Values(0.0, 0.02, 0.1, 0.4, 1.0));

TEST(OFRecordTruncationTest, EveryCutIsTakenAsProtobufTakesIt) {
  OddOFRecords random(5);
  for (const double oddness : {0.0, 0.5}) {
    const std::string whole = random.Make(oddness);
    std::vector<std::string> records;
    for (std::size_t size = 0; size <= whole.size(); ++size) {
      records.push_back(whole.substr(0, size));
    }
    for (const auto& features : {FixedFeatures(), ConvertedFeatures(), RaggedFeatures()}) {
      Tally tally;
      RowsRunner runner(OFRecordParser(features));
      Compare(features, records, &runner, &tally);
    }
  }
}

}  // namespace
}  // namespace ringfeed
