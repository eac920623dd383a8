#include "base/refuse.h"

#include <gtest/gtest.h>

namespace ringfeed {
namespace {

template <typename Function>
Status ThrownBy(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

TEST(Refuse, ThrowsTheMessageAsItIs) {
  const Status status = ThrownBy([] { Refuse("rank 2 of 2 ranks: the first is 0"); });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "rank 2 of 2 ranks: the first is 0");
  EXPECT_EQ(status.ToString(), "invalid_argument: rank 2 of 2 ranks: the first is 0");
}

TEST(Refuse, ThrowsTheCodeThatIsGiven) {
  const Status status = ThrownBy([] { Refuse(StatusCode::kNotFound, "no such reader"); });
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no such reader");
}

}  // namespace
}  // namespace ringfeed
