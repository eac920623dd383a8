#include "base/strict_json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <string>

namespace ringfeed {
namespace {

std::string Refused(const std::string& text) {
  try {
    (void)ParseStrictJson(text);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

TEST(StrictJson, NestsOnlySoDeep) {
  for (const std::size_t depth : {1U, 7U}) {
    const std::string open(depth, '[');
    EXPECT_EQ(Refused("{\"a\":" + open + std::string(depth, ']') + "}"), "");
  }
  for (const std::size_t depth : {8U, 100'000U, 1'000'000U}) {
    EXPECT_EQ(Refused("{\"a\":" + std::string(depth, '[')), "it is nested too deeply") << depth;
  }
}

TEST(StrictJson, AKeyIsInAnObjectOnce) {
  EXPECT_EQ(Refused(R"({"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]})"), "");
  EXPECT_EQ(Refused(R"({"a":1,"b":{},"a":1})"), "\"a\" is in it twice");
  EXPECT_EQ(Refused(R"({"b":{"a":1,"c":[{"a":1}],"a":2}})"), "\"a\" is in it twice");
}

TEST(StrictJson, WhatIsNoJsonIsRefused) {
  for (const char* const text : {"", "{", "{} {}", "{\"a\":01}", "{\"a\":NaN}", "{'a':1}"}) {
    EXPECT_NE(Refused(text), "") << text;
  }
}

TEST(StrictJson, ANumberIsTakenAsItIsWritten) {
  const auto json = ParseStrictJson(R"({"most":18446744073709551615,"none":0})");
  EXPECT_EQ(CountAt(json, "most"), ~std::uint64_t{0});
  EXPECT_EQ(CountAt(json, "none"), 0U);
  EXPECT_EQ(CountAtOr(json, "missing", 7), 7U);
  EXPECT_EQ(CountAtOr(json, "none", 7), 0U);
  EXPECT_ANY_THROW(CountAt(json, "missing"));
  EXPECT_ANY_THROW(CountAt(json, "most", 100));
  for (const char* const number : {"-1", "-0", "1.0", "1e2", "1e300", "18446744073709551616",
                                   "true", "null", "\"1\"", "[1]", "{}"}) {
    const auto other = ParseStrictJson(std::string("{\"a\":") + number + "}");
    EXPECT_ANY_THROW(CountAt(other, "a")) << number;
    EXPECT_ANY_THROW(CountAtOr(other, "a", 1)) << number;
  }
}

}  // namespace
}  // namespace ringfeed
