#include "tools/base64.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringfeed::tools {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::vector<std::byte> Bytes(std::string_view text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

std::string Encoded(const std::vector<std::byte>& bytes) {
  std::string text;
  AppendBase64(bytes, &text);
  return text;
}

// By the definition, bit for bit.
std::string Reference(const std::vector<std::byte>& bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int have = 0;
  for (const std::byte byte : bytes) {
    bits = bits << 8 | std::to_integer<std::uint32_t>(byte);
    for (have += 8; have >= 6; have -= 6) text += kAlphabet[bits >> (have - 6) & 63];
  }
  if (have > 0) text += kAlphabet[bits << (6 - have) & 63];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

std::vector<std::byte> Pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = static_cast<std::uint32_t>(size) + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

std::string Refusal(std::string_view text) {
  std::vector<std::byte> bytes;
  const Status status = DecodeBase64(text, &bytes);
  EXPECT_EQ(status.code(), StatusCode::kDamaged) << text;
  return status.message();
}

TEST(Base64, VectorsOfRfc4648) {
  EXPECT_EQ(Encoded(Bytes("")), "");
  EXPECT_EQ(Encoded(Bytes("f")), "Zg==");
  EXPECT_EQ(Encoded(Bytes("fo")), "Zm8=");
  EXPECT_EQ(Encoded(Bytes("foo")), "Zm9v");
  EXPECT_EQ(Encoded(Bytes("foob")), "Zm9vYg==");
  EXPECT_EQ(Encoded(Bytes("fooba")), "Zm9vYmE=");
  EXPECT_EQ(Encoded(Bytes("foobar")), "Zm9vYmFy");
}

TEST(Base64, EveryLengthComesBack) {
  for (std::size_t size = 0; size <= 200; ++size) {
    const std::vector<std::byte> bytes = Pattern(size);
    const std::string text = Encoded(bytes);
    ASSERT_EQ(text, Reference(bytes)) << size;
    std::vector<std::byte> back = Pattern(7);
    ASSERT_TRUE(DecodeBase64(text, &back).ok()) << size;
    ASSERT_EQ(back, bytes) << size;
  }
}

TEST(Base64, EveryPairOfBytesComesBack) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 65536; ++i) {
    bytes.push_back(static_cast<std::byte>(i >> 8));
    bytes.push_back(static_cast<std::byte>(i));
  }
  const std::string text = Encoded(bytes);
  EXPECT_EQ(text, Reference(bytes));
  std::vector<std::byte> back;
  ASSERT_TRUE(DecodeBase64(text, &back).ok());
  EXPECT_EQ(back, bytes);
}

TEST(Base64, AppendsToWhatIsThere) {
  std::string text = "x:";
  AppendBase64(Bytes("foo"), &text);
  EXPECT_EQ(text, "x:Zm9v");
}

TEST(Base64, EveryByteOutsideOfTheAlphabetIsNamedAtEveryPlace) {
  const std::string good = Encoded(Pattern(10));
  for (std::size_t place = 0; place < 14; ++place) {
    for (int value = 0; value < 256; ++value) {
      const char c = static_cast<char>(value);
      if (kAlphabet.find(c) != std::string_view::npos) continue;
      std::string text = good;
      text[place] = c;
      const std::string why = Refusal(text);
      EXPECT_TRUE(why.starts_with("character " + std::to_string(place + 1) + ": ")) << why;
    }
  }
}

TEST(Base64, LengthsThatAreNoGroupsAreRefused) {
  const std::string good = Encoded(Pattern(30));
  for (std::size_t size = 1; size < good.size(); ++size) {
    if (size % 4 == 0) continue;
    EXPECT_NE(Refusal(good.substr(0, size)).find("group"), std::string::npos) << size;
  }
}

TEST(Base64, PaddingStandsAtTheEndAlone) {
  for (const std::string_view text :
       {"=", "==", "===", "====", "A===", "=AAA", "A=AA", "AA=A",
        "AAAA=", "AAAA==", "AAAA====", "Zg==Zg==", "Zm8=Zm8=", "AAAAA===", "Zg=", "Zg"}) {
    EXPECT_NE(Refusal(text), "") << text;
  }
}

TEST(Base64, BitsBehindTheLastByteAreZero) {
  EXPECT_NE(Refusal("Zh==").find("bits"), std::string::npos);
  EXPECT_NE(Refusal("Zm9=").find("bits"), std::string::npos);
  EXPECT_NE(Refusal("Zm9vZh==").find("character 6"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed::tools
