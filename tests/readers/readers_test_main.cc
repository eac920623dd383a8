#include <gtest/gtest.h>

#include "tests/support/watchdog.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  ringfeed::InstallWatchdog(60);
  return RUN_ALL_TESTS();
}
