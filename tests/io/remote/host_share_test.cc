#include "io/remote/host_share.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ringfeed {
namespace {

std::size_t TakeAll(HostShare* share) {
  std::size_t taken = 0;
  while (share->Take()) ++taken;
  return taken;
}

TEST(HostShareTest, OneEngineHasAllOfAHostAndHostsAreApart) {
  HostShare one("one:80");
  HostShare other("other:80");
  EXPECT_EQ(TakeAll(&one), HostShare::kMostOfHost);
  EXPECT_EQ(TakeAll(&other), HostShare::kMostOfHost);
}

TEST(HostShareTest, EnginesShareAHostEvenly) {
  HostShare first("host:443");
  HostShare second("host:443");
  EXPECT_EQ(TakeAll(&first), HostShare::kMostOfHost / 2);
  EXPECT_EQ(TakeAll(&second), HostShare::kMostOfHost / 2);
}

TEST(HostShareTest, OneThatComesLaterGetsWhatTheOthersGive) {
  HostShare first("host:443");
  EXPECT_EQ(TakeAll(&first), HostShare::kMostOfHost);
  HostShare second("host:443");
  EXPECT_FALSE(second.Take());
  first.Give();
  EXPECT_FALSE(first.Take());  // it has more than its share
  EXPECT_TRUE(second.Take());
}

TEST(HostShareTest, WhatAnEngineHeldIsFreeWhenItLeaves) {
  auto first = std::make_unique<HostShare>("host:443");
  HostShare second("host:443");
  EXPECT_GT(TakeAll(first.get()), 0u);
  first.reset();
  EXPECT_EQ(TakeAll(&second), HostShare::kMostOfHost);
}

TEST(HostShareTest, MoreEnginesThanRequestsTakeTurns) {
  std::vector<std::unique_ptr<HostShare>> shares;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < 2 * HostShare::kMostOfHost; ++i) {
    shares.push_back(std::make_unique<HostShare>("host:443"));
  }
  for (const auto& share : shares) taken += TakeAll(share.get());
  EXPECT_EQ(taken, HostShare::kMostOfHost);
  shares.front()->Give();
  EXPECT_TRUE(shares.back()->Take());
}

}  // namespace
}  // namespace ringfeed
