#include <gtest/gtest.h>

#include "tests/support/restrictions.h"

/// The same tests run without restrictions and in processes to which the environment gives some.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  ringfeed::RestrictByEnvironment();
  return RUN_ALL_TESTS();
}
