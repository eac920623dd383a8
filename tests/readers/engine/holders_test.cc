#include "readers/engine/waiting/holders.h"

#include <gtest/gtest.h>

#include <thread>

namespace ringfeed {
namespace {

class EngineHoldersTest : public ::testing::Test {
 protected:
  static std::thread::id IdOfAnother() {
    std::jthread thread([] {});
    return thread.get_id();
  }

  const std::thread::id me_ = std::this_thread::get_id();
  const std::thread::id other_ = IdOfAnother();
  Holders holders_;
};

TEST_F(EngineHoldersTest, WhoHoldsNothingDoesNotWaitForItself) {
  EXPECT_FALSE(holders_.NoteAsking(me_));
  EXPECT_FALSE(holders_.AllAsk());
  EXPECT_EQ(holders_.HeldBy(me_), 0u);
}

TEST_F(EngineHoldersTest, AllAskOnceEachHolderDoes) {
  holders_.NoteTaken(me_);
  holders_.NoteTaken(other_);
  EXPECT_TRUE(holders_.NoteAsking(me_));
  EXPECT_FALSE(holders_.AllAsk());
  EXPECT_TRUE(holders_.NoteAsking(other_));
  EXPECT_TRUE(holders_.AllAsk());
  EXPECT_FALSE(holders_.IsOne());
}

TEST_F(EngineHoldersTest, WhoTakesOrLetsGoDoesNotAskAnyMore) {
  holders_.NoteTaken(me_);
  holders_.NoteTaken(me_);
  holders_.NoteAsking(me_);
  holders_.NoteBack(me_);
  EXPECT_EQ(holders_.HeldBy(me_), 1u);
  EXPECT_FALSE(holders_.AllAsk());
  holders_.NoteAsking(me_);
  EXPECT_TRUE(holders_.AllAsk());
  holders_.NoteTaken(me_);
  EXPECT_FALSE(holders_.AllAsk());
}

TEST_F(EngineHoldersTest, WhoHoldsNothingMoreIsForgotten) {
  holders_.NoteTaken(me_);
  holders_.NoteTaken(other_);
  holders_.NoteAsking(me_);
  holders_.NoteBack(other_);
  EXPECT_TRUE(holders_.IsOne());
  EXPECT_TRUE(holders_.AllAsk());
}

}  // namespace
}  // namespace ringfeed
