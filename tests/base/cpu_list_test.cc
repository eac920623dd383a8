#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/machine/numa.h"

namespace ringfeed {
namespace {

TEST(CpuListTest, RangesAndNumbersAreRead) {
  EXPECT_EQ(ParseCpuList("0-3,8"), (CpuList{0, 1, 2, 3, 8}));
  EXPECT_EQ(ParseCpuList("7\n"), (CpuList{7}));
  EXPECT_EQ(ParseCpuList("5-5"), (CpuList{5}));
  EXPECT_EQ(ParseCpuList(""), CpuList());
  EXPECT_EQ(ParseCpuList(" \n"), CpuList());
}

TEST(CpuListTest, NumbersAscendAndComeOnce) {
  EXPECT_EQ(ParseCpuList("8,0-2,1-3"), (CpuList{0, 1, 2, 3, 8}));
}

TEST(CpuListTest, WhatIsWrittenOtherwiseIsNoList) {
  for (const std::string text : {"a", "1,", ",1", "1,,2", "3-1", "1-", "-1", "1-2-3", "1 2", "0x1",
                                 "99999999999", "0-4000000000", "65536"}) {
    EXPECT_EQ(ParseCpuList(text), std::nullopt) << text;
  }
}

TEST(CpuListTest, IsWrittenAsItIsRead) {
  for (const std::string text : {"", "0", "0-3", "0-3,8", "1,3,5-7", "0-1,4-5,65535"}) {
    EXPECT_EQ(CpuListToString(*ParseCpuList(text)), text);
  }
}

}  // namespace
}  // namespace ringfeed
