#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>

#include "ringfeed/parsers.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

ParsedRows Parse(std::vector<CsvField> fields, const Strings& rows, CsvOptions options = {}) {
  return RowsRunner(CsvParser(std::move(fields), std::move(options))).Run(rows);
}

CsvField Field(const std::string& name, DType dtype, Shape shape = {}, std::int64_t column = -1) {
  CsvField field;
  field.name = name;
  field.dtype = dtype;
  field.shape = std::move(shape);
  field.column = column;
  return field;
}

std::string FailureOf(const ParsedRows& parsed, std::size_t row = 0) {
  const auto found = parsed.failures.find(row);
  if (found == parsed.failures.end()) return "no failure";
  EXPECT_EQ(found->second.code(), StatusCode::kDamaged);
  return found->second.message();
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CsvParserTest, NumbersOfEveryTypeGoToTheirColumns) {
  const ParsedRows parsed =
      Parse({Field("a", kFloat32), Field("b", kFloat64), Field("c", kInt32), Field("d", kInt64),
             Field("e", kUInt8)},
            {"1.5,-2.25e3,-7,9223372036854775807,255", "\" 3 \",+4 ,\t5,-0,\"0\""});
  ASSERT_TRUE(parsed.failures.empty()) << FailureOf(parsed) << FailureOf(parsed, 1);
  EXPECT_EQ(ValueOf<float>(parsed.values[0][0]), 1.5F);
  EXPECT_EQ(ValueOf<double>(parsed.values[1][0]), -2250.0);
  EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[2][0]), -7);
  EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[3][0]), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parsed.values[4][0], "\xff");
  EXPECT_EQ(ValueOf<float>(parsed.values[0][1]), 3.0F);
  EXPECT_EQ(ValueOf<double>(parsed.values[1][1]), 4.0);
  EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[2][1]), 5);
}

TEST(CsvParserTest, RandomDoublesComeBackBitForBit) {
  std::mt19937_64 random(3);
  for (const bool with_text : {false, true}) {
    Strings rows;
    std::vector<double> expected;
    for (int row = 0; row < 2000; ++row) {
      std::string line;
      for (int column = 0; column < 3; ++column) {
        double value = 0;
        do {
          const std::uint64_t bits = random();
          std::memcpy(&value, &bits, sizeof(value));
        } while (!std::isfinite(value));
        expected.push_back(value);
        char text[40];
        std::snprintf(text, sizeof(text), "%.17g", value);
        line += (column == 0 ? "" : ",") + std::string(text);
      }
      rows.push_back(with_text ? line + ",t" : line);
    }
    std::vector<CsvField> fields = {Field("a", kFloat64), Field("b", kFloat64, {2})};
    if (with_text) fields.push_back(Field("t", kUInt8, {-1}));
    const ParsedRows parsed = Parse(fields, rows);
    ASSERT_TRUE(parsed.failures.empty());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      ASSERT_EQ(ValueOf<double>(parsed.values[0][row]), expected[3 * row]);
      ASSERT_EQ(ValueOf<double>(parsed.values[1][row], 0), expected[3 * row + 1]);
      ASSERT_EQ(ValueOf<double>(parsed.values[1][row], 1), expected[3 * row + 2]);
    }
  }
}

TEST(CsvParserTest, ColumnsAreFoundByNumberAndByName) {
  CsvOptions options;
  options.header = "\"the \"\"id\"\"\",x,note,y";
  const ParsedRows named =
      Parse({Field("y", kInt32), Field("the \"id\"", kInt32), Field("note", kUInt8, {-1})},
            {"1,skipped,\"a,\"\"b\"\"\n\",4"}, options);
  ASSERT_TRUE(named.failures.empty()) << FailureOf(named);
  EXPECT_EQ(ValueOf<std::int32_t>(named.values[0][0]), 4);
  EXPECT_EQ(ValueOf<std::int32_t>(named.values[1][0]), 1);
  EXPECT_EQ(named.values[2][0], "a,\"b\"\n");
  const ParsedRows numbered =
      Parse({Field("b", kInt32, {}, 2), Field("a", kInt32, {}, 0)}, {"1,\"x,y\",3"});
  ASSERT_TRUE(numbered.failures.empty()) << FailureOf(numbered);
  EXPECT_EQ(ValueOf<std::int32_t>(numbered.values[0][0]), 3);
}

TEST(CsvParserTest, WrongNumberOfColumnsIsDamage) {
  const std::vector<CsvField> two = {Field("a", kFloat64), Field("b", kFloat64)};
  const ParsedRows parsed = Parse(two, {"1", "1,2", "9.1,18.031.01,2.02", "1,2,3", "", "1,2,"});
  EXPECT_TRUE(Has(FailureOf(parsed, 0), "1 columns where 2"));
  EXPECT_EQ(parsed.failures.count(1), 0U);
  EXPECT_TRUE(Has(FailureOf(parsed, 2),
                  "column 1 (b): \"18.031.01\" is no float64, in the row \"9.1,18.031.01,2.02\""));
  EXPECT_TRUE(Has(FailureOf(parsed, 3), "3 columns where 2"));
  EXPECT_TRUE(Has(FailureOf(parsed, 4), "column 0 (a)"));
  EXPECT_TRUE(Has(FailureOf(parsed, 5), "3 columns"));
  EXPECT_EQ(parsed.values[0][3], std::string(8, '\0'));
  CsvOptions any;
  any.columns = CsvOptions::kAnyColumns;
  EXPECT_TRUE(Parse(two, {"1,2", "1,2,\"open", "1,2,3,4"}, any).failures.empty());
  EXPECT_TRUE(Has(FailureOf(Parse(two, {"1"}, any)), "at least 2"));
  CsvOptions four;
  four.columns = 4;
  EXPECT_TRUE(Parse(two, {"1,2,x,y"}, four).failures.empty());
  EXPECT_EQ(Parse(two, {"1,2,x"}, four).failures.size(), 1U);
}

std::string HintOf(const std::vector<CsvField>& fields, const std::string& row,
                   const std::string& before = {}, const CsvOptions& options = {}) {
  const RecordSpan record{reinterpret_cast<const std::byte*>(row.data()), row.size()};
  return CsvParser(fields, options)->HintOfFirst(record, std::as_bytes(std::span(before)));
}

TEST(CsvParserTest, AFirstRowOfNamesLooksLikeAHeader) {
  const std::vector<CsvField> fields = {Field("a", kFloat64), Field("t", kUInt8, {-1}),
                                        Field("b", kInt64)};
  for (const char* const row : {"a,t,b", "\"a,1\",7,_b", " \xc3\xbc,t, b", "a,t", "a,t,b,c"}) {
    EXPECT_TRUE(Has(HintOf(fields, row), "line 1 looks like a header")) << row;
    EXPECT_FALSE(HintOf(fields, row, "\xef\xbb\xbf\r\n").empty()) << row;
    EXPECT_EQ(HintOf(fields, row, "x\n"), "") << "behind a row that was passed over: " << row;
  }
  for (const char* const row : {"1,t,b", "a,t,2", "nan,t,b", "-a,t,b", ",t,b", "a,t,", ""}) {
    EXPECT_EQ(HintOf(fields, row), "") << row;
  }
  EXPECT_EQ(HintOf({Field("t", kUInt8, {-1})}, "t"), "") << "no number was wanted";
  EXPECT_EQ(HintOf(fields, "a,t," + std::string(1 << 20, 'b')), "") << "no line of names";
  CsvOptions blanks;
  blanks.delimiter = ' ';
  EXPECT_FALSE(HintOf(fields, "a \t t  b", "", blanks).empty());
}

TEST(CsvParserTest, BadNumbersAreNamed) {
  const Strings bad = {"abc",     "1x", "1 2",  "--1", "+-1",       "+",
                       "-",       ".",  "0x10", "1e",  "\"1\"\"\"", std::string("1\0", 2),
                       "\xc3\xbc"};
  for (const DType dtype : {kFloat64, kFloat32, kInt64, kInt32, kUInt8}) {
    for (const std::string& text : bad) {
      EXPECT_TRUE(Has(FailureOf(Parse({Field("n", dtype)}, {text})), "column 0 (n)")) << text;
    }
  }
  EXPECT_TRUE(Has(FailureOf(Parse({Field("n", kUInt8)}, {"256"})), "\"256\" is no uint8"));
  EXPECT_EQ(Parse({Field("n", kInt32)}, {"2147483648", "-2147483649", "1.0"}).failures.size(), 3U);
  EXPECT_EQ(Parse({Field("n", kInt64)}, {"9223372036854775808"}).failures.size(), 1U);
}

TEST(CsvParserTest, NumbersOfTenThousandDigitsAreRead) {
  const std::string digits(10000, '7');
  const ParsedRows parsed = Parse({Field("n", kFloat64)}, {"0." + digits, digits, "1e-9999"});
  ASSERT_TRUE(parsed.failures.empty()) << FailureOf(parsed);
  EXPECT_EQ(ValueOf<double>(parsed.values[0][0]), 7.0 / 9.0);
  EXPECT_TRUE(std::isinf(ValueOf<double>(parsed.values[0][1])));
  EXPECT_EQ(ValueOf<double>(parsed.values[0][2]), 0.0);
  EXPECT_EQ(Parse({Field("n", kInt64)}, {digits}).failures.size(), 1U);
}

TEST(CsvParserTest, EmptyCellsGetTheDefaultOrAreDamage) {
  CsvField number = Field("n", kFloat32, {2});
  CsvField text = Field("t", kUInt8, {-1});
  EXPECT_TRUE(Has(FailureOf(Parse({number, text}, {"1,,x"})), "column 1 (n): it is empty"));
  EXPECT_EQ(Parse({number, text}, {"1,2,"}).values[1][0], "");
  number.missing = -1.5;
  text.missing = "none";
  const ParsedRows parsed = Parse({number, text}, {",2,", "\"\", ,\"\""});
  ASSERT_TRUE(parsed.failures.empty()) << FailureOf(parsed) << FailureOf(parsed, 1);
  EXPECT_EQ(ValueOf<float>(parsed.values[0][0], 0), -1.5F);
  EXPECT_EQ(ValueOf<float>(parsed.values[0][0], 1), 2.0F);
  EXPECT_EQ(ValueOf<float>(parsed.values[0][1], 1), -1.5F);
  EXPECT_EQ(parsed.values[1][0], "none");
  EXPECT_EQ(parsed.values[1][1], "");
}

// As pandas.read_csv takes them: true and false in any case.
TEST(CsvParserTest, TruthValuesAreWordsOrDigits) {
  const Strings rows = {"true,False,x", "FALSE,TRUE,x", "1,0,x", "\"True\", fALSE ,x"};
  for (const DType dtype : {kBool, kUInt8}) {
    const ParsedRows parsed =
        Parse({Field("p", dtype), Field("q", dtype), Field("t", kUInt8, {-1})}, rows);
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
    EXPECT_EQ(parsed.values[0], (Strings{"\x01", {'\0'}, "\x01", "\x01"}));
    EXPECT_EQ(parsed.values[1], (Strings{{'\0'}, "\x01", {'\0'}, {'\0'}}));
    for (const std::string bad : {"yes", "t", "truex", "true1", "tru", "-1", "0.0", "", "NA"}) {
      EXPECT_TRUE(Has(FailureOf(Parse({Field("p", dtype)}, {bad})), "column 0 (p)")) << bad;
    }
  }
  EXPECT_NE(FailureOf(Parse({Field("p", kBool)}, {"2"})), "no failure");
  EXPECT_NE(FailureOf(Parse({Field("p", kBool)}, {"10"})), "no failure");
  EXPECT_NE(FailureOf(Parse({Field("p", kInt32)}, {"true"})), "no failure");
  const ParsedRows alone = Parse({Field("p", kBool, {2})}, {"true,0", "false,1"});
  EXPECT_EQ(alone.values[0][0] + alone.values[0][1], std::string("\1\0\0\1", 4));
  CsvField with = Field("p", kBool);
  with.missing = std::int64_t{1};
  EXPECT_EQ(Parse({with}, {"NA"}).values[0][0], "\x01");
}

// The default na_values of pandas.read_csv.
TEST(CsvParserTest, TokensOfMissingValuesAreNaNOrTheDefaultOrDamage) {
  for (const std::string token :
       {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
        "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}) {
    for (const std::string& cell : {token, " " + token + "\t", "\"" + token + "\""}) {
      const ParsedRows real =
          Parse({Field("x", kFloat64), Field("y", kFloat32)}, {"1," + cell, cell + ",2"});
      ASSERT_TRUE(real.failures.empty()) << cell << FailureOf(real) << FailureOf(real, 1);
      EXPECT_TRUE(std::isnan(ValueOf<float>(real.values[1][0]))) << cell;
      EXPECT_TRUE(std::isnan(ValueOf<double>(real.values[0][1]))) << cell;
      EXPECT_TRUE(Has(FailureOf(Parse({Field("i", kInt64)}, {cell})), "is no int64")) << cell;
      CsvField number = Field("i", kInt64);
      number.missing = std::int64_t{-1};
      EXPECT_EQ(ValueOf<std::int64_t>(Parse({number}, {cell}).values[0][0]), -1) << cell;
    }
    EXPECT_EQ(Parse({Field("t", kUInt8, {-1})}, {token}).values[0][0], token) << "text stays";
  }
  for (const std::string other : {"na", "Na", "NAN0", "nil", "none", "Null", "-"}) {
    CsvField number = Field("i", kInt64);
    number.missing = std::int64_t{-1};
    EXPECT_NE(FailureOf(Parse({number}, {other})), "no failure") << other;
  }
  CsvField real = Field("x", kFloat32);
  real.missing = 2.5;
  const ParsedRows parsed = Parse({real}, {"NA", "", "nan", " nan"});
  EXPECT_EQ(ValueOf<float>(parsed.values[0][0]), 2.5F);
  EXPECT_EQ(ValueOf<float>(parsed.values[0][1]), 2.5F);
  EXPECT_TRUE(std::isnan(ValueOf<float>(parsed.values[0][2]))) << "a number, as the file says";
  EXPECT_TRUE(std::isnan(ValueOf<float>(parsed.values[0][3])));
}

TEST(CsvParserTest, RunsOfBlanksAreOneDelimiter) {
  CsvOptions options;
  options.delimiter = ' ';
  const ParsedRows parsed = Parse({Field("a", kFloat64), Field("t", kUInt8, {-1})},
                                  {"1 x", "  2 \t  \"y z\"  ", "3\tw\t", "4", "5 x y"}, options);
  EXPECT_EQ(parsed.failures.size(), 2U);
  EXPECT_EQ(parsed.values[1][0], "x");
  EXPECT_EQ(ValueOf<double>(parsed.values[0][1]), 2.0);
  EXPECT_EQ(parsed.values[1][1], "y z");
  EXPECT_EQ(parsed.values[1][2], "w");
}

TEST(CsvParserTest, QuotesThatAreMalformedAreDamage) {
  const CsvField text = Field("t", kUInt8, {-1});
  EXPECT_TRUE(Has(FailureOf(Parse({text}, {"\"open"})), "not closed"));
  EXPECT_TRUE(Has(FailureOf(Parse({text}, {"\"a\"b"})), "follows a closing quote"));
  EXPECT_EQ(Parse({text}, {"a\"b\""}).values[0][0], "a\"b\"");
  CsvOptions options;
  options.quotes = false;
  EXPECT_EQ(Parse({text}, {"\"open"}, options).values[0][0], "\"open");
}

TEST(CsvParserTest, AnyBytesPassAsText) {
  const std::string bytes("\0\xff\x80\r z", 6);
  EXPECT_EQ(Parse({Field("t", kUInt8, {-1})}, {bytes}).values[0][0], bytes);
}

TEST(CsvParserTest, ManyColumnsAndManyRowsKeepTheirPlaces) {
  for (const std::int64_t columns : {40, 3000}) {
    Strings rows;
    for (int row = 0; row < 300; ++row) {
      std::string line;
      for (std::int64_t c = 0; c < columns; ++c) line += (c == 0 ? "" : ",") + std::to_string(row);
      rows.push_back(line);
    }
    const ParsedRows parsed = Parse({Field("a", kInt32), Field("b", kInt64, {columns - 1})}, rows);
    ASSERT_TRUE(parsed.failures.empty());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      ASSERT_EQ(ValueOf<std::int32_t>(parsed.values[0][row]), static_cast<int>(row));
      const auto last = static_cast<std::size_t>(columns) - 2;
      ASSERT_EQ(ValueOf<std::int64_t>(parsed.values[1][row], last), static_cast<int>(row));
    }
  }
}

TEST(CsvParserTest, WhatCannotBeAFieldIsRefused) {
  EXPECT_THROW(CsvParser({}), Error);
  EXPECT_THROW(CsvParser({Field("a", kInt32), Field("a", kInt32)}), Error);
  EXPECT_THROW(CsvParser({Field("a", kInt32, {}, 1), Field("b", kInt32, {}, 1)}), Error);
  EXPECT_THROW(CsvParser({Field("a", kFloat32, {-1})}), Error);
  EXPECT_THROW(CsvParser({Field("a", kUInt8, {-1, -1})}), Error);
  EXPECT_THROW(CsvParser({Field("a", kInt16)}), Error);
  EXPECT_THROW(CsvParser({Field("a", kInt32, {}, std::int64_t{1} << 40)}), Error);
  EXPECT_THROW(CsvParser({Field("a", kInt32, {1 << 21})}), Error);
  CsvOptions options;
  options.columns = 2;
  EXPECT_THROW(CsvParser({Field("a", kInt32, {}, 2)}, options), Error);
  options.delimiter = '.';
  EXPECT_THROW(CsvParser({Field("a", kInt32)}, options), Error);
}

std::string RefusalOf(const std::string& header, const std::string& name) {
  CsvOptions options;
  options.header = header;
  try {
    (void)CsvParser({Field(name, kInt32)}, options);
  } catch (const Error& error) {
    return error.status().message();
  }
  return "";
}

TEST(CsvParserTest, ANameThatStandsTwiceInTheHeaderIsRefused) {
  EXPECT_TRUE(Has(RefusalOf("id,x,id", "id"), "two columns of the header are \"id\", 0 and 2"));
  EXPECT_EQ(RefusalOf("id,x,id", "x"), "");
}

TEST(CsvParserTest, AHeaderThatIsNoUtf8SaysSoIfAColumnIsMissing) {
  EXPECT_EQ(RefusalOf("id,gr\xf6\xdf"
                      "e",
                      "id"),
            "");
  EXPECT_TRUE(Has(RefusalOf("id,gr\xf6\xdf"
                            "e",
                            "gr\xc3\xb6\xc3\x9f"
                            "e"),
                  "no UTF-8"));
  EXPECT_FALSE(Has(RefusalOf("id,gr\xc3\xb6\xc3\x9f"
                             "e",
                             "x"),
                   "no UTF-8"));
}

}  // namespace
}  // namespace ringfeed
