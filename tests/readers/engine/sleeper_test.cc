#include "readers/engine/waiting/sleeper.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ringfeed {
namespace {

TEST(SleeperTest, WhoWakesAThreadInItsEngineInterruptsItAlsoAfterTheEngineThrew) {
  Sleeper sleeper;
  int interrupts = 0;
  const auto wake = [&] { sleeper.Wake([&] { ++interrupts; }); };
  const auto has_no_work = [] { return false; };
  const auto throws = [](bool) { throw std::runtime_error("the engine"); };
  EXPECT_THROW(sleeper.SleepInEngine(has_no_work, throws), std::runtime_error);
  wake();
  EXPECT_EQ(interrupts, 0);
  sleeper.SleepInEngine(has_no_work, [&](bool waits) {
    EXPECT_TRUE(waits);
    wake();
  });
  EXPECT_EQ(interrupts, 1);
  EXPECT_FALSE(sleeper.IsIdle());
  EXPECT_EQ(sleeper.wakes(), 2u);
}

TEST(SleeperTest, WhoHasWorkDoesNotSleep) {
  Sleeper sleeper;
  sleeper.Sleep([] { return true; }, [](auto&&) { FAIL() << "it sleeps"; });
  sleeper.SleepInEngine([] { return true; }, [](bool waits) { EXPECT_FALSE(waits); });
  EXPECT_FALSE(sleeper.IsIdle());
  EXPECT_FALSE(sleeper.IsAsleep());
}

TEST(SleeperTest, ALookIsTakenOnceForEachTimeThatItWasAskedFor) {
  Sleeper sleeper;
  EXPECT_FALSE(sleeper.TakeLook());
  sleeper.AskToLook();
  EXPECT_TRUE(sleeper.TakeLook());
  EXPECT_FALSE(sleeper.TakeLook());
  EXPECT_EQ(sleeper.wakes(), 0u);
}

}  // namespace
}  // namespace ringfeed
