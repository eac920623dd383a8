#include "base/machine/processor_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace ringfeed {
namespace {

/// A thread's file: its state, and what it ran in user and kernel mode.
std::string Stat(char state, int user, int system) {
  return std::string("7 (a) R (b) ") + state + " 1 1 1 0 -1 64 9 0 9 0 " + std::to_string(user) +
         ' ' + std::to_string(system) + " 0 0 20 0 3 0 1000";
}

ProcessorTurns Of(const std::string& stat) {
  ProcessorTurns turns;
  turns.Add(7, stat);
  return turns;
}

TEST(ProcessorTurnsTest, WhoWaitsOrIsStoppedIsPassedOver) {
  for (const char state : {'R', 'D', 't', 'T'}) {
    const ProcessorTurns before = Of(Stat(state, 5, 3));
    EXPECT_TRUE(before.SomeonePassedOverUntil(Of(Stat('R', 5, 3)))) << state;
    EXPECT_FALSE(before.SomeonePassedOverUntil(Of(Stat('R', 6, 3)))) << state;
    EXPECT_FALSE(before.SomeonePassedOverUntil(Of(Stat('R', 5, 4)))) << state;
  }
}

TEST(ProcessorTurnsTest, WhoSleepsIsNot) {
  for (const char state : {'S', 'I', 'Z', 'X'}) {
    EXPECT_FALSE(Of(Stat(state, 5, 3)).SomeonePassedOverUntil(Of(Stat('R', 5, 3)))) << state;
    EXPECT_FALSE(Of(Stat('R', 5, 3)).SomeonePassedOverUntil(Of(Stat(state, 5, 3)))) << state;
  }
}

TEST(ProcessorTurnsTest, WhatCannotBeUnderstoodIsLeftOut) {
  const std::string whole = Stat('R', 5, 3);
  for (const std::string& stat :
       {std::string(), std::string("7 (a) "), std::string("7 a R 1 1"), whole.substr(0, 30),
        std::string("7 (a) R 1 1 1 1 1 1 1 1 1 1 x y z")}) {
    EXPECT_FALSE(Of(stat).SomeonePassedOverUntil(Of(stat))) << stat;
  }
}

TEST(ProcessorTurnsTest, AThreadThatRunsIsNotPassedOverAndTheCallerDoesNotCount) {
  std::atomic<bool> stop = false;
  std::thread runs([&] {
    while (!stop) {
    }
  });
  // Until the machine had time for it: another process may have the processors.
  bool passed_over = true;
  for (int tries = 0; passed_over && tries < 100; ++tries) {
    const ProcessorTurns before = ProcessorTurns::Now();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    passed_over = before.SomeonePassedOverUntil(ProcessorTurns::Now());
  }
  stop = true;
  runs.join();
  EXPECT_FALSE(passed_over);
}

}  // namespace
}  // namespace ringfeed
