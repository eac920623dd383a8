#include "base/small_text.h"

#include <gtest/gtest.h>

#include <string>

#include "ringfeed/status.h"

namespace ringfeed {
namespace {

TEST(SmallText, OfAFileWithoutEndIsReadUpToItsLimit) {
  EXPECT_EQ(ReadSmallText("/dev/zero", "thing", 1000), std::string(1001, '\0'));
  EXPECT_EQ(ReadSmallText("/dev/null", "thing", 1000), "");
}

TEST(SmallText, OfWhatCannotBeReadIsAnErrorThatNamesIt) {
  for (const char* const path : {"/", "/there is nothing of this name"}) {
    try {
      (void)ReadSmallText(path, "thing", 1000);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_NE(error.status().message().find(std::string("read the thing ") + path),
                std::string::npos)
          << error.status().message();
    }
  }
}

}  // namespace
}  // namespace ringfeed
