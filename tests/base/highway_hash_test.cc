#include "base/highway_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace ringfeed {
namespace {

// Riegeli's key, with which the hashes below were made by riegeli bc17eea and Google's highwayhash.
constexpr HighwayKey kRiegeliKey = {0x2f696c6567656952, 0x0a7364726f636572, 0x2f696c6567656952,
                                    0x0a7364726f636572};

std::uint64_t HashOf(const std::string& text) {
  return HighwayHash64(std::as_bytes(std::span(text)), kRiegeliKey);
}

TEST(HighwayHashTest, ItIsTheHashOfTheFirstImplementation) {
  std::string ascending(33, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(HashOf(""), 0x72c3b1e9c0139fe1);
  EXPECT_EQ(HashOf("a"), 0x24793c7da388949f);
  EXPECT_EQ(HashOf("abc"), 0x672fe946c18d0ed9);
  EXPECT_EQ(HashOf(std::string(8, '\0') + "\x40" + std::string(7, '\0')), 0x3f4a880dd170af83);
  EXPECT_EQ(HashOf("abcdefghijklmnopqrs"), 0xe81b3f8bbd718681);
  EXPECT_EQ(HashOf(ascending), 0xec2f920014eaa741);
}

// The published vectors (highwayhash/highwayhash_test.cc there): key and bytes count from 0.
TEST(HighwayHashTest, ItGivesThePublishedVectors) {
  constexpr HighwayKey kKey = {0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x1716151413121110,
                               0x1f1e1d1c1b1a1918};
  constexpr std::array<std::uint64_t, 4> kFirst = {0x907a56de22c26e53, 0x7eab43aac7cddd78,
                                                   0xb8d0569ab0b53d62, 0x5c6befab8a463d80};
  std::vector<std::byte> bytes;
  for (const std::uint64_t expected : kFirst) {
    EXPECT_EQ(HighwayHash64(bytes, kKey), expected) << bytes.size();
    bytes.push_back(static_cast<std::byte>(bytes.size()));
  }
}

}  // namespace
}  // namespace ringfeed
