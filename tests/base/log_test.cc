#include "base/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace ringfeed {
namespace {

using Texts = std::vector<std::string>;

Texts taken;

void Take(LogLevel level, const std::string& text) noexcept {
  taken.push_back((level == LogLevel::kWarn ? "warn " : "info ") + text);
}

/// Each test is a process of its own for ctest, yet may share one with others: kinds are its own.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    taken.clear();
    SetLog(Take);
    unsetenv("RINGFEED_LOG");
  }
  ~LogTest() override { SetLog(nullptr); }
  static void Allow(const char* level) { setenv("RINGFEED_LOG", level, 1); }
};

TEST_F(LogTest, AKindIsToldOnceInAProcess) {
  Tell(LogLevel::kWarn, "once", "of a");
  Tell(LogLevel::kWarn, "once", "of b");
  Tell(LogLevel::kWarn, "once more", "of c");
  EXPECT_EQ(taken, (Texts{"warn of a", "warn of c"}));
  const pid_t child = fork();
  if (child == 0) {
    Tell(LogLevel::kWarn, "once", "in the child");
    _exit(taken.size() == 3 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(LogTest, TheVariableSaysHowMuch) {
  Tell(LogLevel::kInfo, "by default", "x");
  Allow("off");
  Tell(LogLevel::kWarn, "off", "x");
  Allow("warn");
  Tell(LogLevel::kInfo, "warn", "x");
  EXPECT_EQ(taken, Texts());
  Allow("info");
  Tell(LogLevel::kInfo, "by default", "not told before");
  Tell(LogLevel::kWarn, "off", "nor this");
  EXPECT_EQ(taken, (Texts{"info not told before", "warn nor this"}));
}

TEST_F(LogTest, WithoutAFunctionItIsALineOnStderr) {
  SetLog(nullptr);
  testing::internal::CaptureStderr();
  Tell(LogLevel::kWarn, "a line", "this costs time");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "ringfeed: this costs time\n");
}

}  // namespace
}  // namespace ringfeed
