#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "readers/parsers/element_value.h"
#include "readers/parsers/wrappers/wrappers.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/odd_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;
using ParserPtr = std::shared_ptr<const Parser>;

/// A parser, one of its ragged fields, and records for it, of rows of many lengths.
struct Case {
  std::string name;
  ParserPtr parser;
  std::string field;
  Strings records;
};

ParserPtr Examples() {
  return ExampleParser({{"id", kInt64, {}, 0},
                        {"x", kFloat32, {-1}, ""},
                        {"ids", kInt64, {-1}, ""},
                        {"pairs", kInt32, {-1, 2}, ""}});
}

ParserPtr Doubled(const ParserPtr& bytes) {
  const MapFunction twice = [](const MapInput& input, RowWriter& output) {
    const std::span<const std::byte> own = input.record.bytes();
    std::vector<std::byte> values(own.begin(), own.end());
    values.insert(values.end(), own.begin(), own.end());
    output.Ragged(0, values);
    output.Fixed(1)[0] = static_cast<std::byte>(own.size());
  };
  return MakeMapParser(bytes, {{"twice", kUInt8, {-1}}, {"size", kUInt8, {}}}, twice);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  cases.push_back({"raw", RawParser(), "bytes", RandomUnits(1, 60)});
  const TokensSpec tokens{.dtype = kUInt16, .as = kInt64};
  cases.push_back({"converted", TokensParser(tokens), "tokens", RandomUnits(2, 60)});
  const TokensSpec points{.dtype = kFloat32, .shape = {-1, 3}};
  cases.push_back({"points", TokensParser(points), "tokens", RandomUnits(12, 60)});
  cases.push_back({"map", Doubled(RawParser()), "twice", RandomUnits(1, 60)});
  for (const double oddness : {0.0, 0.4}) {
    for (const char* field : {"x", "ids", "pairs"}) {
      cases.push_back(
          {"example " + std::to_string(oddness), Examples(), field, OddExamples(oddness, 120)});
    }
    cases.push_back({"sequence " + std::to_string(oddness),
                     SequenceExampleParser({}, {{"steps", kInt64, {-1}, ""}}), "steps",
                     OddExamples(oddness, 120)});
  }
  Strings lines;
  for (std::size_t i = 0; i < 30; ++i) {
    std::string numbers;
    for (std::size_t n = 0; n < i % 9; ++n) numbers += (n > 0 ? "," : "") + std::to_string(n * i);
    lines.push_back("{\"v\": [" + numbers + "], \"text\": \"" + std::string(i % 5, 'x') + "\"}");
  }
  const ParserPtr json = JsonLinesParser({{"text", kUInt8, {-1}}, {"v", kFloat64, {-1}}});
  cases.push_back({"json", json, "v", lines});
  return cases;
}

std::size_t NumberOf(const ParserPtr& parser, const std::string& field) {
  std::size_t number = 0;
  while (parser->fields()[number].name != field) ++number;
  return number;
}

/// Rows of `field` changed as `change` says, all else as it was, in the columns that both have.
template <typename Change>
void ExpectChanged(const Case& a_case, const ParserPtr& parser, Change change) {
  const ParsedRows plain = RowsRunner(a_case.parser).Run(a_case.records);
  const ParsedRows found = RowsRunner(parser).Run(a_case.records);
  ASSERT_LT(plain.failures.size(), a_case.records.size() / 2) << a_case.name;
  const std::size_t field = NumberOf(a_case.parser, a_case.field);
  for (std::size_t row = 0; row < a_case.records.size(); ++row) {
    ASSERT_EQ(plain.failures.count(row), found.failures.count(row)) << a_case.name << row;
    if (plain.failures.count(row) != 0) continue;
    for (std::size_t f = 0; f < plain.values.size(); ++f) {
      std::string wanted = plain.values[f][row];
      if (f == field) change(&wanted);
      ASSERT_EQ(found.values[f][row], wanted) << a_case.name << " field " << f << " row " << row;
    }
  }
}

TEST(RaggedRowsTest, TruncatedRowsAreTheBeginningsOfRows) {
  for (const Case& each : Cases()) {
    const std::size_t field = NumberOf(each.parser, each.field);
    const std::size_t unit = each.parser->fields()[field].unit_bytes();
    for (const std::uint32_t length : {1u, 2u, 5u, 100u}) {
      const ParserPtr cut = MakeTruncateParser(each.parser, each.field, length);
      ExpectChanged(each, cut, [&](std::string* row) {
        if (row->size() > length * unit) row->resize(length * unit);
      });
      const ParserPtr twice = MakeTruncateParser(cut, each.field, 3);
      ExpectChanged(each, twice, [&](std::string* row) {
        const std::size_t most = std::min(length, 3u) * unit;
        if (row->size() > most) row->resize(most);
      });
    }
  }
}

std::string Filling(const FieldSpec& field, double value, std::size_t bytes) {
  std::string filling(bytes, '\0');
  ElementValue element;
  EXPECT_TRUE(ElementValue::Make(value, field.dtype, &element));
  element.Fill(reinterpret_cast<std::byte*>(filling.data()), bytes);
  return filling;
}

TEST(RaggedRowsTest, PaddedRowsAreFilledBehindTheirOwnUnits) {
  for (const Case& each : Cases()) {
    const std::size_t field = NumberOf(each.parser, each.field);
    const FieldSpec& spec = each.parser->fields()[field];
    const std::size_t unit = spec.unit_bytes();
    for (const std::size_t multiple : {1u, 3u, 64u}) {
      const ParserPtr padded =
          MakePadParser(each.parser, each.field, {.multiple = multiple, .value = 7});
      EXPECT_TRUE(padded->fields()[field].ragged());
      const auto fill = [&](std::string* row) {
        const std::size_t units = row->size() / unit;
        const std::size_t missing = (multiple - units % multiple) % multiple;
        *row += Filling(spec, 7, missing * unit);
      };
      ExpectChanged(each, padded, fill);
      // Cut again, which Pad cannot do by locations alone.
      ExpectChanged(each, MakeTruncateParser(padded, each.field, 4), [&](std::string* row) {
        fill(row);
        if (row->size() > 4 * unit) row->resize(4 * unit);
      });
    }
    const ParserPtr cut = MakeTruncateParser(each.parser, each.field, 6);
    const ParserPtr fixed = MakePadParser(cut, each.field, {.length = 6, .value = 7});
    EXPECT_EQ(fixed->fields()[field].shape[0], 6);
    ExpectChanged(each, fixed, [&](std::string* row) {
      row->resize(std::min(row->size(), 6 * unit));
      *row += Filling(spec, 7, 6 * unit - row->size());
    });
    const ParsedRows lengths = RowsRunner(fixed).Run(each.records);
    const ParsedRows cuts = RowsRunner(cut).Run(each.records);
    EXPECT_EQ(fixed->fields().back().name, each.field + "_length");
    for (std::size_t row = 0; row < each.records.size(); ++row) {
      if (lengths.failures.count(row) != 0) continue;
      ASSERT_EQ(ValueOf<std::int64_t>(lengths.values.back()[row]),
                static_cast<std::int64_t>(cuts.values[field][row].size() / unit));
    }
  }
}

TEST(RaggedRowsTest, ARowThatIsLongerThanPadMakesRowsIsDamaged) {
  const ParserPtr padded = MakePadParser(RawParser(), "bytes", {.length = 3});
  const ParsedRows found = RowsRunner(padded).Run({"ab", "abcd", "", "abc"});
  ASSERT_EQ(found.failures.size(), 1u);
  EXPECT_EQ(found.failures.at(1).code(), StatusCode::kDamaged);
  EXPECT_NE(found.failures.at(1).message().find("Truncate"), std::string::npos);
  EXPECT_EQ(found.values[0][0], std::string("ab\0", 3));
  EXPECT_EQ(found.values[0][3], "abc");
}

TEST(RaggedRowsTest, FailuresOfTheParserAndOfPadComeInTheOrderOfRows) {
  const auto tokens = TokensParser({.dtype = kUInt16});
  const ParserPtr padded = MakePadParser(tokens, "tokens", {.length = 2});
  const std::vector<std::string> records = {"ab", "abcdef", "a", "abcd", "abc", "abcdef"};
  std::vector<RecordSpan> rows;
  for (const std::string& each : records) {
    rows.push_back({reinterpret_cast<const std::byte*>(each.data()), each.size()});
  }
  std::vector<FieldLocation> locations(rows.size() * 2);
  std::vector<RowFailure> failures;
  padded->Locate(rows, locations.data(), padded->NewScratch().get(), &failures);
  std::vector<std::size_t> failed;
  for (const RowFailure& failure : failures) failed.push_back(failure.row);
  EXPECT_EQ(failed, (std::vector<std::size_t>{1, 2, 4, 5}));
}

TEST(RaggedRowsTest, FieldsThatCannotBeCutOrFilledAreRefused) {
  const ParserPtr rows = RowsParser({{"a", kInt32, {4}}});
  EXPECT_THROW(MakeTruncateParser(rows, "a", 3), Error);
  EXPECT_THROW(MakeTruncateParser(RawParser(), "byte", 3), Error);
  EXPECT_THROW(MakePadParser(RawParser(), "bytes", {.length = 3, .value = 256}), Error);
  EXPECT_THROW(MakePadParser(RawParser(), "bytes", {.length = 3, .value = 0.5}), Error);
  const ParserPtr taken = MakeMapParser(nullptr, {{"v", kUInt8, {-1}}, {"v_length", kUInt8, {}}},
                                        [](const MapInput&, RowWriter&) {});
  EXPECT_THROW(MakePadParser(taken, "v", {.length = 3}), Error);
}

TEST(ElementValueTest, ATypeTakesWhatItHoldsExactly) {
  const auto fits = [](double value, DType dtype) {
    ElementValue made;
    return ElementValue::Make(value, dtype, &made);
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(fits(-100, kInt64) && fits(-128, kInt8) && fits(65535, kUInt16) && fits(1, kBool));
  EXPECT_TRUE(fits(-std::ldexp(1, 63), kInt64) && fits(std::ldexp(1, 63), kUInt64));
  EXPECT_FALSE(fits(std::ldexp(1, 63), kInt64) || fits(std::ldexp(1, 64), kUInt64));
  EXPECT_FALSE(fits(-129, kInt8) || fits(-1, kUInt32) || fits(2, kBool) || fits(kNaN, kInt32));
  EXPECT_FALSE(fits(0.1, kFloat32) || fits(1e300, kFloat32) || fits(kInfinity, kInt64));
  EXPECT_TRUE(fits(-kInfinity, kFloat16) && fits(kNaN, kBFloat16) && fits(0.1, kFloat64));
  EXPECT_TRUE(fits(65504, kFloat16) && fits(std::ldexp(1, -24), kFloat16));
  EXPECT_FALSE(fits(65520, kFloat16) || fits(std::ldexp(1, -25), kFloat16) || fits(2049, kFloat16));
  EXPECT_TRUE(fits(std::ldexp(1, 127), kBFloat16) && fits(-384, kBFloat16));
  EXPECT_FALSE(fits(257, kBFloat16));
  EXPECT_EQ(Filling({"", kFloat16, {}}, -2.5, 4), Packed<std::uint16_t>({0xc100, 0xc100}));
  EXPECT_EQ(Filling({"", kFloat16, {}}, std::ldexp(3, -24), 2), Packed<std::uint16_t>({3}));
  EXPECT_EQ(Filling({"", kBFloat16, {}}, 1, 2), Packed<std::uint16_t>({0x3f80}));
  EXPECT_EQ(Filling({"", kInt32, {}}, -100, 8), Packed<std::int32_t>({-100, -100}));
  EXPECT_EQ(Filling({"", kFloat64, {}}, 0.1, 8), Packed<double>({0.1}));
  EXPECT_EQ(Filling({"", kInt64, {}}, -1, 8), Packed<std::int64_t>({-1}));
}

}  // namespace
}  // namespace ringfeed
