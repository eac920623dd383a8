#include "base/byte_size.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace ringfeed {
namespace {

TEST(ByteSize, TakesEveryUnitInAnyCase) {
  EXPECT_EQ(ParseByteSize("0"), 0U);
  EXPECT_EQ(ParseByteSize("4096"), 4096U);
  EXPECT_EQ(ParseByteSize("010"), 10U);
  EXPECT_EQ(ParseByteSize("7b"), 7U);
  std::size_t factor = 1;
  for (const std::string letter : {"K", "M", "G", "T", "P", "E"}) {
    factor *= 1024;
    for (const std::string rest : {"", "B", "b", "iB", "IB"}) {
      EXPECT_EQ(ParseByteSize("3" + letter + rest), 3 * factor);
      EXPECT_EQ(ParseByteSize("3 " + letter + rest), 3 * factor);
    }
  }
  EXPECT_EQ(ParseByteSize("24mib"), std::size_t{24} << 20);
  EXPECT_EQ(ParseByteSize("18446744073709551615"), ~std::size_t{0});
}

TEST(ByteSize, RefusesWhatItWouldChange) {
  for (const char* const text :
       {"", " ", "-1", "+1", " 1", "1 ", "1.5G", "1e3", "0x10", "K", "1Ki", "1KiBs", "1 k b",
        "1  K", "many", "16E", "18446744073709551616", "17179869184G", "99999999999999999999999"}) {
    EXPECT_EQ(ParseByteSize(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ringfeed
