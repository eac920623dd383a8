#include "ringfeed/compat/scope.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/status.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class ScopeTest : public PipelineTest {
 protected:
  Scope scope_;
};

TEST_F(ScopeTest, AVariableIsMadeOnceAndKeepsItsAddress) {
  int& number = scope_.Var<int>("number");
  number = 7;
  for (int i = 0; i < 100; ++i) scope_.Var<int>("other" + std::to_string(i));
  EXPECT_EQ(&scope_.Var<int>("number"), &number);
  EXPECT_EQ(&scope_.Get<int>("number"), &number);
  EXPECT_EQ(scope_.Find<int>("number"), &number);
  EXPECT_EQ(scope_.Names().size(), 101U);
}

TEST_F(ScopeTest, WhatIsNotThereIsNamedWithTheTypeExpected) {
  EXPECT_EQ(scope_.Find<int>("x"), nullptr);
  EXPECT_FALSE(scope_.Has("x"));
  try {
    scope_.Get<ReaderHolder>("x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kNotFound);
    EXPECT_EQ(error.status().message(),
              "there is no variable \"x\", expected a ringfeed::ReaderHolder");
  }
}

TEST_F(ScopeTest, AnotherTypeIsAnErrorThatNamesBoth) {
  scope_.Var<int>("x");
  EXPECT_EQ(scope_.Find<Tensor>("x"), nullptr);
  const auto expect_both_named = [](auto call) {
    try {
      call();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.status().message(), "the variable \"x\" is a int, not a ringfeed::Tensor");
    }
  };
  expect_both_named([&] { scope_.Get<Tensor>("x"); });
  expect_both_named([&] { scope_.Var<Tensor>("x"); });
}

TEST_F(ScopeTest, ThreadsThatMakeTheSameVariableGetTheSame) {
  std::vector<int*> found(8);
  std::vector<std::thread> threads;
  for (int*& mine : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) mine = &scope_.Var<int>("v" + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, std::vector<int*>(8, &scope_.Get<int>("v199")));
}

TEST_F(ScopeTest, AVariableMayBeSharedWithItsOtherOwners) {
  const auto number = std::make_shared<int>(7);
  Scope scope;
  scope.Put("number", number);
  *number = 8;
  EXPECT_EQ(scope.Get<int>("number"), 8);
  EXPECT_EQ(&scope.Var<int>("number"), number.get());
  EXPECT_THROW(scope.Put("number", number), Error);
  EXPECT_THROW(scope.Put("none", std::shared_ptr<int>()), Error);
  EXPECT_THROW(scope.Get<double>("number"), Error);
  EXPECT_FALSE(scope.Has("none"));
}

TEST_F(ScopeTest, AHolderReadsItsReader) {
  auto& holder = scope_.Var<ReaderHolder>("records");
  holder.Reset(OpenFiles(MakeFiles(1, 3, 8, 8), Options()));
  ASSERT_TRUE(scope_.Get<ReaderHolder>("records").HasNext());
  EXPECT_EQ(holder.shapes(), std::vector<Shape>{{-1}});
  EXPECT_EQ(Drain(holder.Get()).ids, Numbers(3));
  EXPECT_FALSE(holder.HasNext());
  EXPECT_THROW(holder.ReadNext(), EndOfData);
  holder.ReInit();
  EXPECT_EQ(Drain(holder.Get()).ids, Numbers(3));
  holder.ResetAll();
  EXPECT_EQ(holder.ReadNext().size(), 1U);
}

TEST_F(ScopeTest, AnEmptyHolderRefusesToRead) {
  auto& holder = scope_.Var<ReaderHolder>("records");
  EXPECT_TRUE(holder.empty());
  EXPECT_THROW(holder.ReadNext(), Error);
  EXPECT_THROW(holder.HasNext(), Error);
  holder.Reset(OpenFiles(MakeFiles(1, 3, 8, 8), Options()));
  EXPECT_FALSE(holder.empty());
  holder.Clear();
  EXPECT_TRUE(holder.empty());
  EXPECT_THROW(holder.Get(), Error);
}

}  // namespace
}  // namespace ringfeed
